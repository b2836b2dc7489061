#include "runtime/mpi/mpi_collective.h"

#include "base/error.h"

#include <mpi.h>

#include <algorithm>
#include <exception>
#include <limits>

namespace lathe {
namespace {

void must(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  device_error("{}: {}", call, std::string_view(text, static_cast<size_t>(length)));
}

MPI_Datatype type_of(DType d) {
  switch (d) {
    case DType::Float32: return MPI_FLOAT;
    case DType::Float64: return MPI_DOUBLE;
    case DType::Int32: return MPI_INT32_T;
    case DType::Int64: return MPI_INT64_T;
    default: type_error("sums over processes are of float, double, int or long, not of {}", dtype_name(d));
  }
}

// Counts of MPI are ints: calls f(first byte, elements) for pieces of as many as fit.
void in_pieces(Buffer& buffer, size_t item, auto f) {
  constexpr size_t kMost = std::numeric_limits<int>::max();
  auto* at = static_cast<std::byte*>(buffer.data());
  for (size_t left = buffer.size() / item; left > 0;) {
    const size_t n = std::min(left, kMost);
    f(at, static_cast<int>(n));
    at += n * item;
    left -= n;
  }
}

class MpiCollective final : public Collective {
 public:
  MpiCollective(int* argc, char*** argv) {
    must(MPI_Init(argc, argv), "MPI_Init");
    must(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    must(MPI_Comm_rank(MPI_COMM_WORLD, &rank_), "MPI_Comm_rank");
    must(MPI_Comm_size(MPI_COMM_WORLD, &size_), "MPI_Comm_size");
  }
  // The others may wait for a process that leaves with an error.
  ~MpiCollective() override { std::uncaught_exceptions() ? MPI_Abort(MPI_COMM_WORLD, 1) : MPI_Finalize(); }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_reduce(Buffer& values, DType dtype) override {
    const MPI_Datatype type = type_of(dtype);
    in_pieces(values, static_cast<size_t>(item_size(dtype)), [&](void* at, int n) {
      must(MPI_Allreduce(MPI_IN_PLACE, at, n, type, MPI_SUM, MPI_COMM_WORLD), "MPI_Allreduce");
    });
    values.mark_written();
  }
  void broadcast(Buffer& bytes, int root) override {
    in_pieces(bytes, 1,
              [&](void* at, int n) { must(MPI_Bcast(at, n, MPI_BYTE, root, MPI_COMM_WORLD), "MPI_Bcast"); });
    bytes.mark_written();
  }
  void barrier() override { must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }

 private:
  int rank_ = 0, size_ = 1;
};

}  // namespace

std::unique_ptr<Collective> make_mpi_collective(int* argc, char*** argv) {
  return std::make_unique<MpiCollective>(argc, argv);
}

}  // namespace lathe

// Kernels of the host that run one after the other, on threads that meet only where they have to.
#pragma once
#include "runtime/program.h"

#include <span>
#include <vector>

namespace lathe {

// Bytes that a kernel reads or writes.
struct MemoryUse {
  const void* memory;  // what tells pieces of memory apart
  size_t begin, end;
  bool is_written;
};

// Kernels are added in an order that is right; they run in it except where nothing they share tells the
// difference. One that is not split over threads runs on the thread of those it depends on, where there is
// one. Threads meet only before a kernel that depends on what another thread did since they last met.
class Region {
 public:
  // `arguments` is the position of the kernel's first buffer in what run() gets, `vars` that of its first
  // variable. `work` weighs kernels against each other: loop trips, about.
  void add(HostEntry entry, int n_cores, size_t arguments, size_t vars, double work,
           std::span<const MemoryUse> uses);
  void run(void* const* arguments, const int64_t* vars) const;

  size_t n_kernels() const { return kernels_.size(); }
  size_t n_meetings() const { return n_meetings_; }

 private:
  static constexpr int kEvery = -1;  // worker: the kernel is split over all
  struct Kernel {
    HostEntry entry;
    size_t arguments, vars;
    int n_cores;
    int worker;
    bool meets;  // threads meet before it
  };
  struct Use {
    MemoryUse use;
    int worker;
  };
  int least_busy() const;

  std::vector<Kernel> kernels_;
  size_t n_meetings_ = 0;
  // Since the threads last met:
  std::vector<Use> uses_;
  std::vector<double> busy_;  // work of each worker
};

}  // namespace lathe

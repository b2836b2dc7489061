// Processes that compute together.
#pragma once
#include "runtime/buffer.h"
#include "uop/dtype.h"

namespace lathe {

// What each of `size` processes calls, all in the same order: a call returns once its part is done here.
// Buffers lie in memory that the host sees. DeviceError where the processes lost each other.
class Collective {
 public:
  virtual ~Collective() = default;
  virtual int rank() const = 0;  // of this process, from 0
  virtual int size() const = 0;
  // Every process gets the sum over all, in place and with the same bits. Float32, Float64, Int32 and Int64;
  // TypeError for others.
  virtual void all_reduce(Buffer& values, DType dtype) = 0;
  // Every process gets the bytes of `root`.
  virtual void broadcast(Buffer& bytes, int root = 0) = 0;
  virtual void barrier() = 0;
};

// One process.
class Alone final : public Collective {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_reduce(Buffer&, DType) override {}
  void broadcast(Buffer&, int) override {}
  void barrier() override {}
};

}  // namespace lathe

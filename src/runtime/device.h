// Devices by name.
#pragma once
#include "renderer/renderer.h"
#include "renderer/target.h"
#include "runtime/allocator.h"
#include "runtime/buffer.h"
#include "runtime/program.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

class Device {
 public:
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  // Canonical: "CPU", "CPU:1", "CPU:C", "NULL:3".
  const std::string& name() const { return name_; }
  virtual const Target& target() const = 0;
  // Null where programs run as they are.
  virtual const Renderer* renderer() const { return nullptr; }
  MemoryPool& memory() { return memory_; }

  // Compiles where needed. A DeviceError holds the compiler's message.
  virtual std::unique_ptr<Program> load(const KernelSource& kernel) = 0;
  // Returns when everything launched so far is done.
  virtual void synchronize() {}

 protected:
  Device(std::string name, std::unique_ptr<Allocator> allocator)
      : name_(std::move(name)), memory_(name_, std::move(allocator)) {}

 private:
  std::string name_;
  MemoryPool memory_;
};

// Names are KIND[:RENDERER][:INDEX], in any case, in either order of the last two. The kind's first renderer
// and index 0 are left out of the canonical name, so "cpu:llvm:0" is "CPU". A UserError lists the known
// kinds.
std::string canonical_device_name(std::string_view name);

// Whether a canonical name is that of a file, "DISK:/absolute/path". Its device is a CPU: the caller maps the
// file for buffers that are meant to be in it, all others are in memory.
bool is_disk(std::string_view name);

// The device of that name, made on first use and kept for the life of the process. Any index gives a device
// of its own. Thread-safe.
Device& device(std::string_view name);

// What DEV names (the first of several joined by ';'), CPU when it is empty.
Device& default_device();

// "CPU", "CPU:C", …: a name for every kind and renderer.
std::vector<std::string> known_devices();

}  // namespace lathe

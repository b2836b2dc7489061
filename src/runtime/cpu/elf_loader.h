// A small loader of x86-64 ELF relocatable objects: enough for kernels, so that running a cached one needs no
// linker and no LLVM.
#pragma once
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>

namespace lathe {

// What compiled kernels may call outside their own object: the address of a libc, libm or compiler-support
// function from a fixed list; null for any other name.
const void* external_symbol(std::string_view name);

// The sections of one object, mapped and relocated; code is executable and not writable. Unmapped on
// destruction.
class LoadedObject {
 public:
  // `bytes` may be anything: what is not a well-formed object, or asks for what this loader lacks, is a
  // DeviceError.
  static std::unique_ptr<LoadedObject> load(std::string_view bytes);
  ~LoadedObject();
  LoadedObject(const LoadedObject&) = delete;
  LoadedObject& operator=(const LoadedObject&) = delete;

  // The address of a global function or object; null when the object does not define it.
  const void* symbol(std::string_view name) const;

 private:
  friend class ObjectReader;
  LoadedObject() = default;
  std::byte* base_ = nullptr;
  size_t size_ = 0;
  std::unordered_map<std::string, const void*> symbols_;
};

}  // namespace lathe

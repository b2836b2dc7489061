#include "runtime/cpu/cpu_id.h"

#include <algorithm>
#include <cstring>
#include <vector>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace lathe {
namespace {

#if defined(__x86_64__)

void add_leaf(std::vector<unsigned>& words, unsigned leaf, unsigned subleaf, unsigned keep_ebx) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  __get_cpuid_count(leaf, subleaf, &a, &b, &c, &d);
  words.insert(words.end(), {a, b & keep_ebx, c, d});
}

std::vector<unsigned> describe() {
  std::vector<unsigned> words;
  add_leaf(words, 0, 0, ~0u);           // vendor
  add_leaf(words, 1, 0, 0);             // family, model, features; EBX names the core it runs on
  add_leaf(words, 7, 0, ~0u);           // features
  add_leaf(words, 7, 1, ~0u);           // features
  add_leaf(words, 0x80000001, 0, ~0u);  // features
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE)) {
    unsigned low = 0, high = 0;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));  // register files that the system saves
    words.insert(words.end(), {low, high});
  }
  return words;
}

// Leaves 0x80000002 to 4 hold 48 characters, blanks or zeros where the name is shorter.
std::string brand() {
  char text[49] = {};
  unsigned words[4];
  for (unsigned i = 0; i < 3; i++) {
    if (!__get_cpuid(0x80000002 + i, &words[0], &words[1], &words[2], &words[3])) return {};
    std::memcpy(text + 16 * i, words, 16);
  }
  std::string name = text;
  name.erase(name.find_last_not_of(' ') + 1);
  return name.substr(std::min(name.find_first_not_of(' '), name.size()));
}

#else

// Only x86-64 objects are loaded (elf_loader.h).
std::vector<unsigned> describe() { return {}; }
std::string brand() { return {}; }

#endif

}  // namespace

Hash128 cpu_id() {
  static const Hash128 kId = [] {
    std::vector<unsigned> words = describe();
    return hash_bytes(words.data(), words.size() * sizeof(unsigned));
  }();
  return kId;
}

std::string cpu_name() { return brand(); }

}  // namespace lathe

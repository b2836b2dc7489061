#include "runtime/cpu/elf_loader.h"

#include "base/error.h"

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

namespace lathe {
namespace {

constexpr size_t kMaxImage = size_t{256} << 20;  // bytes; a kernel's sections are a few KiB
constexpr size_t kMaxAlign = 4096;
constexpr size_t kNowhere = std::numeric_limits<size_t>::max();
// The address of a symbol that code reaches indirectly, behind a jump through it.
struct Entry {
  unsigned char jump[8] = {0xff, 0x25, 2, 0,
                           0,    0,    0, 0};  // jmp *2(%rip), counted from the end of its six bytes
  uint64_t address;
};

// Parts of the image by protection, in address order. Entries end the code.
enum Part { kCode, kConstants, kData, kNumParts };

size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

template <class... T>
[[noreturn]] void bad_object(fmt::format_string<T...> format, T&&... args) {
  device_error("cannot load the compiled kernel: {}", fmt::format(format, std::forward<T>(args)...));
}

}  // namespace

class ObjectReader {
 public:
  explicit ObjectReader(std::string_view bytes) : bytes_(bytes) {}

  std::unique_ptr<LoadedObject> load() {
    read_headers();
    read_symbols();
    collect_references();
    lay_out();
    map();
    for (const Elf64_Shdr& section : sections_)
      if (section.sh_type == SHT_RELA && is_loaded(section.sh_info)) relocate(section);
    protect();
    export_symbols();
    return std::move(out_);
  }

 private:
  template <class T>
  T read(uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof(T))
      bad_object("truncated: {} bytes at {} of {}", sizeof(T), offset, bytes_.size());
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof(T));
    return value;
  }

  std::string_view contents(const Elf64_Shdr& section) const {
    if (section.sh_offset > bytes_.size() || bytes_.size() - section.sh_offset < section.sh_size)
      bad_object("a section of {} bytes at {} leaves the file of {}", section.sh_size, section.sh_offset,
                 bytes_.size());
    return bytes_.substr(section.sh_offset, section.sh_size);
  }

  static std::string_view text_at(std::string_view table, uint64_t offset) {
    if (offset >= table.size())
      bad_object("a name at {} of a string table of {} bytes", offset, table.size());
    size_t end = table.find('\0', offset);
    if (end == std::string_view::npos) bad_object("a name without an end");
    return table.substr(offset, end - offset);
  }

  bool is_loaded(size_t section) const { return section < place_.size() && part_[section] != kNumParts; }

  void read_headers() {
    auto header = read<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) bad_object("not an ELF file");
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
        header.e_machine != EM_X86_64 || header.e_type != ET_REL)
      bad_object("not an x86-64 relocatable object (machine {}, type {})", header.e_machine, header.e_type);
    if (header.e_shentsize != sizeof(Elf64_Shdr))
      bad_object("section headers of {} bytes", header.e_shentsize);
    for (size_t i = 0; i < header.e_shnum; i++)
      sections_.push_back(read<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    if (header.e_shstrndx >= sections_.size()) bad_object("no table of section names");
    std::string_view names = contents(sections_[header.e_shstrndx]);
    place_.assign(sections_.size(), kNowhere);
    part_.assign(sections_.size(), kNumParts);
    for (size_t i = 0; i < sections_.size(); i++) classify(i, text_at(names, sections_[i].sh_name));
  }

  void classify(size_t i, std::string_view name) {
    const Elf64_Shdr& section = sections_[i];
    if (!(section.sh_flags & SHF_ALLOC) || section.sh_size == 0 || name == ".eh_frame") return;
    if (section.sh_type == SHT_INIT_ARRAY || section.sh_type == SHT_FINI_ARRAY || section.sh_flags & SHF_TLS)
      bad_object("section {} needs a full loader", name);
    if (section.sh_type != SHT_PROGBITS && section.sh_type != SHT_NOBITS) return;
    if (section.sh_type == SHT_PROGBITS) contents(section);
    if (section.sh_addralign > kMaxAlign || (section.sh_addralign & (section.sh_addralign - 1)))
      bad_object("section {} is aligned to {}", name, section.sh_addralign);
    part_[i] = section.sh_flags & SHF_EXECINSTR ? kCode : section.sh_flags & SHF_WRITE ? kData : kConstants;
  }

  void read_symbols() {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type != SHT_SYMTAB) continue;
      if (!symbols_.empty()) bad_object("two symbol tables");
      if (section.sh_link >= sections_.size()) bad_object("a symbol table without names");
      names_ = contents(sections_[section.sh_link]);
      contents(section);
      for (uint64_t at = 0; at + sizeof(Elf64_Sym) <= section.sh_size; at += sizeof(Elf64_Sym))
        symbols_.push_back(read<Elf64_Sym>(section.sh_offset + at));
    }
    entry_.assign(symbols_.size(), kNowhere);
  }

  template <class F>
  void for_each_relocation(const Elf64_Shdr& table, F f) const {
    contents(table);
    if (table.sh_entsize != sizeof(Elf64_Rela)) bad_object("relocations of {} bytes", table.sh_entsize);
    for (uint64_t at = 0; at + sizeof(Elf64_Rela) <= table.sh_size; at += sizeof(Elf64_Rela)) {
      auto relocation = read<Elf64_Rela>(table.sh_offset + at);
      if (ELF64_R_SYM(relocation.r_info) >= symbols_.size())
        bad_object("a relocation names symbol {} of {}", ELF64_R_SYM(relocation.r_info), symbols_.size());
      f(relocation);
    }
  }

  bool is_external(size_t symbol) const { return symbol && symbols_[symbol].st_shndx == SHN_UNDEF; }

  static bool needs_slot(uint32_t type) {
    return type == R_X86_64_GOTPCREL || type == R_X86_64_GOTPCRELX || type == R_X86_64_REX_GOTPCRELX;
  }

  // Which symbols need an entry: those whose address is read from a table, and functions of the process,
  // which may lie further away than a 32-bit displacement reaches.
  void collect_references() {
    for (const Elf64_Shdr& section : sections_) {
      if (section.sh_type == SHT_REL && is_loaded(section.sh_info)) bad_object("relocations without addends");
      if (section.sh_type != SHT_RELA || !is_loaded(section.sh_info)) continue;
      for_each_relocation(section, [&](const Elf64_Rela& relocation) {
        const size_t symbol = ELF64_R_SYM(relocation.r_info);
        if ((is_external(symbol) || needs_slot(ELF64_R_TYPE(relocation.r_info))) &&
            entry_[symbol] == kNowhere)
          entry_[symbol] = num_entries_++;
      });
    }
  }

  void lay_out() {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_t at = 0;
    for (int part = kCode; part < kNumParts; part++) {
      part_start_[part] = at = round_up(at, page);
      for (size_t i = 0; i < sections_.size(); i++) {
        if (part_[i] != part) continue;
        at = round_up(at, std::max<size_t>(sections_[i].sh_addralign, 1));
        place_[i] = at;
        if (sections_[i].sh_size > kMaxImage - std::min(at, kMaxImage))
          bad_object("an image above {} bytes", kMaxImage);
        at += sections_[i].sh_size;
      }
      if (part == kCode) at = (entries_ = round_up(at, sizeof(Entry))) + num_entries_ * sizeof(Entry);
    }
    part_start_[kNumParts] = round_up(std::max<size_t>(at, 1), page);
  }

  void map() {
    out_.reset(new LoadedObject);
    const size_t size = part_start_[kNumParts];
    void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) bad_object("no memory for {} bytes of code: {}", size, std::strerror(errno));
    out_->base_ = base_ = static_cast<std::byte*>(memory);
    out_->size_ = size;
    for (size_t i = 0; i < sections_.size(); i++)
      if (is_loaded(i) && sections_[i].sh_type == SHT_PROGBITS)
        std::memcpy(base_ + place_[i], contents(sections_[i]).data(), sections_[i].sh_size);
    for (size_t symbol = 0; symbol < symbols_.size(); symbol++) {
      if (entry_[symbol] == kNowhere) continue;
      const Entry entry{.address = address_of(symbol)};
      std::memcpy(entry_of(symbol), &entry, sizeof(entry));
    }
  }

  std::byte* entry_of(size_t symbol) const { return base_ + entries_ + entry_[symbol] * sizeof(Entry); }

  uint64_t address_of(size_t symbol) const {
    const Elf64_Sym& s = symbols_[symbol];
    if (symbol == 0) return 0;
    if (s.st_shndx == SHN_ABS) return s.st_value;
    if (s.st_shndx == SHN_UNDEF) {
      std::string_view name = text_at(names_, s.st_name);
      const void* address = external_symbol(name);
      if (!address) bad_object("undefined symbol {}", name);
      return reinterpret_cast<uint64_t>(address);
    }
    if (ELF64_ST_TYPE(s.st_info) == STT_GNU_IFUNC || ELF64_ST_TYPE(s.st_info) == STT_TLS ||
        !is_loaded(s.st_shndx))
      bad_object("symbol {} lies in section {}, which is not loaded", symbol, s.st_shndx);
    if (s.st_value > sections_[s.st_shndx].sh_size) bad_object("symbol {} lies outside its section", symbol);
    return reinterpret_cast<uint64_t>(base_ + place_[s.st_shndx]) + s.st_value;
  }

  void relocate(const Elf64_Shdr& table) {
    const Elf64_Shdr& section = sections_[table.sh_info];
    if (section.sh_type != SHT_PROGBITS) bad_object("relocations of a section without contents");
    for_each_relocation(table, [&](const Elf64_Rela& relocation) {
      const auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocation.r_info));
      const size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
      if (type == R_X86_64_NONE) return;
      if (relocation.r_offset > section.sh_size || section.sh_size - relocation.r_offset < width)
        bad_object("a relocation at {} of a section of {} bytes", relocation.r_offset, section.sh_size);
      std::byte* where = base_ + place_[table.sh_info] + relocation.r_offset;
      const uint64_t value = relocated(type, relocation, reinterpret_cast<uint64_t>(where));
      std::memcpy(where, &value, width);
    });
  }

  // S, A, P and G as in the x86-64 ABI: symbol, addend, place, address of an entry. Sums wrap by definition.
  uint64_t relocated(uint32_t type, const Elf64_Rela& relocation, uint64_t place) const {
    const size_t symbol = ELF64_R_SYM(relocation.r_info);
    const auto addend = static_cast<uint64_t>(relocation.r_addend);
    switch (type) {
      case R_X86_64_64: return address_of(symbol) + addend;
      case R_X86_64_PC64: return address_of(symbol) + addend - place;
      case R_X86_64_PC32:
      case R_X86_64_PLT32: return signed32(near_address(symbol) + addend - place);
      case R_X86_64_GOTPCREL:
      case R_X86_64_GOTPCRELX:
      case R_X86_64_REX_GOTPCRELX:
        return signed32(reinterpret_cast<uint64_t>(entry_of(symbol) + offsetof(Entry, address)) + addend -
                        place);
      case R_X86_64_32: {
        const uint64_t value = address_of(symbol) + addend;
        if (value >> 32)
          bad_object("an address does not fit 32 bits: the object is not position independent");
        return value;
      }
      case R_X86_64_32S: return signed32(address_of(symbol) + addend);
      default: bad_object("relocation type {} is not supported", type);
    }
  }

  uint64_t near_address(size_t symbol) const {
    return is_external(symbol) ? reinterpret_cast<uint64_t>(entry_of(symbol)) : address_of(symbol);
  }

  static uint64_t signed32(uint64_t value) {
    const auto distance = static_cast<int64_t>(value);
    if (distance != static_cast<int32_t>(distance)) bad_object("a displacement does not fit 32 bits");
    return value;
  }

  void protect() {
    static constexpr int kProtection[kNumParts] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};
    for (int part = kCode; part < kData; part++) {
      const size_t size = part_start_[part + 1] - part_start_[part];
      if (size && mprotect(base_ + part_start_[part], size, kProtection[part]) != 0)
        bad_object("cannot protect {} bytes: {}", size, std::strerror(errno));
    }
  }

  void export_symbols() {
    for (size_t symbol = 1; symbol < symbols_.size(); symbol++) {
      const Elf64_Sym& s = symbols_[symbol];
      if (ELF64_ST_BIND(s.st_info) == STB_LOCAL || s.st_shndx == SHN_UNDEF || !is_loaded(s.st_shndx))
        continue;
      out_->symbols_.emplace(text_at(names_, s.st_name), reinterpret_cast<const void*>(address_of(symbol)));
    }
  }

  std::string_view bytes_;
  std::string_view names_;
  std::vector<Elf64_Shdr> sections_;
  std::vector<size_t> place_;  // offset of each section in the image
  std::vector<int> part_;      // its Part, kNumParts when it is not loaded
  std::vector<Elf64_Sym> symbols_;
  std::vector<size_t> entry_;  // per symbol: index of its Entry
  size_t num_entries_ = 0;
  size_t entries_ = 0;  // where they start in the image
  std::array<size_t, kNumParts + 1> part_start_{};
  std::byte* base_ = nullptr;
  std::unique_ptr<LoadedObject> out_;
};

std::unique_ptr<LoadedObject> LoadedObject::load(std::string_view bytes) {
  return ObjectReader(bytes).load();
}

LoadedObject::~LoadedObject() {
  if (base_) munmap(base_, size_);
}

const void* LoadedObject::symbol(std::string_view name) const {
  auto found = symbols_.find(std::string(name));
  return found == symbols_.end() ? nullptr : found->second;
}

}  // namespace lathe

#include "formats/torch.h"

#include "archive/little_endian.h"
#include "archive/parsing.h"
#include "archive/tar.h"
#include "archive/zip.h"
#include "formats/pickle.h"
#include "formats/torch_rebuild.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <unordered_map>

namespace lathe {
namespace {

using Kind = PickleValue::Kind;
using Bytes = std::span<const std::byte>;

// What the stream of pickles starts with: protocol 2 and the number 0x1950a86a20f9469cfc6c.
constexpr std::string_view kMagicPickle = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";

TorchTensor whole_storage(Bytes bytes, DType dtype) {
  TorchTensor out;
  out.dtype = dtype;
  out.shape = {static_cast<int64_t>(bytes.size()) / item_size(dtype)};
  out.strides = {1};
  out.storage = bytes;
  return out;
}

// Of keys and names of classes; more than any of them, and as little as may be looked at for every reference.
constexpr size_t kMaxText = 1024;

// ('storage', class, key, location, number of elements, …)
struct StorageId {
  TorchType type = {};
  std::string key = {};
  uint64_t bytes = 0;
  const PickleValue* view = nullptr;  // none, or (key, offset, number of elements)
};

// Why there is none; "" where there is.
std::string read_storage_id(const Pickle& pickle, const PickleValue& persistent, StorageId& out) {
  const auto& id = pickle[persistent.items[0]].items;
  if (id.size() < 5 || pickle[id[0]].text != "storage" || pickle[id[4]].kind != Kind::Int ||
      pickle[id[4]].integer < 0 || std::max(pickle[id[1]].text.size(), pickle[id[2]].text.size()) > kMaxText)
    return "a persistent id is not that of a storage";
  const auto type = torch_storage_type(pickle[id[1]]);
  if (!type) return fmt::format("unknown storage `{}`", pickle[id[1]].text);
  out = {*type, pickle[id[2]].text, 0,
         id.size() > 5 && pickle[id[5]].kind == Kind::Sequence ? &pickle[id[5]] : nullptr};
  if (__builtin_mul_overflow(static_cast<uint64_t>(pickle[id[4]].integer), static_cast<uint64_t>(type->bytes),
                             &out.bytes))
    return fmt::format("storage `{}` has 2^64 bytes or more", out.key);
  return "";
}

StorageId storage_id(const Pickle& pickle, const PickleValue& persistent, std::string_view where) {
  StorageId out;
  if (const std::string problem = read_storage_id(pickle, persistent, out); !problem.empty())
    throw_parse_error(where, persistent.at, "{}", problem);
  return out;
}

DType storage_dtype(const TorchType& type, size_t at, std::string_view where) {
  if (type.dtype) return *type.dtype;
  throw_parse_error(where, at, "there is no dtype for torch.{}Storage", type.storage);
}

// ---- zip

class ZipCheckpoint {
 public:
  ZipCheckpoint(Bytes file, std::string_view where) : file_(file), where_(where) {}

  TorchCheckpoint run() {
    // All records are in one folder, named after the file that was saved.
    std::string root;
    for (ZipEntry& e : or_fail(parse_zip(file_, where_))) {
      constexpr std::string_view kPickle = "data.pkl";
      if (e.name == kPickle || e.name.ends_with("/data.pkl"))
        root = e.name.substr(0, e.name.size() - kPickle.size());
      records_.emplace(e.name, std::move(e));
    }
    const auto data = records_.find(root + "data.pkl");
    if (data == records_.end())
      throw_parse_error(where_, file_.size(), "the archive has no data.pkl: no checkpoint");
    const Content text = content(data->second);
    const Pickle pickle = unpickle(text.bytes, 0, where_, text.base);
    TorchCheckpoint out;
    if (const auto order = records_.find(root + "byteorder"); order != records_.end())
      out.is_big_endian = text_of(content(order->second).bytes) == "big";
    collect_tensors(pickle, [&](const PickleValue& id) { return storage(pickle, id, root); }, where_, out);
    return out;
  }

 private:
  struct Content {
    Bytes bytes;
    std::shared_ptr<std::string> unpacked;
    size_t base;  // in the file, as near as it goes
  };
  // What is stored is not checked against its CRC: it would have to be read as a whole, and PyTorch, which
  // does not either, writes checkpoints without.
  Content content(const ZipEntry& e) {
    if (!e.is_deflated) return {e.data(file_), nullptr, e.data_at};
    std::shared_ptr<std::string>& kept = unpacked_[e.name];
    if (!kept) kept = std::make_shared<std::string>(or_fail(unzip(file_, e, where_)));
    return {std::as_bytes(std::span(*kept)), kept, e.data_at};
  }

  TorchTensor storage(const Pickle& pickle, const PickleValue& persistent, const std::string& root) {
    const StorageId id = storage_id(pickle, persistent, where_);
    const DType dtype = storage_dtype(id.type, persistent.at, where_);
    const auto record = records_.find(root + "data/" + id.key);
    if (record == records_.end())
      throw_parse_error(where_, persistent.at, "the archive has no record `{}data/{}`", root, id.key);
    const Content data = content(record->second);
    if (data.bytes.size() < id.bytes)
      throw_parse_error(where_, record->second.data_at, "record `{}` has {} bytes, its storage needs {}",
                        record->first, data.bytes.size(), id.bytes);
    TorchTensor out = whole_storage(data.bytes.first(static_cast<size_t>(id.bytes)), dtype);
    out.unpacked = data.unpacked;
    return out;
  }

  Bytes file_;
  std::string_view where_;
  std::unordered_map<std::string, ZipEntry> records_;
  std::unordered_map<std::string, std::shared_ptr<std::string>> unpacked_;
};

// ---- streams and tar archives

// Reads what lies between pickles.
class Stream {
 public:
  Stream(Bytes bytes, size_t base, std::string_view where) : bytes_(bytes), base_(base), where_(where) {}

  template <class... T>
  [[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) const {
    lathe::throw_parse_error(where_, base_ + at_, format, std::forward<T>(args)...);
  }
  Pickle pickle() {
    Pickle out = unpickle(bytes_, at_, where_, base_);
    at_ = out.end - base_;
    return out;
  }
  int64_t number(size_t width) { return static_cast<int64_t>(read_little_endian(take(width, 1), 0, width)); }
  Bytes take(uint64_t count, uint64_t width) {
    if (count > (bytes_.size() - at_) / width)
      fail("{} elements of {} bytes are announced, but only {} bytes follow", count, width,
           bytes_.size() - at_);
    const Bytes out = bytes_.subspan(at_, static_cast<size_t>(count * width));
    at_ += out.size();
    return out;
  }
  // A storage: the number of its elements, and these.
  Bytes storage(const TorchType& type) {
    return take(static_cast<uint64_t>(number(8)), static_cast<uint64_t>(type.bytes));
  }
  int64_t pickled_number() {
    const Pickle p = pickle();
    if (p[p.root].kind != Kind::Int || p[p.root].integer < 0) fail("expected a pickled number");
    return p[p.root].integer;
  }

 private:
  Bytes bytes_;
  size_t base_, at_ = 0;
  std::string_view where_;
};

TorchTensor part_of(const TorchTensor& storage, const Pickle& pickle, const PickleValue& view,
                    std::string_view where) {
  const auto width = static_cast<uint64_t>(item_size(storage.dtype));
  const auto number = [&](size_t i) {
    const PickleValue& v = pickle[view.items[i]];
    return v.kind == Kind::Int && v.integer >= 0 ? static_cast<uint64_t>(v.integer) : ~uint64_t{0};
  };
  const uint64_t held = storage.storage.size() / width;
  if (view.items.size() != 3 || number(1) > held || number(2) > held - number(1))
    throw_parse_error(where, view.at, "a view of a storage leaves it");
  return whole_storage(
      storage.storage.subspan(static_cast<size_t>(number(1) * width), static_cast<size_t>(number(2) * width)),
      storage.dtype);
}

TorchCheckpoint parse_stream(Bytes file, std::string_view where) {
  Stream in(file, 0, where);
  in.pickle();  // the magic number, which brought us here
  if (const int64_t version = in.pickled_number(); version != 1001)
    in.fail("version {} of the stream of pickles is unknown", version);
  in.pickle();  // of the machine that saved; storages are little-endian whatever it was
  const Pickle pickle = in.pickle();
  std::unordered_map<std::string, TorchType> types;
  for (const PickleValue& v : pickle.values) {
    if (v.kind != Kind::Persistent || pickle[v.items[0]].kind != Kind::Sequence) continue;
    if (StorageId id; read_storage_id(pickle, v, id).empty()) types.emplace(id.key, id.type);
  }
  const Pickle keys = in.pickle();
  std::unordered_map<std::string, Bytes> storages;
  for (PickleRef key : keys[keys.root].items) {
    const auto type = types.find(keys[key].text);
    if (type == types.end()) in.fail("no tensor says what storage `{}` is", keys[key].text);
    storages.emplace(type->first, in.storage(type->second));
  }
  const TorchResolver resolve = [&](const PickleValue& persistent) {
    const StorageId id = storage_id(pickle, persistent, where);
    const DType dtype = storage_dtype(id.type, persistent.at, where);
    const auto data = storages.find(id.key);
    if (data == storages.end())
      throw_parse_error(where, persistent.at, "storage `{}` is not in the file", id.key);
    const TorchTensor whole = whole_storage(data->second, dtype);
    return id.view ? part_of(whole, pickle, *id.view, where) : whole;
  };
  TorchCheckpoint out;
  collect_tensors(pickle, resolve, where, out);
  return out;
}

class TarCheckpoint {
 public:
  TarCheckpoint(Bytes file, std::string_view where) : file_(file), where_(where) {}

  TorchCheckpoint run() {
    for (const TarEntry& e : or_fail(parse_tar(file_, where_))) entries_.insert_or_assign(e.name, e);
    read_storages();
    read_tensors();
    const Pickle pickle = member("pickle").pickle();
    const TorchResolver resolve = [&](const PickleValue& persistent) {
      const PickleValue& id = pickle[persistent.items[0]];
      int64_t key = id.integer;
      bool is_number = id.kind == Kind::Int;
      if (id.kind == Kind::Text) {
        const char* last = id.text.data() + id.text.size();
        const auto [end, problem] = std::from_chars(id.text.data(), last, key);
        is_number = problem == std::errc() && end == last;
      }
      if (!is_number) throw_parse_error(where_, persistent.at, "a persistent id is not a number");
      return known(key, persistent.at);
    };
    TorchCheckpoint out;
    collect_tensors(pickle, resolve, where_, out);
    return out;
  }

 private:
  Stream member(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end())
      throw_parse_error(where_, file_.size(), "the archive has no `{}`: no checkpoint", name);
    return Stream(file_.subspan(found->second.data_at, found->second.size), found->second.data_at, where_);
  }
  TorchTensor known(int64_t key, size_t at) const {
    const auto found = objects_.find(key);
    if (found == objects_.end())
      throw_parse_error(where_, at, "neither a storage nor a tensor has the number {}", key);
    return found->second;
  }

  // (key, location, class) and the data, each; then views (key, key of the whole, offset, number of
  // elements).
  void read_storages() {
    Stream in = member("storages");
    for (int64_t left = in.pickled_number(); left > 0; left--) {
      const Pickle p = in.pickle();
      const auto& id = p[p.root].items;
      const auto type = id.size() == 3 ? torch_storage_type(p[id[2]]) : std::nullopt;
      if (!type) in.fail("a storage without a known class");
      const DType dtype = storage_dtype(*type, p.end, where_);
      objects_.insert_or_assign(p[id[0]].integer, whole_storage(in.storage(*type), dtype));
    }
    const Pickle views = in.pickle();
    for (PickleRef ref : views[views.root].items) {
      const PickleValue& view = views[ref];
      if (view.items.size() != 4) in.fail("a view of a storage without offset and size");
      const TorchTensor whole = known(views[view.items[1]].integer, view.at);
      PickleValue rest = view;
      rest.items.erase(rest.items.begin());
      objects_.insert_or_assign(views[view.items[0]].integer, part_of(whole, views, rest, where_));
    }
  }

  // (key, key of the storage, class), then number of axes (4 bytes and 4 that do not count), sizes, strides,
  // offset.
  void read_tensors() {
    Stream in = member("tensors");
    for (int64_t left = in.pickled_number(); left > 0; left--) {
      const Pickle p = in.pickle();
      const auto& id = p[p.root].items;
      if (id.size() != 3) in.fail("a tensor without key and storage");
      TorchTensor tensor = known(p[id[1]].integer, p.end);
      const int64_t axes = in.number(4);
      if (axes > kMaxTorchAxes) in.fail("a tensor of {} axes", axes);
      in.number(4);
      for (std::vector<int64_t>* list : {&tensor.shape, &tensor.strides}) {
        const Bytes data = in.take(static_cast<uint64_t>(axes), 8);
        list->clear();
        for (size_t at = 0; at < data.size(); at += 8) {
          list->push_back(static_cast<int64_t>(read_little_endian(data, at, 8)));
          if (list->back() < 0) in.fail("a tensor with a negative size or stride");
        }
      }
      tensor.offset = in.number(8);
      objects_.insert_or_assign(p[id[0]].integer, std::move(tensor));
    }
  }

  Bytes file_;
  std::string_view where_;
  std::map<std::string, TarEntry> entries_;
  std::unordered_map<int64_t, TorchTensor> objects_;  // storages and tensors
};

// ---- tensors

// The axes of more than one element and a stride, the slowest first.
std::vector<size_t> moving_axes(const TorchTensor& t) {
  std::vector<size_t> out;
  for (size_t i = 0; i < t.shape.size(); i++)
    if (t.shape[i] != 1 && t.strides[i] != 0) out.push_back(i);
  std::ranges::sort(out, [&](size_t a, size_t b) {
    return t.strides[a] != t.strides[b] ? t.strides[a] > t.strides[b] : a < b;
  });
  return out;
}

// The elements along `axes`, in this order; the number of them is `count`.
std::string gathered(const TorchTensor& t, const std::vector<size_t>& axes, int64_t count) {
  const auto width = static_cast<size_t>(item_size(t.dtype));
  std::string out;
  out.reserve(static_cast<size_t>(count) * width);
  std::vector<int64_t> at(axes.size());
  for (int64_t i = 0, from = t.offset; i < count; i++) {
    out += text_of(t.storage.subspan(static_cast<size_t>(from) * width, width));
    for (size_t k = axes.size(); k-- > 0;) {
      from += t.strides[axes[k]];
      if (++at[k] < t.shape[axes[k]]) break;
      from -= at[k] * t.strides[axes[k]];
      at[k] = 0;
    }
  }
  return out;
}

Tensor to_tensor(const TorchTensor& t, const FileData& file, bool is_big_endian, const std::string& device) {
  const auto width = static_cast<size_t>(item_size(t.dtype));
  if (*data_bytes(t.dtype, t.shape) == 0) return file.tensor({}, t.shape, t.dtype, device, t.name);
  const std::vector<size_t> axes = moving_axes(t);
  std::vector<int64_t> sizes;
  for (size_t axis : axes) sizes.push_back(t.shape[axis]);
  int64_t count = 1;
  bool is_dense = true;
  for (size_t k = axes.size(); k-- > 0; count *= sizes[k]) is_dense &= t.strides[axes[k]] == count;
  if (static_cast<uint64_t>(count) > t.storage.size() / width)
    value_error("{}: tensor `{}`: a view whose {} elements overlap in a storage of {} cannot be loaded",
                file.name(), t.name, count, t.storage.size() / width);
  FileData data = t.unpacked ? file.with(t.unpacked) : file;
  auto part = t.storage.subspan(static_cast<size_t>(t.offset) * width);
  if (!is_dense || is_big_endian) {
    std::string copy = gathered(t, axes, count);
    if (is_big_endian) swap_bytes(copy, width);
    data = file.with(std::make_shared<std::string>(std::move(copy)));
    part = data.bytes();
  }
  const Tensor base =
      data.tensor(part.first(static_cast<size_t>(count) * width), sizes, t.dtype, device, t.name);
  if (sizes == t.shape && std::is_sorted(axes.begin(), axes.end())) return base;
  // Back in the order of the shape, then with the axes that do not move.
  std::vector<int64_t> order(axes.size());
  Shape kept, full;
  for (size_t k = 0; k < axes.size(); k++)
    order[static_cast<size_t>(std::ranges::count_if(axes, [&](size_t a) { return a < axes[k]; }))] =
        static_cast<int64_t>(k);
  for (size_t i = 0; i < t.shape.size(); i++) {
    kept.push_back(std::find(axes.begin(), axes.end(), i) != axes.end() ? t.shape[i] : 1);
    full.push_back(t.shape[i]);
  }
  return base.permute(order).reshape(kept).expand(full);
}

}  // namespace

bool is_torch(std::span<const std::byte> file) {
  return is_zip(file) || is_tar(file) || text_of(file).starts_with(kMagicPickle);
}

Result<TorchCheckpoint> parse_torch(std::span<const std::byte> file, std::string_view where) {
  auto out = parsed([&] {
    if (is_zip(file)) return ZipCheckpoint(file, where).run();
    if (text_of(file).starts_with(kMagicPickle)) return parse_stream(file, where);
    if (is_tar(file)) return TarCheckpoint(file, where).run();
    throw_parse_error(where, 0,
                      "no checkpoint of PyTorch: neither a zip nor a tar archive, nor its stream of pickles");
  });
  // A deflated pickle may be longer than the file.
  if (!out.ok()) out.error().offset = std::min(out.error().offset, file.size());
  return out;
}

NamedTensors torch_load(const FileData& file, const TorchCheckpoint& checkpoint, const std::string& device) {
  NamedTensors out;
  for (const TorchTensor& t : checkpoint.tensors)
    out.emplace_back(t.name, to_tensor(t, file, checkpoint.is_big_endian, device));
  return out;
}

NamedTensors torch_load(const std::string& path, const std::string& device) {
  const FileData file(path);
  return torch_load(file, parse_torch(file.bytes(), path).or_throw(), device);
}

}  // namespace lathe

#include "formats/torch.h"

#include "archive/little_endian.h"
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

std::string_view text_of(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

ParseError error_at(size_t at, std::string text, std::string_view where) {
  return {std::move(text), at, std::string(where)};
}

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
  const PickleValue* type_name;
  std::optional<TorchType> type;
  std::string key;
  uint64_t bytes;
  const PickleValue* view;  // none, or (key, offset, number of elements)
};

Result<StorageId> parse_storage_id(const Pickle& pickle, const PickleValue& persistent,
                                   std::string_view where) {
  const auto& id = pickle[persistent.items[0]].items;
  if (id.size() < 5 || pickle[id[0]].text != "storage" || pickle[id[4]].kind != Kind::Int ||
      pickle[id[4]].integer < 0 || std::max(pickle[id[1]].text.size(), pickle[id[2]].text.size()) > kMaxText)
    return error_at(persistent.at, "a persistent id is not that of a storage", where);
  StorageId out{&pickle[id[1]], torch_storage_type(pickle[id[1]]), pickle[id[2]].text, 0,
                id.size() > 5 && pickle[id[5]].kind == Kind::Sequence ? &pickle[id[5]] : nullptr};
  if (!out.type)
    return error_at(persistent.at, fmt::format("unknown storage `{}`", out.type_name->text), where);
  if (__builtin_mul_overflow(static_cast<uint64_t>(pickle[id[4]].integer),
                             static_cast<uint64_t>(out.type->bytes), &out.bytes))
    return error_at(persistent.at, fmt::format("storage `{}` has 2^64 bytes or more", out.key), where);
  return out;
}

Result<DType> storage_dtype(const TorchType& type, size_t at, std::string_view where) {
  if (type.dtype) return *type.dtype;
  return error_at(at, fmt::format("there is no dtype for torch.{}Storage", type.storage), where);
}

// ---- zip

class ZipCheckpoint {
 public:
  ZipCheckpoint(Bytes file, std::string_view where) : file_(file), where_(where) {}

  Result<TorchCheckpoint> run() {
    LATHE_TRY(entries, parse_zip(file_, where_));
    // All records are in one folder, named after the file that was saved.
    std::string root;
    for (ZipEntry& e : entries) {
      constexpr std::string_view kPickle = "data.pkl";
      if (e.name == kPickle || e.name.ends_with("/data.pkl"))
        root = e.name.substr(0, e.name.size() - kPickle.size());
      records_.emplace(e.name, std::move(e));
    }
    const auto data = records_.find(root + "data.pkl");
    if (data == records_.end())
      return error_at(file_.size(), "the archive has no data.pkl: no checkpoint", where_);
    LATHE_TRY(text, content(data->second));
    LATHE_TRY(pickle, unpickle(text.bytes, 0, where_, text.base));
    TorchCheckpoint out;
    if (const auto order = records_.find(root + "byteorder"); order != records_.end()) {
      LATHE_TRY(name, content(order->second));
      out.is_big_endian = text_of(name.bytes) == "big";
    }
    const TorchResolver resolve = [&](const PickleValue& id) { return storage(pickle, id, root); };
    LATHE_TRY_DO(collect_tensors(pickle, resolve, where_, out));
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
  Result<Content> content(const ZipEntry& e) {
    if (!e.is_deflated) return Content{e.data(file_), nullptr, e.data_at};
    std::shared_ptr<std::string>& kept = unpacked_[e.name];
    if (!kept) {
      LATHE_TRY(text, unzip(file_, e, where_));
      kept = std::make_shared<std::string>(std::move(text));
    }
    return Content{std::as_bytes(std::span(*kept)), kept, e.data_at};
  }

  Result<TorchTensor> storage(const Pickle& pickle, const PickleValue& persistent, const std::string& root) {
    LATHE_TRY(id, parse_storage_id(pickle, persistent, where_));
    LATHE_TRY(dtype, storage_dtype(*id.type, persistent.at, where_));
    const auto record = records_.find(root + "data/" + id.key);
    if (record == records_.end())
      return error_at(persistent.at, fmt::format("the archive has no record `{}data/{}`", root, id.key),
                      where_);
    LATHE_TRY(data, content(record->second));
    if (data.bytes.size() < id.bytes)
      return error_at(record->second.data_at,
                      fmt::format("record `{}` has {} bytes, its storage needs {}", record->first,
                                  data.bytes.size(), id.bytes),
                      where_);
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

  ParseError error(std::string text) const { return error_at(base_ + at_, std::move(text), where_); }
  Result<Pickle> pickle() {
    LATHE_TRY(out, unpickle(bytes_, at_, where_, base_));
    at_ = out.end - base_;
    return std::move(out);
  }
  Result<int64_t> number(size_t width) {
    LATHE_TRY(part, take(width, 1));
    return static_cast<int64_t>(read_little_endian(part, 0, width));
  }
  Result<Bytes> take(uint64_t count, uint64_t width) {
    if (count > (bytes_.size() - at_) / width)
      return error(fmt::format("{} elements of {} bytes are announced, but only {} bytes follow", count,
                               width, bytes_.size() - at_));
    const Bytes out = bytes_.subspan(at_, static_cast<size_t>(count * width));
    at_ += out.size();
    return out;
  }
  // A storage: the number of its elements, and these.
  Result<Bytes> storage(const TorchType& type) {
    LATHE_TRY(count, number(8));
    return take(static_cast<uint64_t>(count), static_cast<uint64_t>(type.bytes));
  }
  Result<int64_t> pickled_number() {
    LATHE_TRY(p, pickle());
    if (p[p.root].kind != Kind::Int || p[p.root].integer < 0) return error("expected a pickled number");
    return p[p.root].integer;
  }

 private:
  Bytes bytes_;
  size_t base_, at_ = 0;
  std::string_view where_;
};

Result<TorchTensor> part_of(const TorchTensor& storage, const Pickle& pickle, const PickleValue& view,
                            std::string_view where) {
  const auto width = static_cast<uint64_t>(item_size(storage.dtype));
  const auto number = [&](size_t i) {
    const PickleValue& v = pickle[view.items[i]];
    return v.kind == Kind::Int && v.integer >= 0 ? static_cast<uint64_t>(v.integer) : ~uint64_t{0};
  };
  const uint64_t held = storage.storage.size() / width;
  if (view.items.size() != 3 || number(1) > held || number(2) > held - number(1))
    return error_at(view.at, "a view of a storage leaves it", where);
  return whole_storage(
      storage.storage.subspan(static_cast<size_t>(number(1) * width), static_cast<size_t>(number(2) * width)),
      storage.dtype);
}

Result<TorchCheckpoint> parse_stream(Bytes file, std::string_view where) {
  Stream in(file, 0, where);
  LATHE_TRY_DO(in.pickle());  // the magic number, which brought us here
  LATHE_TRY(version, in.pickled_number());
  if (version != 1001)
    return in.error(fmt::format("version {} of the stream of pickles is unknown", version));
  LATHE_TRY_DO(in.pickle());  // of the machine that saved; storages are little-endian whatever it was
  LATHE_TRY(pickle, in.pickle());
  std::unordered_map<std::string, TorchType> types;
  for (const PickleValue& v : pickle.values) {
    if (v.kind != Kind::Persistent || pickle[v.items[0]].kind != Kind::Sequence) continue;
    if (const auto id = parse_storage_id(pickle, v, where); id.ok())
      types.emplace(id.value().key, *id.value().type);
  }
  LATHE_TRY(keys, in.pickle());
  std::unordered_map<std::string, Bytes> storages;
  for (PickleRef key : keys[keys.root].items) {
    const auto type = types.find(keys[key].text);
    if (type == types.end())
      return in.error(fmt::format("no tensor says what storage `{}` is", keys[key].text));
    LATHE_TRY(data, in.storage(type->second));
    storages.emplace(type->first, data);
  }
  const TorchResolver resolve = [&](const PickleValue& persistent) -> Result<TorchTensor> {
    LATHE_TRY(id, parse_storage_id(pickle, persistent, where));
    LATHE_TRY(dtype, storage_dtype(*id.type, persistent.at, where));
    const auto data = storages.find(id.key);
    if (data == storages.end())
      return error_at(persistent.at, fmt::format("storage `{}` is not in the file", id.key), where);
    const TorchTensor whole = whole_storage(data->second, dtype);
    return id.view ? part_of(whole, pickle, *id.view, where) : whole;
  };
  TorchCheckpoint out;
  LATHE_TRY_DO(collect_tensors(pickle, resolve, where, out));
  return out;
}

class TarCheckpoint {
 public:
  TarCheckpoint(Bytes file, std::string_view where) : file_(file), where_(where) {}

  Result<TorchCheckpoint> run() {
    LATHE_TRY(entries, parse_tar(file_, where_));
    for (const TarEntry& e : entries) entries_.insert_or_assign(e.name, e);
    LATHE_TRY_DO(read_storages());
    LATHE_TRY_DO(read_tensors());
    LATHE_TRY(in, member("pickle"));
    LATHE_TRY(pickle, in.pickle());
    const TorchResolver resolve = [&](const PickleValue& persistent) -> Result<TorchTensor> {
      const PickleValue& id = pickle[persistent.items[0]];
      int64_t key = id.integer;
      bool is_number = id.kind == Kind::Int;
      if (id.kind == Kind::Text) {
        const char* last = id.text.data() + id.text.size();
        const auto [end, problem] = std::from_chars(id.text.data(), last, key);
        is_number = problem == std::errc() && end == last;
      }
      if (!is_number) return error_at(persistent.at, "a persistent id is not a number", where_);
      return known(key, persistent.at);
    };
    TorchCheckpoint out;
    LATHE_TRY_DO(collect_tensors(pickle, resolve, where_, out));
    return out;
  }

 private:
  Result<Stream> member(const std::string& name) const {
    const auto found = entries_.find(name);
    if (found == entries_.end())
      return error_at(file_.size(), fmt::format("the archive has no `{}`: no checkpoint", name), where_);
    return Stream(file_.subspan(found->second.data_at, found->second.size), found->second.data_at, where_);
  }
  Result<TorchTensor> known(int64_t key, size_t at) const {
    const auto found = objects_.find(key);
    if (found == objects_.end())
      return error_at(at, fmt::format("neither a storage nor a tensor has the number {}", key), where_);
    return found->second;
  }

  // (key, location, class) and the data, each; then views (key, key of the whole, offset, number of
  // elements).
  Result<void> read_storages() {
    LATHE_TRY(in, member("storages"));
    LATHE_TRY(count, in.pickled_number());
    for (int64_t i = 0; i < count; i++) {
      LATHE_TRY(p, in.pickle());
      const auto& id = p[p.root].items;
      const auto type = id.size() == 3 ? torch_storage_type(p[id[2]]) : std::nullopt;
      if (!type) return in.error("a storage without a known class");
      LATHE_TRY(dtype, storage_dtype(*type, p.end, where_));
      LATHE_TRY(data, in.storage(*type));
      objects_.insert_or_assign(p[id[0]].integer, whole_storage(data, dtype));
    }
    LATHE_TRY(views, in.pickle());
    for (PickleRef ref : views[views.root].items) {
      const PickleValue& view = views[ref];
      if (view.items.size() != 4) return in.error("a view of a storage without offset and size");
      LATHE_TRY(whole, known(views[view.items[1]].integer, view.at));
      PickleValue rest = view;
      rest.items.erase(rest.items.begin());
      LATHE_TRY(part, part_of(whole, views, rest, where_));
      objects_.insert_or_assign(views[view.items[0]].integer, std::move(part));
    }
    return {};
  }

  // (key, key of the storage, class), then number of axes (4 bytes and 4 that do not count), sizes, strides,
  // offset.
  Result<void> read_tensors() {
    LATHE_TRY(in, member("tensors"));
    LATHE_TRY(count, in.pickled_number());
    for (int64_t i = 0; i < count; i++) {
      LATHE_TRY(p, in.pickle());
      const auto& id = p[p.root].items;
      if (id.size() != 3) return in.error("a tensor without key and storage");
      LATHE_TRY(tensor, known(p[id[1]].integer, p.end));
      LATHE_TRY(axes, in.number(4));
      if (axes > kMaxTorchAxes) return in.error(fmt::format("a tensor of {} axes", axes));
      LATHE_TRY_DO(in.number(4));
      for (std::vector<int64_t>* list : {&tensor.shape, &tensor.strides}) {
        LATHE_TRY(data, in.take(static_cast<uint64_t>(axes), 8));
        list->clear();
        for (size_t at = 0; at < data.size(); at += 8) {
          list->push_back(static_cast<int64_t>(read_little_endian(data, at, 8)));
          if (list->back() < 0) return in.error("a tensor with a negative size or stride");
        }
      }
      LATHE_TRY(offset, in.number(8));
      tensor.offset = offset;
      objects_.insert_or_assign(p[id[0]].integer, std::move(tensor));
    }
    return {};
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
  if (is_zip(file)) {
    auto out = ZipCheckpoint(file, where).run();
    // A deflated pickle may be longer than the file.
    if (!out.ok()) out.error().offset = std::min(out.error().offset, file.size());
    return out;
  }
  if (text_of(file).starts_with(kMagicPickle)) return parse_stream(file, where);
  if (is_tar(file)) return TarCheckpoint(file, where).run();
  return error_at(0, "no checkpoint of PyTorch: neither a zip nor a tar archive, nor its stream of pickles",
                  where);
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

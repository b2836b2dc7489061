// Interning and lifetime of nodes.
#include "uop/uop.h"

#include "base/knobs.h"
#include "uop/derive.h"
#include "uop/spec.h"

#include <mutex>
#include <new>

namespace lathe {
namespace {

// Open addressing by the low hash bits; one lock a shard. A count of zero is only ever reached under the
// shard's lock, so a node found in a table is alive.
class Shard {
 public:
  std::mutex mutex;

  // Position of the node with this hash, or of the empty slot where it belongs.
  size_t find(const Hash128& h) const {
    size_t i = h.hi & (slots_.size() - 1);
    while (slots_[i] && !(slots_[i]->hash == h)) i = (i + 1) & (slots_.size() - 1);
    return i;
  }
  const Node* at(size_t i) const { return slots_[i]; }
  void insert(size_t i, const Node* n) {
    slots_[i] = n;
    if (++count_ * 2 > slots_.size()) grow();
  }
  // Backward-shift deletion keeps probe sequences unbroken without tombstones.
  void erase(const Node* n) {
    const size_t mask = slots_.size() - 1;
    size_t hole = find(n->hash);
    CHECK(slots_[hole] == n, "node missing from the intern table");
    for (size_t i = (hole + 1) & mask; slots_[i]; i = (i + 1) & mask) {
      const size_t home = slots_[i]->hash.hi & mask;
      if (((i - home) & mask) >= ((i - hole) & mask)) {
        slots_[hole] = slots_[i];
        hole = i;
      }
    }
    slots_[hole] = nullptr;
    count_--;
  }
  size_t count() const { return count_; }

 private:
  void grow() {
    std::vector<const Node*> old = std::move(slots_);
    slots_.assign(old.size() * 2, nullptr);
    for (const Node* n : old)
      if (n) slots_[find(n->hash)] = n;
  }
  std::vector<const Node*> slots_ = std::vector<const Node*>(256, nullptr);
  size_t count_ = 0;
};

constexpr int kShards = 32;

// Leaked on purpose: nodes held by other static objects may die after any static here would.
Shard* shards() {
  static Shard* const table = new Shard[kShards];
  return table;
}
Shard& shard_of(const Hash128& h) { return shards()[h.lo & (kShards - 1)]; }

Hash128 node_hash(Op op, DType dtype, std::span<const UOp> srcs, const Arg& arg) {
  const Hash128 a =
      hash_arg(arg, Hash128{static_cast<uint64_t>(op) << 8 | static_cast<uint64_t>(dtype), srcs.size()});
  SmallVec<Hash128, 7> hashes{a};
  for (const UOp& s : srcs) hashes.push_back(s.hash());
  return hash_bytes(hashes.data(), hashes.size() * sizeof(Hash128));
}

bool same_node(const Node* n, Op op, DType dtype, std::span<const UOp> srcs, const Arg& arg) {
  if (n->op != op || n->dtype != dtype || n->n_srcs != srcs.size()) return false;
  for (size_t i = 0; i < srcs.size(); i++)
    if (n->src_begin()[i].node() != srcs[i].node()) return false;
  return same_arg(n->arg, arg);
}

void free_node(const Node* n) {
  Node* m = const_cast<Node*>(n);
  delete m->bounds.load(std::memory_order_relaxed);
  m->~Node();
  ::operator delete(m);
}

// Drops one reference; true when it was the last one, and then the node is out of the table.
bool drop_reference(const Node* n) {
  uint32_t count = n->refs.load(std::memory_order_relaxed);
  while (count > 1)
    if (n->refs.compare_exchange_weak(count, count - 1, std::memory_order_acq_rel)) return false;
  Shard& shard = shard_of(n->hash);
  std::lock_guard lock(shard.mutex);
  if (n->refs.fetch_sub(1, std::memory_order_acq_rel) != 1) return false;
  shard.erase(n);
  return true;
}

}  // namespace

void UOp::release() noexcept {
  if (!drop_reference(node_)) return;
  SmallVec<const Node*, 16> dead;
  dead.push_back(node_);
  while (!dead.empty()) {
    const Node* n = dead.back();
    dead.pop_back();
    for (size_t i = 0; i < n->n_srcs; i++) {
      const Node* s = n->src_begin()[i].node();
      if (drop_reference(s)) dead.push_back(s);
    }
    free_node(n);  // sources are raw storage behind the node: their counts were dropped above
  }
}

UOp UOp::make(Op op, DType dtype, std::span<const UOp> srcs, Arg arg) {
  const OpInfo& row = info(op);
  CHECK(row.arity < 0 || static_cast<size_t>(row.arity) == srcs.size(), "{} takes {} sources, got {}",
        row.name, row.arity, srcs.size());
  CHECK(srcs.size() < 65536, "{} with {} sources: more than 65535 do not fit a node", row.name, srcs.size());
  for (const UOp& s : srcs) CHECK(s, "{} built from an empty source", row.name);
  if (dtype == DType::Void) dtype = derive_dtype(op, srcs, arg);
  const Hash128 hash = node_hash(op, dtype, srcs, arg);
  Shard& shard = shard_of(hash);
  {
    std::lock_guard lock(shard.mutex);
    if (const Node* n = shard.at(shard.find(hash))) {
      CHECK(same_node(n, op, dtype, srcs, arg), "two nodes with one 128-bit hash: {}", row.name);
      n->refs.fetch_add(1, std::memory_order_relaxed);
      UOp u;
      u.node_ = n;
      return u;
    }
  }
  const Shape* shape = derive_shape(op, dtype, srcs, arg);
  const std::string* dev = derive_device(op, srcs, arg);
  void* memory = ::operator new(sizeof(Node) + srcs.size() * sizeof(UOp));
  Node* n = new (memory)
      Node{1,   op,      dtype,  static_cast<uint16_t>(srcs.size()), 0, hash, std::move(arg), shape,
           dev, nullptr, nullptr};
  UOp* place = reinterpret_cast<UOp*>(n + 1);
  for (size_t i = 0; i < srcs.size(); i++) new (place + i) UOp(srcs[i]);
  const Node* existing = nullptr;
  {
    std::lock_guard lock(shard.mutex);
    const size_t i = shard.find(hash);
    existing = shard.at(i);
    if (existing)
      existing->refs.fetch_add(1, std::memory_order_relaxed);
    else
      shard.insert(i, n);
  }
  UOp u;
  u.node_ = n;
  if (existing) {  // another thread made it meanwhile
    for (size_t i = 0; i < srcs.size(); i++) place[i].~UOp();
    free_node(n);
    u.node_ = existing;
  }
  if (knob(Knob::SPEC) >= 2) verify_node(u);
  return u;
}

UOp UOp::with_srcs(std::span<const UOp> srcs) const {
  bool same = srcs.size() == n_srcs();
  bool same_types = same;
  for (size_t i = 0; i < srcs.size() && same_types; i++) {
    same = same && srcs[i] == src(i);
    same_types = same_types && (srcs[i].dtype() == src(i).dtype() || srcs[i].is_invalid());
  }
  if (same) return *this;
  const bool keep = same_types || info(op()).dtype_rule == DTypeRule::Arg;
  return make(op(), keep ? dtype() : DType::Void, srcs, arg());
}

UOp UOp::with_arg(Arg a) const { return make(op(), dtype(), srcs(), std::move(a)); }
UOp UOp::with_dtype(DType d) const { return make(op(), d, srcs(), arg()); }
int UOp::ndim() const { return static_cast<int>(shape().size()); }

bool UOp::is_const(const Scalar& numeric) const { return is_const() && value().equals(numeric); }
bool UOp::is_invalid() const { return is_const() && value().is_invalid(); }

size_t live_node_count() {
  size_t n = 0;
  for (int i = 0; i < kShards; i++) {
    std::lock_guard lock(shards()[i].mutex);
    n += shards()[i].count();
  }
  return n;
}

}  // namespace lathe

#include "uop/image.h"

#include "uop/comparison.h"
#include "uop/gates.h"
#include "uop/linear_terms.h"
#include "uop/simplify.h"

#include <charconv>

namespace lathe {
namespace {

constexpr int64_t kPixel = 4;  // elements

size_t count_clauses(const UOp& gate) {
  return gate.is_const(Scalar(true)) ? 0 : split_operands(gate, Op::And).size();
}

// No value that `u` takes where the gate holds is in [0, end).
bool is_outside(const UOp& gate, const UOp& u, int64_t end) {
  const std::optional<Bounds> b = bounds_under(gate, u);
  return !b || b->hi.less(Scalar(0)) || !b->lo.less(Scalar(end));
}

}  // namespace

bool is_image(const UOp& u) {
  if (u.op() != Op::Param || u.param().space != AddrSpace::Global || u.ndim() != 3) return false;
  const DType memory = u.param().dtype;
  return u.dtype() == DType::Float32 && (memory == DType::Float32 || memory == DType::Float16) &&
         u.shape()[0].is_const() && u.shape()[1].is_const() && u.shape()[2] == SInt(kPixel);
}

UOp image_param(const UOp& flat, const ImageSize& size) {
  return UOp::make(Op::Param, DType::Float32, {shape_node({size.height, size.width, kPixel})}, flat.arg());
}

int64_t image_pitch_alignment(std::string_view arch) {
  constexpr std::string_view kKey = "IMAGE_PITCH_ALIGNMENT=";
  const size_t at = arch.find(kKey);
  if (at == arch.npos) return 0;
  int64_t value = 0;
  std::from_chars(arch.data() + at + kKey.size(), arch.data() + arch.size(), value);
  return value;
}

std::vector<ImageSize> image_sizes(int64_t elements, DType d, int64_t alignment) {
  if (alignment <= 0 || elements <= 0 || elements % kPixel || (d != DType::Float16 && d != DType::Float32))
    return {};
  const int64_t pixels = elements / kPixel;
  if (pixels % alignment) {
    const bool fits = elements * item_size(d) % alignment == 0 && pixels <= kMaxImageWidth;
    return fits ? std::vector{ImageSize{1, pixels}} : std::vector<ImageSize>();
  }
  std::vector<ImageSize> out;
  for (int64_t width = alignment; width <= std::min(pixels, kMaxImageWidth); width += alignment)
    if (pixels % width == 0) out.push_back({pixels / width, width});
  return out;
}

// One clause goes at a time, so what the others say may be used: where they hold and this one does not, the
// coordinates are outside and the read gives the zeros it gave before.
ImageRead simplify_image_read(const ImageSize& size, const ImageRead& read) {
  const UOp gate = simplify_gate(simplify(read.gate));
  ImageRead out{gate, simplify_under(gate, simplify(read.y)), simplify_under(gate, simplify(read.x))};
  const SmallVec<UOp, 8> all = split_operands(gate, Op::And);
  std::vector<UOp> kept(all.begin(), all.end());
  for (size_t i = 0; i < kept.size();) {
    std::vector<UOp> fails = kept;
    fails[i] = opposite(kept[i]);
    const UOp where_it_fails = join_operands(fails, Op::And, {});
    if (!is_outside(where_it_fails, out.y, size.height) && !is_outside(where_it_fails, out.x, size.width)) {
      i++;
      continue;
    }
    kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
    i = 0;
  }
  if (kept.size() < all.size()) out.gate = simplify(join_operands(kept, Op::And, constant(Scalar(true))));
  return out;
}

ImageRead gate_by_row(const ImageSize& size, const ImageRead& read) {
  if (!read.y.is_const() || is_outside(constant(Scalar(true)), read.y, size.height)) return read;
  if (read.gate.is_const()) return read;
  const int64_t rows = size.height - read.y.value().as_i64();  // to the first one outside
  UOp y = read.y;
  for (const UOp& clause : split_operands(read.gate, Op::And)) {
    const std::optional<BoundClause> b = bound_clause(clause);
    if (!b || b->x.dtype() != DType::WeakInt) return read;
    const UOp limit = constant(Scalar(b->limit));
    y = y + maximum(b->is_upper ? b->x - limit : limit - b->x, constant(0)) * rows;
  }
  return {constant(Scalar(true)), simplify(y), read.x};
}

ImageRead image_read(const ImageSize& size, const PixelRead& read) {
  const UOp gate = read.gate ? read.gate : constant(Scalar(true));
  return simplify_image_read(size, {gate, read.pixel / size.width, read.pixel % size.width});
}

std::optional<ImageSize> choose_image_size(std::span<const ImageSize> sizes,
                                           std::span<const PixelRead> reads) {
  struct Rank {
    size_t clauses = 0, row_nodes = 0;
    auto operator<=>(const Rank&) const = default;
  };
  std::optional<ImageSize> best;
  Rank least;
  for (const ImageSize& size : sizes) {
    Rank rank;
    for (const PixelRead& read : reads) {
      const ImageRead r = image_read(size, read);
      rank.clauses += count_clauses(r.gate);
      rank.row_nodes += toposort(r.y).size();
    }
    if (best && !(rank < least)) continue;
    best = size;
    least = rank;
  }
  return best;
}

}  // namespace lathe

#include "codegen/passes.h"
#include "uop/gates.h"
#include "uop/image.h"
#include "uop/linear_terms.h"
#include "uop/rebuild.h"
#include "uop/simplify.h"

#include <algorithm>
#include <unordered_map>

namespace lathe {
namespace {

bool is_zero(const UOp& u) {
  if (u.op() != Op::Stack) return u.is_const(Scalar(0));
  return std::all_of(u.srcs().begin(), u.srcs().end(),
                     [](const UOp& lane) { return lane.is_const(Scalar(0)); });
}

// The pixel of a Load or Store of flat memory and its gate, where it is an access of one pixel.
std::optional<PixelRead> pixel_of(const UOp& access) {
  const UOp& at = access.src(0);
  if (at.op() != Op::Shrink || !at.src(2).src(0).is_const(Scalar(4))) return std::nullopt;
  PixelRead out{{}, divides(simplify(at.src(1).src(0)), 4)};
  if (access.n_srcs() > 2) out.gate = access.src(2);
  const bool one_gate = !out.gate || out.gate.ndim() == 0;
  const bool zero = access.op() == Op::Store || access.n_srcs() == 1 || is_zero(access.src(1));
  return out.pixel && one_gate && zero ? std::optional(out) : std::nullopt;
}

bool is_argument(const UOp& u) { return u.op() == Op::Param && u.param().space == AddrSpace::Global; }

// What a kernel does with an argument.
struct Uses {
  std::vector<PixelRead> reads;
  bool is_written = false;
  bool as_image = true;  // nothing but accesses of pixels
};

class ImageMaker {
 public:
  ImageMaker(const UOp& sink, int64_t alignment) : order_(toposort(sink)) {
    std::unordered_map<const Node*, Uses> uses;
    for (const UOp& u : order_) {
      const bool access = u.op() == Op::Load || u.op() == Op::Store;
      for (size_t i = 0; i < u.n_srcs(); i++) {
        const UOp& s = u.src(i);
        if (is_argument(s) && u.op() != Op::Shrink) uses[s.node()].as_image = false;
        if (s.op() != Op::Shrink || !is_argument(s.src(0))) continue;
        Uses& use = uses[s.src(0).node()];
        const auto pixel = access && i == 0 ? pixel_of(u) : std::nullopt;
        if (!pixel) use.as_image = false;
        if (u.op() == Op::Store) use.is_written = true;
        if (u.op() == Op::Load && pixel) use.reads.push_back(*pixel);
      }
    }
    for (const auto& [node, use] : uses) {
      const UOp memory(node);
      if (!use.as_image || (use.is_written && !use.reads.empty()) || memory.ndim() != 1) continue;
      if (!memory.shape()[0].is_const()) continue;
      const auto sizes = image_sizes(memory.shape()[0].value(), memory.dtype(), alignment);
      if (const auto size = choose_image_size(sizes, use.reads)) sizes_.emplace(node, *size);
    }
  }

  UOp run() {
    return done_.walk(order_, [&](const UOp& u) { return visit(u); });
  }

 private:
  UOp visit(const UOp& u) const {
    const UOp now = done_.over_sources(u);
    if (u.op() == Op::Cast && u.dtype() == DType::Float32 && u.src(0).op() == Op::Load && size_of(u.src(0)))
      return now.src(0).src(0);
    const ImageSize* size = u.op() == Op::Load || u.op() == Op::Store ? size_of(u) : nullptr;
    return !size ? now : u.op() == Op::Load ? load_of(now, *size) : store_of(now, *size);
  }
  const ImageSize* size_of(const UOp& access) const {
    if (access.src(0).n_srcs() == 0) return nullptr;
    const auto it = sizes_.find(access.src(0).src(0).node());
    return it == sizes_.end() ? nullptr : &it->second;
  }

  static UOp address(const UOp& access, const ImageSize& size, const UOp& y, const UOp& x) {
    const UOp coordinates[] = {y, x};
    return index(image_param(access.src(0).src(0), size), coordinates);
  }
  // A float Load, and for half a Cast of it.
  static UOp load_of(const UOp& u, const ImageSize& size) {
    const ImageRead r = gate_by_row(size, image_read(size, *pixel_of(u)));
    UOp value = load(address(u, size, r.y, r.x));
    if (!r.gate.is_const(Scalar(true)))
      value = UOp::make(Op::Load, {value.src(0), constant(DType::Float32, 0.0), r.gate});
    return cast(value, u.dtype());
  }
  // Writes outside of an image are none: the gate stays.
  static UOp store_of(const UOp& u, const ImageSize& size) {
    const PixelRead at = *pixel_of(u);
    const UOp gate = at.gate ? at.gate : constant(Scalar(true));
    const UOp to = address(u, size, simplify_under(gate, simplify(at.pixel / size.width)),
                           simplify_under(gate, simplify(at.pixel % size.width)));
    const UOp& value = u.src(1);
    const bool rounded = value.op() == Op::Cast && value.src(0).dtype() == DType::Float32;
    SmallVec<UOp, 3> srcs{to, rounded ? value.src(0) : cast(value, DType::Float32)};
    if (at.gate) srcs.push_back(at.gate);
    return UOp::make(Op::Store, DType::Void, {srcs.data(), srcs.size()});
  }

  std::vector<UOp> order_;
  std::unordered_map<const Node*, ImageSize> sizes_;
  Rebuilt done_;
};

}  // namespace

UOp use_images(const UOp& sink, int64_t alignment) { return ImageMaker(sink, alignment).run(); }

}  // namespace lathe

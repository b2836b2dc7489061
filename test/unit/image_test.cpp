#include "uop/image.h"

#include "codegen/passes.h"
#include "renderer/renderer.h"
#include "runtime/device.h"
#include "runtime/interp/executor.h"
#include "uop/parse.h"
#include "uop/print.h"
#include "uop/simplify.h"
#include "uop/spec.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "support/parse_expression.h"
#include "support/test.h"

using namespace lathe;
using test::contains;

namespace {

std::vector<UOp> program(const UOp& body) {
  const std::vector<UOp> linear = linearize(commit_weak_types(body, Target()));
  verify(linear, "image test");
  return linear;
}

// Memory by slot; values are converted to and from the elements' type.
using Memories = std::map<int64_t, std::pair<DType, std::vector<double>>>;
void run(const std::vector<UOp>& linear, Memories& memories) {
  std::vector<std::vector<std::byte>> bytes;
  for (auto& [slot, m] : memories) {
    const auto item = static_cast<size_t>(item_size(m.first));
    bytes.emplace_back(m.second.size() * item);
    for (size_t i = 0; i < m.second.size(); i++) {
      const uint64_t bits = encode(cast_scalar(Scalar(m.second[i]), m.first), m.first);
      std::memcpy(&bytes.back()[i * item], &bits, item);
    }
  }
  std::vector<std::span<std::byte>> arguments(bytes.begin(), bytes.end());
  interp::Code("images", linear).run(arguments, {}, 0);
  size_t k = 0;
  for (auto& [slot, m] : memories) {
    const auto item = static_cast<size_t>(item_size(m.first));
    for (size_t i = 0; i < m.second.size(); i++) {
      uint64_t bits = 0;
      std::memcpy(&bits, &bytes[k][i * item], item);
      m.second[i] = decode(bits, m.first).as_double();
    }
    k++;
  }
}

std::vector<double> numbers(size_t n, double scale = 1) {
  std::vector<double> out(n);
  for (size_t i = 0; i < n; i++) out[i] = (static_cast<double>(i) + 1) * scale;
  return out;
}

UOp four_at(const UOp& memory, const UOp& i) {
  const UOp size = constant(4);
  return UOp::make(Op::Shrink, {memory, stack({&i, 1}), stack({&size, 1})});
}
UOp loop_over(const UOp& effect, std::vector<UOp> ranges) {
  ranges.insert(ranges.begin(), effect);
  const UOp end = UOp::make(Op::End, DType::Void, ranges);
  return sink({&end, 1});
}
std::vector<UOp> images_of(const UOp& u) {
  std::vector<UOp> out;
  for (const UOp& v : toposort(u))
    if (is_image(v)) out.push_back(v);
  return out;
}

}  // namespace

TEST_CASE("sizes an image may have") {
  struct Row {
    int64_t elements;
    DType dtype;
    int64_t alignment;
    std::vector<ImageSize> sizes;
  };
  const DType f = DType::Float32, h = DType::Float16;
  const Row rows[] = {
      {4096, f, 0, {}},  // no images
      {4096, DType::Int32, 64, {}},
      {4096, DType::BFloat16, 64, {}},
      {4096, f, 64, {{16, 64}, {8, 128}, {4, 256}, {2, 512}, {1, 1024}}},
      {4096, h, 64, {{16, 64}, {8, 128}, {4, 256}, {2, 512}, {1, 1024}}},
      {768, f, 64, {{3, 64}, {1, 192}}},
      {400, f, 64, {{1, 100}}},  // 1600 bytes are 25 times 64
      {400, f, 128, {}},
      {400, h, 64, {}},  // 800 bytes
      {402, f, 2, {}},   // no whole pixels
      {4 * 16384, f, 16384, {{1, 16384}}},
      {8 * 16384, f, 16384, {{2, 16384}}},  // a row has at most 16384 pixels
      {8 * 16384, f, 32768, {}},
      {4 * 16448, f, 128, {}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.elements);
    CAPTURE(row.alignment);
    CHECK(image_sizes(row.elements, row.dtype, row.alignment) == row.sizes);
  }
}

TEST_CASE("the alignment of rows is part of the architecture") {
  CHECK(image_pitch_alignment("a630,IMAGE_PITCH_ALIGNMENT=64,x") == 64);
  CHECK(image_pitch_alignment("IMAGE_PITCH_ALIGNMENT=128") == 128);
  for (const char* none :
       {"", "x86_64", "IMAGE_PITCH_ALIGNMENT=0", "IMAGE_PITCH_ALIGNMENT=", "IMAGE_PITCH=3"})
    CHECK(image_pitch_alignment(none) == 0);
}

TEST_CASE("the size with fewest clauses wins, then the simplest rows, then the first") {
  const Names n = parse_names("a[0,15] b[0,63]").or_throw();
  const auto choose = [&](int64_t elements, std::initializer_list<const char*> reads) {
    std::vector<PixelRead> list;
    for (const char* text : reads) {
      const std::string_view t = text;
      const size_t at = t.find(" @ ");
      list.push_back({at == t.npos ? UOp() : parse_expression(t.substr(0, at), n).or_throw(),
                      parse_expression(at == t.npos ? t : t.substr(at + 3), n).or_throw()});
    }
    return choose_image_size(image_sizes(elements, DType::Float32, 64), list).value();
  };
  // Without a gate: rows of 64 are the loop itself, one row is 0.
  CHECK(choose(4096, {"a*64+b"}) == ImageSize{1, 1024});
  // The clause b >= 1 goes where b-1 is the column, and the rows stay.
  CHECK(choose(4096, {"!(b<1) @ a*64+b-1"}) == ImageSize{16, 64});
  // The first row of another read is of no use to a gate on rows.
  CHECK(choose(4096, {"!(b<1)&!(a<1) @ a*64+b-65"}) == ImageSize{16, 64});
  CHECK(choose(4096, {}) == ImageSize{16, 64});
  CHECK(!choose_image_size({}, {}));
}

TEST_CASE("image programs: text, rules, execution") {
  const char* text = R"(%0 = Param float [2 3 4] {slot=0 dtype=half}
%2 = Range int 4:int {id=0 type=Loop}
%3 = Range int 5:int {id=1 type=Loop}
%4 = Index float %0 %2 %3
%5 = Load float %4
%6 = Mul int %2 5:int
%7 = Add int %6 %3
%8 = Mul int %7 4:int
%9 = Stack int %8
%10 = Stack weakint 4
%11 = Param float [80] {slot=2}
%12 = Shrink float %11 %9 %10
%13 = Store %12 %5
%14 = End %13 %3
%15 = End %14 %2
%16 = Sink %15
)";
  const UOp body = parse(text).or_throw();
  const std::vector<UOp> linear = program(body);
  CHECK(parse(print(body)).or_throw() == body);
  const UOp image = images_of(body).at(0);
  CHECK(is_image(image));
  CHECK(image == image_param(param(0, {24}, DType::Float16), {2, 3}));
  Memories m = {{0, {DType::Float16, numbers(24)}}, {2, {DType::Float32, std::vector<double>(80)}}};
  run(linear, m);
  for (size_t i = 0; i < 80; i++) {
    const size_t y = i / 20, x = i / 4 % 5;
    CHECK(m[2].second[i] == (y < 2 && x < 3 ? static_cast<double>((y * 3 + x) * 4 + i % 4 + 1) : 0.0));
  }
  for (const char* name : {"CPU", "CPU:C"})
    CHECK(contains(
        test::thrown<InternalError>([&] { device(name).renderer()->render("kernel", linear); }).what(),
        "knows no images: slot 0"));

  const UOp zero = constant(DType::Int32, 0), one = constant(DType::Int32, 1);
  const UOp inside[] = {one, one}, outside[] = {zero, constant(DType::Int32, 3)}, single[] = {one};
  const auto violation = [](const UOp& u) { return std::string(broken_rule(u, SpecLevel::Program)); };
  CHECK(violation(index(image, inside)) == "");
  CHECK(violation(index(image, single)) != "");
  CHECK(contains(violation(param(0, {2, 3, 3}, DType::Float32)), "an image"));
  CHECK(contains(violation(param(0, {2, 3, 4}, DType::Float16)), "an image"));

  // Values are rounded as they are stored; a store outside is an error.
  const UOp value = constant(DType::Float32, 1.0 / 3);
  const auto stores = [&](std::span<const UOp> at) {
    const UOp s = store(index(image, at), value);
    return program(sink({&s, 1}));
  };
  m.erase(2);
  run(stores(inside), m);
  CHECK(m[0].second[15] == 16);
  CHECK(m[0].second[16] == cast_scalar(Scalar(1.0 / 3), DType::Float16).as_double());
  CHECK(m[0].second[19] == m[0].second[16]);
  CHECK(contains(test::user_error([&] { run(stores(outside), m); }).what(), "Store outside buffer slot 0"));
}

TEST_CASE("a padded copy through images reads the same without gates") {
  const UOp r0 = range(18, 0, AxisType::Loop), r1 = range(66, 1, AxisType::Loop);
  for (const DType d : {DType::Float32, DType::Float16}) {
    const UOp in = param(0, {4096}, d), out = param(1, {18 * 66 * 4}, d);
    const UOp gate = simplify(ge(r0, 1) & lt(r0, 17) & ge(r1, 1) & lt(r1, 65));
    const UOp read = UOp::make(Op::Load, {four_at(in, (r0 * 64 + r1 - 65) * 4), constant(d, 0.0), gate});
    const UOp two = constant(DType::Float32, 2.0);
    const UOp body = loop_over(
        store(four_at(out, (r0 * 66 + r1) * 4), cast(cast(read, DType::Float32) * two, d)), {r0, r1});
    CHECK(images_of(use_images(body, 0)).empty());
    // With rows of 64 no clause is left; the only size with 1024 a row has its gate in the row.
    for (const int64_t width : {64, 1024}) {
      const UOp with = use_images(body, width);
      const bool both = d == DType::Float32 && width == 64;
      CHECK(images_of(with).size() == (both ? 2 : 1));
      for (const UOp& image : images_of(with))
        if (image.param().slot == 0) CHECK(image.shape() == Shape{1024 / width, width, 4});
      size_t gates = 0, casts = 0;
      for (const UOp& u : toposort(with)) {
        gates += u.op() == Op::Load && u.n_srcs() == 3;
        casts += u.op() == Op::Cast;
      }
      CHECK(gates == 0);
      CHECK(casts == (d == DType::Float16 ? 1 : 0));  // what is stored is cast, what is read is not
      Memories flat = {{0, {d, numbers(4096, 0.1)}}, {1, {d, std::vector<double>(18 * 66 * 4)}}};
      Memories images = flat;
      run(program(body), flat);
      run(program(with), images);
      CHECK(flat[1].second == images[1].second);
    }
  }
}

TEST_CASE("committed gates and coordinates are about the same values") {
  const UOp g0 = range(32, 0, AxisType::Loop), table = param(1, {32}, DType::Float32);
  const UOp y = cast(load(index(table, g0)) + constant(1.0), DType::Int32);
  const UOp gate = lt(constant(-1), y) & lt(y, 10),
            image = image_param(param(0, {400}, DType::Float32), {10, 10});
  const UOp at[] = {where(gate, y, invalid()), g0};
  const UOp body =
      loop_over(store(four_at(param(2, {128}, DType::Float32), g0 * 4), load(index(image, at))), {g0});
  const UOp committed = commit_weak_types(move_gates(body, Target()), Target());
  int reads = 0;
  for (const UOp& u : toposort(committed)) {
    if (u.op() != Op::Load || u.n_srcs() != 3) continue;
    const UOp &row = u.src(0).src(1), &column = u.src(0).src(2);
    CHECK(reaches(u.src(2), row));
    const ImageRead r = simplify_image_read({10, 10}, {u.src(2), row, column});
    CHECK(r.gate.is_const(Scalar(true)));
    CHECK(r.y == row);
    reads++;
  }
  CHECK(reads == 1);
}

TEST_CASE("memory that is used in other ways stays flat") {
  const UOp r = range(16, 0, AxisType::Loop);
  const UOp p = param(0, {64}, DType::Float32), q = param(1, {64}, DType::Float32);
  const UOp copy = store(four_at(q, r * 4), load(four_at(p, r * 4)));
  const auto slots = [&](std::vector<UOp> effects) {
    std::vector<int64_t> out;
    const UOp group = UOp::make(Op::Group, DType::Void, effects);
    for (const UOp& image : images_of(use_images(loop_over(group, {r}), 16)))
      out.push_back(image.param().slot);
    return out;
  };
  CHECK(slots({copy}) == std::vector<int64_t>{1, 0});
  CHECK(slots({copy, store(index(q, r), constant(DType::Float32, 0.0))}) == std::vector<int64_t>{0});
  CHECK(slots({copy, store(four_at(p, r * 4), constant(DType::Float32, 0.0))}) == std::vector<int64_t>{1});
  CHECK(slots({store(four_at(q, r * 4), load(four_at(p, r * 2)))}) == std::vector<int64_t>{1});
  const UOp one = UOp::make(Op::Load, {four_at(p, r * 4), constant(DType::Float32, 1.0), lt(r, 3)});
  CHECK(slots({store(four_at(q, r * 4), one)}) == std::vector<int64_t>{1});
}

#include "uop/dtype.h"

#include "base/knobs.h"

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/test.h"

using namespace lathe;
using lathe::test::contains;
using lathe::test::user_error;

namespace {

// Row join column; the columns are named in the first line, the rest of a row in the columns' order.
constexpr const char* kJoinTable = R"(
     b   wi  i8  u8  i16 u16 i32 u32 i64 u64 wf  e4  e5  e4z e5z f2  bf  f4  f8
b    b   wi  i8  u8  i16 u16 i32 u32 i64 u64 wf  e4  e5  e4z e5z f2  bf  f4  f8
wi   wi  wi  i8  u8  i16 u16 i32 u32 i64 u64 wf  e4  e5  e4z e5z f2  bf  f4  f8
i8   i8  i8  i8  i16 i16 i32 i32 i64 i64 wf  wf  e4  e5  e4z e5z f2  bf  f4  f8
u8   u8  u8  i16 u8  i16 u16 i32 u32 i64 u64 wf  e4  e5  e4z e5z f2  bf  f4  f8
i16  i16 i16 i16 i16 i16 i32 i32 i64 i64 wf  wf  e4  e5  e4z e5z f2  bf  f4  f8
u16  u16 u16 i32 u16 i32 u16 i32 u32 i64 u64 wf  e4  e5  e4z e5z f2  bf  f4  f8
i32  i32 i32 i32 i32 i32 i32 i32 i64 i64 wf  wf  e4  e5  e4z e5z f2  bf  f4  f8
u32  u32 u32 i64 u32 i64 u32 i64 u32 i64 u64 wf  e4  e5  e4z e5z f2  bf  f4  f8
i64  i64 i64 i64 i64 i64 i64 i64 i64 i64 wf  wf  e4  e5  e4z e5z f2  bf  f4  f8
u64  u64 u64 wf  u64 wf  u64 wf  u64 wf  u64 wf  e4  e5  e4z e5z f2  bf  f4  f8
wf   wf  wf  wf  wf  wf  wf  wf  wf  wf  wf  wf  e4  e5  e4z e5z f2  bf  f4  f8
e4   e4  e4  e4  e4  e4  e4  e4  e4  e4  e4  e4  e4  f2  f2  f2  f2  bf  f4  f8
e5   e5  e5  e5  e5  e5  e5  e5  e5  e5  e5  e5  f2  e5  f2  f2  f2  bf  f4  f8
e4z  e4z e4z e4z e4z e4z e4z e4z e4z e4z e4z e4z f2  f2  e4z f2  f2  bf  f4  f8
e5z  e5z e5z e5z e5z e5z e5z e5z e5z e5z e5z e5z f2  f2  f2  e5z f2  bf  f4  f8
f2   f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f2  f4  f4  f8
bf   bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  bf  f4  bf  f4  f8
f4   f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f4  f8
f8   f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8  f8
)";

const std::map<std::string, DType> kShort = {
    {"b", DType::Bool},      {"wi", DType::WeakInt},      {"i8", DType::Int8},         {"u8", DType::UInt8},
    {"i16", DType::Int16},   {"u16", DType::UInt16},      {"i32", DType::Int32},       {"u32", DType::UInt32},
    {"i64", DType::Int64},   {"u64", DType::UInt64},      {"wf", DType::WeakFloat},    {"e4", DType::Fp8E4M3},
    {"e5", DType::Fp8E5M2},  {"e4z", DType::Fp8E4M3Fnuz}, {"e5z", DType::Fp8E5M2Fnuz}, {"f2", DType::Float16},
    {"bf", DType::BFloat16}, {"f4", DType::Float32},      {"f8", DType::Float64},
};

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}

constexpr DType kAll[] = {
    DType::Bool,      DType::WeakInt,  DType::Int8,        DType::UInt8,   DType::Int16,
    DType::UInt16,    DType::Int32,    DType::UInt32,      DType::Int64,   DType::UInt64,
    DType::WeakFloat, DType::Fp8E4M3,  DType::Fp8E4M3Fnuz, DType::Fp8E5M2, DType::Fp8E5M2Fnuz,
    DType::Float16,   DType::BFloat16, DType::Float32,     DType::Float64,
};

// "half,bfloat16" to a set, for the table of lossless casts.
bool listed(std::string_view list, DType d) {
  std::istringstream in{std::string(list)};
  for (std::string name; std::getline(in, name, ',');)
    if (parse_dtype(name) == d) return true;
  return false;
}

}  // namespace

TEST_CASE("join table") {
  std::istringstream in(kJoinTable);
  std::string line;
  std::getline(in, line);
  std::getline(in, line);
  const std::vector<std::string> columns = words_of(line);
  REQUIRE(columns.size() == 19);
  int rows = 0;
  while (std::getline(in, line)) {
    const std::vector<std::string> row = words_of(line);
    REQUIRE(row.size() == 20);
    for (size_t i = 0; i < columns.size(); i++) {
      const DType a = kShort.at(row[0]), b = kShort.at(columns[i]);
      INFO(row[0], " join ", columns[i], " gives ", dtype_name(join(a, b)));
      CHECK(join(a, b) == kShort.at(row[i + 1]));
      CHECK(join(b, a) == kShort.at(row[i + 1]));
    }
    rows++;
  }
  CHECK(rows == 19);
  for (DType d : kAll) CHECK(join(DType::Void, d) == d);
  CHECK(join(DType::Void, DType::Void) == DType::Void);
}

TEST_CASE("join is associative") {
  for (DType a : kAll)
    for (DType b : kAll)
      for (DType c : kAll) {
        // Least elements above two fp8 types and half/bfloat16 are not unique, so only ordered sub-lattices
        // associate.
        if (is_fp8(a) || is_fp8(b) || is_fp8(c)) continue;
        CHECK(join(join(a, b), c) == join(a, join(b, c)));
      }
}

TEST_CASE("names and aliases") {
  const std::pair<DType, std::pair<const char*, const char*>> rows[] = {
      {DType::Void, {"void", "void"}},          {DType::Bool, {"bool", "bool"}},
      {DType::WeakInt, {"weakint", "weakint"}}, {DType::Int8, {"char", "int8"}},
      {DType::UInt8, {"uchar", "uint8"}},       {DType::Int16, {"short", "int16"}},
      {DType::UInt16, {"ushort", "uint16"}},    {DType::Int32, {"int", "int32"}},
      {DType::UInt32, {"uint", "uint32"}},      {DType::Int64, {"long", "int64"}},
      {DType::UInt64, {"ulong", "uint64"}},     {DType::WeakFloat, {"weakfloat", "weakfloat"}},
      {DType::Fp8E4M3, {"fp8e4m3", "fp8e4m3"}}, {DType::Fp8E4M3Fnuz, {"fp8e4m3fnuz", "fp8e4m3fnuz"}},
      {DType::Fp8E5M2, {"fp8e5m2", "fp8e5m2"}}, {DType::Fp8E5M2Fnuz, {"fp8e5m2fnuz", "fp8e5m2fnuz"}},
      {DType::Float16, {"half", "float16"}},    {DType::BFloat16, {"bfloat16", "bfloat16"}},
      {DType::Float32, {"float", "float32"}},   {DType::Float64, {"double", "float64"}},
  };
  REQUIRE(std::size(rows) == kNumDTypes);
  for (const auto& [d, names] : rows) {
    CHECK(dtype_name(d) == names.first);
    CHECK(dtype_full_name(d) == names.second);
    CHECK(parse_dtype(names.first) == d);
    CHECK(parse_dtype(names.second) == d);
  }
  CHECK(parse_dtype("HALF") == DType::Float16);
  CHECK(parse_dtype("Float32") == DType::Float32);
  CHECK(!parse_dtype(""));
  CHECK(!parse_dtype("float3"));
  CHECK(!parse_dtype("float322"));
}

TEST_CASE("sizes and formats") {
  CHECK(bit_width(DType::Bool) == 1);
  CHECK(bit_width(DType::WeakInt) == 800);
  CHECK(bit_width(DType::WeakFloat) == 800);
  CHECK(bit_width(DType::Void) == 0);
  CHECK(item_size(DType::Bool) == 1);
  CHECK(item_size(DType::Fp8E5M2) == 1);
  CHECK(item_size(DType::BFloat16) == 2);
  CHECK(item_size(DType::UInt64) == 8);
  for (DType d : {DType::WeakInt, DType::WeakFloat, DType::Void}) {
    const UserError e = user_error([&] { item_size(d); });
    CHECK(e.kind() == UserError::Kind::Type);
    CHECK(contains(e.what(), dtype_name(d)));
  }
  const auto format = [](DType d) {
    return std::pair(float_format(d).exponent_bits, float_format(d).mantissa_bits);
  };
  CHECK(format(DType::Float16) == std::pair(5, 10));
  CHECK(format(DType::BFloat16) == std::pair(8, 7));
  CHECK(format(DType::Float32) == std::pair(8, 23));
  CHECK(format(DType::Float64) == std::pair(11, 52));
  CHECK(format(DType::Fp8E4M3) == std::pair(4, 3));
  CHECK(format(DType::Fp8E4M3Fnuz) == std::pair(4, 3));
  CHECK(format(DType::Fp8E5M2) == std::pair(5, 2));
  CHECK(format(DType::Fp8E5M2Fnuz) == std::pair(5, 2));
  const UserError e = user_error([] { float_format(DType::Int32); });
  CHECK(e.kind() == UserError::Kind::Value);
  CHECK(contains(e.what(), "int is not a floating point type"));
}

TEST_CASE("kinds") {
  for (DType d : kAll) {
    INFO(dtype_name(d));
    CHECK(int(is_bool(d)) + int(is_int(d)) + int(is_float(d)) == 1);
    CHECK(is_int(d) == (is_unsigned(d) || is_signed_int(d)));
  }
  CHECK(is_signed_int(DType::WeakInt));
  CHECK(is_float(DType::WeakFloat));
  CHECK(!is_fp8(DType::Float16));
  CHECK(!is_float(DType::Void));
}

TEST_CASE("lossless casts") {
  const std::map<DType, const char*> sources = {
      {DType::WeakInt, "int8,uint8,int16,uint16,int32,uint32,int64,uint64"},
      {DType::Float64,
       "fp8e4m3,fp8e4m3fnuz,fp8e5m2,fp8e5m2fnuz,half,bfloat16,float,int8,uint8,int16,uint16,int32,uint32"},
      {DType::Float32, "fp8e4m3,fp8e4m3fnuz,fp8e5m2,fp8e5m2fnuz,half,bfloat16,int8,uint8,int16,uint16"},
      {DType::Float16, "fp8e4m3,fp8e4m3fnuz,fp8e5m2,fp8e5m2fnuz,int8,uint8"},
      {DType::UInt64, "uint8,uint16,uint32"},
      {DType::UInt32, "uint8,uint16"},
      {DType::UInt16, "uint8"},
      {DType::Int64, "int8,int16,int32,uint8,uint16,uint32"},
      {DType::Int32, "int8,int16,uint8,uint16"},
      {DType::Int16, "int8,uint8"},
  };
  for (DType to : kAll)
    for (DType from : kAll) {
      const auto it = sources.find(to);
      const bool expected =
          from == to || from == DType::Bool || (it != sources.end() && listed(it->second, from));
      INFO(dtype_name(from), " to ", dtype_name(to));
      CHECK(casts_losslessly(from, to) == expected);
    }
}

TEST_CASE("derived maps with default knobs") {
  CHECK(default_float() == DType::Float32);
  CHECK(default_int() == DType::Int32);
  CHECK(strong(DType::WeakInt) == DType::Int32);
  CHECK(strong(DType::WeakFloat) == DType::Float32);
  CHECK(strong(DType::UInt8) == DType::UInt8);
  CHECK(least_upper_float(DType::WeakInt) == DType::WeakFloat);
  CHECK(least_upper_float(DType::WeakFloat) == DType::WeakFloat);
  CHECK(least_upper_float(DType::Float16) == DType::Float16);
  CHECK(least_upper_float(DType::Int64) == DType::Float32);
  CHECK(least_upper_float(DType::Bool) == DType::Float32);
  const std::pair<DType, DType> sums[] = {
      {DType::Bool, DType::Int32},      {DType::Int8, DType::Int32},      {DType::Int64, DType::Int64},
      {DType::UInt8, DType::UInt32},    {DType::UInt32, DType::UInt32},   {DType::UInt64, DType::UInt64},
      {DType::Fp8E4M3, DType::Float32}, {DType::Float16, DType::Float32}, {DType::BFloat16, DType::Float32},
      {DType::Float64, DType::Float64}, {DType::WeakInt, DType::Int32},   {DType::WeakFloat, DType::Float32},
  };
  for (const auto& [d, sum] : sums) {
    INFO(dtype_name(d));
    CHECK(sum_dtype(d) == sum);
  }
}

TEST_CASE("default dtypes follow their knobs") {
  {
    const KnobScope f(Knob::DEFAULT_FLOAT, "half"), i(Knob::DEFAULT_INT, "INT64"),
        s(Knob::SUM_DTYPE, "float16");
    CHECK(default_float() == DType::Float16);
    CHECK(default_int() == DType::Int64);
    CHECK(strong(DType::WeakFloat) == DType::Float16);
    CHECK(least_upper_float(DType::Int32) == DType::Float16);
    CHECK(sum_dtype(DType::Float16) == DType::Float16);
    CHECK(sum_dtype(DType::BFloat16) == DType::Float32);
    CHECK(sum_dtype(DType::WeakInt) == DType::Int64);
  }
  CHECK(default_float() == DType::Float32);
  const std::tuple<Knob, const char*, DType (*)()> wrong[] = {
      {Knob::DEFAULT_FLOAT, "int32", default_float},
      {Knob::DEFAULT_FLOAT, "weakfloat", default_float},
      {Knob::DEFAULT_FLOAT, "flaot32", default_float},
      {Knob::DEFAULT_INT, "float32", default_int},
      {Knob::DEFAULT_INT, "bool", default_int},
      {Knob::SUM_DTYPE, "uint8", [] { return sum_dtype(DType::Float32); }},
  };
  for (const auto& [name, text, read] : wrong) {
    const KnobScope scope(name, text);
    const UserError e = user_error([&] { read(); });
    CHECK(e.kind() == UserError::Kind::Value);
    CHECK(contains(e.what(), knob_name(name)));
    CHECK(contains(e.what(), text));
  }
}

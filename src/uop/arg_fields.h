// The fields of the payloads, which printing, parsing and hashing all go by.
#pragma once
#include "uop/arg.h"

#include <tuple>

namespace lathe {

// A field under the name it has in the text form, which leaves it out when it has its default value, unless
// `always`.
template <class Payload, class T>
struct Field {
  std::string_view name;
  T Payload::* member;
  bool always = false;
};

// The first field is always written: it tells the payloads apart.
template <class Payload>
inline constexpr auto kFields = std::tuple();
template <>
inline constexpr auto kFields<RangeArg> =
    std::tuple(Field{"id", &RangeArg::id}, Field{"type", &RangeArg::type, true});
template <>
inline constexpr auto kFields<ReduceArg> =
    std::tuple(Field{"op", &ReduceArg::op}, Field{"n_axes", &ReduceArg::n_axes});
template <>
inline constexpr auto kFields<ParamArg> = std::tuple(
    Field{"slot", &ParamArg::slot}, Field{"dtype", &ParamArg::dtype}, Field{"space", &ParamArg::space},
    Field{"name", &ParamArg::name}, Field{"device", &ParamArg::device}, Field{"bounds", &ParamArg::bounds},
    Field{"multiple_of", &ParamArg::multiple_of});
template <>
inline constexpr auto kFields<KernelArg> =
    std::tuple(Field{"kernel", &KernelArg::name}, Field{"actions", &KernelArg::actions},
               Field{"given", &KernelArg::given}, Field{"source", &KernelArg::source},
               Field{"binary", &KernelArg::is_binary}, Field{"cores", &KernelArg::n_cores});
template <>
inline constexpr auto kFields<CallArg> =
    std::tuple(Field{"call", &CallArg::name}, Field{"written", &CallArg::n_written},
               Field{"precompile", &CallArg::precompile}, Field{"recompute", &CallArg::recompute},
               Field{"gradient", &CallArg::gradient_id});
template <>
inline constexpr auto kFields<StageArg> =
    std::tuple(Field{"space", &StageArg::space}, Field{"removable", &StageArg::removable, true});

}  // namespace lathe

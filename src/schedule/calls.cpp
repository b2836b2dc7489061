#include "schedule/passes.h"
#include "uop/rebuild.h"

#include <algorithm>
#include <mutex>
#include <unordered_map>
#include <unordered_set>

namespace lathe {
namespace {

bool is_param(const UOp& u) { return u.op() == Op::Param && u.param().space == AddrSpace::Global; }

// The values of the body over the arguments. Memory that a function makes for itself is new in every call.
std::vector<UOp> inlined(const UOp& call) {
  Rebuilt done;
  const UOp values = done.walk(toposort(call.src(0)), [&](const UOp& u) {
    if (is_param(u)) return UOp(call.src(1 + static_cast<size_t>(u.param().slot)));
    if (u.op() == Op::Buffer) return new_buffer(u.shape(), u.dtype(), u.device());
    return done.over_sources(u);
  });
  return {values.srcs().begin(), values.srcs().end()};
}

// Constants have none of their own.
const std::string& device_of(const UOp& value, const UOp& body) {
  return value.device().empty() ? body.device() : value.device();
}

// The values of the body as memory that a Call writes.
std::vector<UOp> in_memory(const UOp& given) {
  const UOp& body = given.src(0);
  std::vector<UOp> out, arguments;
  for (const UOp& v : body.srcs()) arguments.push_back(new_buffer(v.shape(), v.dtype(), device_of(v, body)));
  std::unordered_set<int64_t> used;
  for (const UOp& u : toposort(body))
    if (is_param(u)) used.insert(u.param().slot);
  // function_schedule numbers the values from the last Param that is used on.
  const size_t n_used = used.empty() ? 0 : static_cast<size_t>(*std::ranges::max_element(used)) + 1;
  for (const UOp& a : given.srcs().subspan(1, n_used)) {
    if (!used.count(&a - given.srcs().data() - 1)) {
      arguments.push_back(arguments[0]);  // any: nothing reads it
      continue;
    }
    const UOp memory = a.device().empty() ? new_buffer(a.shape(), a.dtype(), body.device()) : UOp();
    arguments.push_back(memory ? UOp::make(Op::After, {memory, store(memory, a)})
                               : UOp::make(Op::Contiguous, {a}));
  }
  CallArg arg = *given.arg_as<CallPtr>();
  arg.n_written = static_cast<int32_t>(body.n_srcs());
  const UOp lowered = call(body, arguments, arg);
  for (size_t i = 0; i < body.n_srcs(); i++) out.push_back(UOp::make(Op::After, {arguments[i], lowered}));
  return out;
}

// A schedule of its own is for one device and sizes that are known.
bool can_stay(const UOp& made) {
  const UOp& body = made.src(0);
  const auto is_alone = [](const UOp& u) { return !names_several(u.device()); };
  const auto has_numbers = [](const UOp& u) {
    return std::ranges::all_of(u.shape(), [](const SInt& d) { return d.is_const(); });
  };
  return !body.device().empty() && std::ranges::all_of(made.srcs(), is_alone) &&
         std::ranges::all_of(toposort(body), is_alone) &&
         std::ranges::all_of(made.srcs().subspan(1), has_numbers) &&
         std::ranges::all_of(body.srcs(), has_numbers);
}

}  // namespace

UOp lower_calls(const UOp& graph) {
  UOp out = graph;
  for (;;) {  // functions may call others
    const NodeList order = toposort(out);
    if (std::ranges::none_of(order, [](const UOp& u) { return u.op() == Op::Result; })) return out;
    std::unordered_map<const Node*, std::vector<UOp>> values;
    Rebuilt done;
    out = done.walk(order, [&](const UOp& u) {
      if (u.op() != Op::Result) return done.over_sources(u);
      std::vector<UOp>& all = values[u.src(0).node()];
      if (all.empty()) {
        const UOp made = done.of(u.src(0));
        const bool stays = made.arg_as<CallPtr>()->precompile && can_stay(made);
        all = stays ? in_memory(made) : inlined(made);
      }
      return all[static_cast<size_t>(u.value().as_i64())];
    });
  }
}

const Schedule& function_schedule(const UOp& body) {
  static std::mutex mutex;
  static auto* const known = new std::unordered_map<UOp, Schedule>;  // leaked: nodes outlive statics
  {
    std::lock_guard lock(mutex);
    if (const auto it = known->find(body); it != known->end()) return it->second;
  }
  int64_t slot = 0;
  for (const UOp& u : toposort(body))
    if (is_param(u)) slot = std::max(slot, u.param().slot + 1);
  std::vector<UOp> written;
  for (const UOp& v : body.srcs()) {
    const UOp to = param(static_cast<int>(slot++), v.shape(), v.dtype(), device_of(v, body));
    written.push_back(UOp::make(Op::After, {to, store(to, v)}));
  }
  Schedule made = make_schedule(written);
  std::lock_guard lock(mutex);
  return known->emplace(body, std::move(made)).first->second;
}

}  // namespace lathe

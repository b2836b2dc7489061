#include "tensor/shard.h"

#include "schedule/shard.h"
#include "tensor/place.h"
#include "tensor/state.h"

namespace lathe {
namespace {

Tensor spread(const Tensor& t, const std::string& where, std::optional<int> axis) {
  const std::vector<std::string> devices = split_devices(where);
  std::vector<UOp> parts;
  for (size_t i = 0; i < devices.size(); i++) {
    const UOp part = axis ? shard_piece(t.uop(), *axis, i, devices.size()) : t.uop();
    parts.push_back(stored(copy_to(part, devices[i]), devices[i]));
  }
  Tensor out(multi(parts, axis));
  out.set_param(t.is_param());
  if (const std::optional<Tensor> g = t.grad()) out.set_grad(spread(*g, where, axis));
  return out;
}

}  // namespace

Tensor Tensor::shard(const std::vector<std::string>& devices, std::optional<int64_t> axis) const {
  if (names_several(device())) user_runtime_error("can't shard a multi-device tensor: it is on {}", device());
  const std::string where = place(join_devices(devices));
  if (device().empty() || !names_several(where)) return to(where);
  return spread(*this, where, axis ? std::optional(resolve_dim(*axis)) : std::nullopt);
}

Tensor& Tensor::move_to_shards(const std::vector<std::string>& devices, std::optional<int64_t> axis) {
  const Tensor moved = shard(devices, axis);
  if (moved.is_same(*this)) return *this;
  LiveTensors::instance().set(*state_, moved.uop());
  state_->grad = moved.state_->grad;
  return *this;
}

Tensor Tensor::shard_like(const Tensor& other) const {
  const std::string& where = other.device();
  if (device().empty() || where.empty()) return *this;
  if (!names_several(where)) return to(where);
  const std::optional<int> axis = other.shard_axis();
  return device() == where && shard_axis() == axis ? *this : spread(*this, where, axis);
}

std::optional<int> Tensor::shard_axis() const { return lathe::shard_axis(uop()); }

Tensor per_shard(const Tensor& like, const std::string& device,
                 FunctionRef<Tensor(const Shape&, const std::string&)> make) {
  const std::string& where = like.device();
  if (!names_several(where)) return make(like.shape(), device.empty() ? memory_beside(where) : device);
  if (!device.empty())
    user_runtime_error("cannot specify `device` on `*_like` of a multi device tensor: {} for one on {}",
                       device, where);
  const std::optional<int> axis = like.shard_axis();
  if (!axis) return make(like.shape(), where);
  const std::vector<std::string> devices = split_devices(where);
  Shape local = like.shape();
  local[static_cast<size_t>(*axis)] = shard_size(local[static_cast<size_t>(*axis)], devices.size());
  std::vector<UOp> parts;
  for (const std::string& d : devices) parts.push_back(make(local, d).uop());
  return Tensor(multi(parts, axis));
}

}  // namespace lathe

#include "engine/graph.h"

#include "base/knobs.h"
#include "engine/cancel.h"
#include "engine/counters.h"
#include "engine/profile.h"

#include <algorithm>
#include <iterator>

namespace lathe {

Graph::Graph(const Recording& recording, std::span<const UOp> inputs, std::vector<UOp>& results,
             const Nodes& held) {
  std::vector<Launch> launches = recording.launches();
  restore_host_data(recording, results, launches, held);
  Nodes written;
  for (const Launch& l : launches)
    for (const UOp& b : l.written()) written.insert(b.node());
  for (const UOp& b : inputs) writes_inputs_ = writes_inputs_ || written.count(b.node());
  // Nodes without memory stand for what is bound: a graph keeps no memory of a call alive.
  std::unordered_map<const Node*, UOp> bound;
  const auto bind = [&](const UOp& b, std::vector<UOp>& list) {
    const auto [it, is_new] = bound.emplace(b.node(), UOp());
    if (is_new) list.push_back(it->second = new_buffer(b.shape(), b.dtype(), b.device()));
    return is_new;
  };
  for (const UOp& b : inputs) bind(b, inputs_);
  std::erase_if(results, [&](const UOp& b) {
    return !recording.made(b) || !written.count(b.node()) || !bind(b, results_);
  });
  for (Launch& l : launches)
    for (UOp& b : l.buffers)
      if (const auto it = bound.find(b.node()); it != bound.end()) b = it->second;

  Nodes varying;
  for (const auto& [from, to] : bound) varying.insert(to.node());
  for (const Launch& l : launches) {
    for (const UOp& b : l.buffers)
      // Who owns memory of the caller may change it at any time.
      if (b.param().store->storage && memory_of(b)->is_external()) varying.insert(b.node());
    for (const UOp& b : l.written())
      if (!recording.made(b) || held.count(b.node())) varying.insert(b.node());
  }
  add_steps(std::move(launches), std::move(varying));
  place_buffers(recording, held);
  make_segments();
}

// What the recording took from the host and then wrote to, or gives away, starts every run as it was.
void Graph::restore_host_data(const Recording& recording, std::span<const UOp> results,
                              std::vector<Launch>& launches, const Nodes& held) const {
  std::vector<Launch> copies;
  Nodes seen;
  const auto restore = [&](const UOp& b) {
    auto& storage = b.param().store->storage;
    if (!recording.made(b) || held.count(b.node()) || !storage || !seen.insert(b.node()).second) return;
    if (memory_of(b)->is_external()) return;
    const UOp original = new_buffer(b.shape(), b.dtype(), b.device());
    original.param().store->storage = std::move(storage);
    copies.push_back({nullptr, {b, original}, 1, &device(b.param().device)});
  };
  for (const Launch& l : launches)
    for (const UOp& b : l.written()) restore(b);
  for (const UOp& b : results) restore(b);
  launches.insert(launches.begin(), std::move_iterator(copies.begin()), std::move_iterator(copies.end()));
}

// Splits the launches into those that run once and the steps of each run.
void Graph::add_steps(std::vector<Launch> launches, Nodes varying) {
  const auto varies = [&](const Launch& l) {
    return !l.vars.empty() ||
           std::ranges::any_of(l.buffers, [&](const UOp& b) { return varying.count(b.node()) != 0; });
  };
  // A later kernel may write to what an earlier one makes, so that this one has to run again, too.
  for (size_t before = 0; before != varying.size();) {
    before = varying.size();
    for (const Launch& l : launches)
      if (varies(l))
        for (const UOp& b : l.written()) varying.insert(b.node());
  }
  for (Launch& l : launches) {
    if (!varies(l)) {
      once_.push_back(std::move(l));
      continue;
    }
    for (size_t i = 0; i < l.buffers.size(); i++)
      positions_[l.buffers[i].node()].push_back(arguments_.size() + i);
    for (size_t i = 0; i < l.vars.size(); i++) variables_[l.kernel->variables[i]].push_back(vars_.size() + i);
    const size_t first = arguments_.size(), first_var = vars_.size();
    arguments_.resize(first + l.buffers.size());
    vars_.insert(vars_.end(), l.vars.begin(), l.vars.end());
    steps_.push_back({std::move(l), first, first_var});
  }
  pointers_.resize(arguments_.size());
}

void Graph::place_buffers(const Recording& recording, const Nodes& held) {
  Nodes bound, once, made_once, seen;
  for (const UOp& b : inputs_) bound.insert(b.node());
  for (const UOp& b : results_) bound.insert(b.node());
  for (const Launch& l : once_)
    for (const UOp& b : l.written()) made_once.insert(b.node());
  for (const Launch& l : once_)
    for (const UOp& b : l.buffers) {
      if (!once.insert(b.node()).second) continue;
      const bool is_inner = !positions_.count(b.node());
      if (!made_once.count(b.node())) once_reads_.emplace_back(memory_of(b), 0);
      if (is_inner) (made_once.count(b.node()) ? once_inner_ : fixed_).push_back(b);
    }
  const auto is_fixed = [&](const UOp& b) {
    return !recording.made(b) || held.count(b.node()) || once.count(b.node()) || b.param().store->storage;
  };
  std::vector<const std::vector<UOp>*> uses;
  for (const Step& s : steps_) {
    uses.push_back(&s.launch.buffers);
    for (const UOp& b : s.launch.buffers)
      if (!bound.count(b.node()) && seen.insert(b.node()).second && is_fixed(b)) fixed_.push_back(b);
  }
  Nodes planned = seen;
  for (const UOp& b : fixed_) planned.erase(b.node());
  arenas_ = plan_arenas(uses, [&](const UOp& b) { return planned.count(b.node()) != 0; });
  for (const Step& s : steps_) {
    for (size_t i = 0; i < s.launch.n_written; i++) {
      const UOp& out = s.launch.buffers[i];
      if (planned.count(out.node()) || !written_.insert(out.node()).second) continue;
      written_at_.push_back(s.arguments + i);
      if (std::ranges::find(results_, out) == results_.end())
        first_overwrite_ = std::min(first_overwrite_, static_cast<size_t>(&s - steps_.data()));
    }
  }
  for (const UOp& b : fixed_) {
    const auto& memory = fixed_memory_.emplace_back(memory_of(b));
    if (written_.count(b.node())) written_memory_.insert(&memory->base());
    if (const auto at = positions_.find(b.node()); at != positions_.end())
      for (size_t position : at->second) set_argument(position, *memory);
  }
}

void Graph::make_segments() {
  // Names for pieces of memory that are apart: arenas, and all else by itself.
  std::unordered_map<const Node*, MemoryUse> place;
  for (const Arena& a : arenas_)
    for (const auto& [b, offset] : a.places) place[b.node()] = {&a, offset, offset + storage_bytes(b), false};
  for (size_t i = 0; i < fixed_.size(); i++) {
    const Buffer& m = *fixed_memory_[i];
    place[fixed_[i].node()] = {&m.base(), m.offset(), m.offset() + m.size(), false};
  }
  for (size_t i = 0; i < steps_.size(); i++) {
    const Launch& l = steps_[i].launch;
    const HostEntry entry = l.kernel ? l.kernel->program->host_entry() : nullptr;
    if (segments_.empty() || segments_.back().region.has_value() != (entry != nullptr))
      segments_.push_back({i, entry ? std::optional<Region>(Region()) : std::nullopt, {}});
    if (!entry) continue;
    std::vector<MemoryUse> uses;
    for (const UOp& b : l.buffers) {
      uses.push_back(place.try_emplace(b.node(), MemoryUse{b.node(), 0, 1, false}).first->second);
      uses.back().is_written = uses.size() <= l.n_written;
    }
    const Estimate& work = l.kernel->work;
    segments_.back().region->add(entry, l.kernel->n_cores, steps_[i].arguments, steps_[i].vars,
                                 std::max(work.flops, work.bytes / 8), uses);
    segments_.back().work.flops += work.flops;
    segments_.back().work.bytes += work.bytes;
  }
}

void Graph::set_argument(size_t at, Buffer& memory) {
  arguments_[at] = &memory;
  memory.allocate();  // or fail before a step ran
  if (memory.device().memory().allocator().is_host_visible()) pointers_[at] = memory.data();
}

void Graph::compute_constants() {
  const auto is_old = [](const auto& read) { return read.first->version() == read.second; };
  if (is_computed_ && std::ranges::all_of(once_reads_, is_old)) return;
  for (const Launch& l : once_) run_launch(l);
  for (auto& [memory, version] : once_reads_) version = memory->version();
  for (const UOp& b : once_inner_) b.param().store->storage = nullptr;
  is_computed_ = true;
}

// The memory of an input, or a copy of it where runs write to it.
std::shared_ptr<Buffer> Graph::apart(const std::shared_ptr<Buffer>& input) const {
  if (!written_memory_.count(&input->base())) return input;
  if (writes_inputs_)
    user_runtime_error("an input is memory that the captured function writes by another name: use .clone()");
  auto copy = Buffer::make(input->device(), input->size());
  copy_bytes(*copy, *input);
  return copy;
}

// The order of steps, and where they need copies, was found for inputs that are nothing else.
void Graph::check_written_inputs(std::span<const std::shared_ptr<Buffer>> memory) const {
  for (size_t i = 0; i < inputs_.size(); i++) {
    if (!written_.count(inputs_[i].node())) continue;
    const Buffer& mine = *memory[i];
    const auto overlaps = [&](const std::shared_ptr<Buffer>& other) {
      return &other->base() == &mine.base() && other->offset() < mine.offset() + mine.size() &&
             mine.offset() < other->offset() + other->size();
    };
    if (std::ranges::any_of(fixed_memory_, overlaps) || std::ranges::any_of(memory.first(i), overlaps) ||
        std::ranges::any_of(memory.subspan(i + 1), overlaps))
      user_runtime_error(
          "input {} is written by the captured function, which uses its memory by another name, too: use "
          ".clone()",
          i);
  }
}

void Graph::run(std::span<const std::shared_ptr<Buffer>> memory, const VariableValues& values) {
  const auto lock = lock_engine();
  const double start = is_profiling() ? now_seconds() : 0;
  CHECK(memory.size() == inputs_.size() + results_.size(), "{} buffers for {} inputs and {} results",
        memory.size(), inputs_.size(), results_.size());
  if (writes_inputs_) check_written_inputs(memory);
  std::vector<std::shared_ptr<Buffer>> copies;
  for (size_t i = 0; i < memory.size(); i++) {
    const bool is_input = i < inputs_.size();
    const auto at = positions_.find((is_input ? inputs_[i] : results_[i - inputs_.size()]).node());
    if (at == positions_.end()) continue;
    const std::shared_ptr<Buffer> bound = is_input ? apart(memory[i]) : memory[i];
    if (bound != memory[i]) copies.push_back(bound);
    for (size_t position : at->second) set_argument(position, *bound);
  }
  for (const auto& [name, value] : values)
    if (const auto at = variables_.find(name); at != variables_.end())
      for (size_t position : at->second) vars_[position] = value;
  compute_constants();
  if (arena_memory_.empty()) {
    std::vector<std::shared_ptr<Buffer>> made;
    for (const Arena& a : arenas_) {
      const auto buffers = make_arena(a);
      made.insert(made.end(), buffers.begin(), buffers.end());
      for (size_t i = 0; i < buffers.size(); i++)
        for (size_t at : positions_.at(a.places[i].buffer.node())) set_argument(at, *buffers[i]);
    }
    arena_memory_ = std::move(made);
  }
  for (size_t at : written_at_) arguments_[at]->mark_written();
  for (size_t i = 0; i < segments_.size(); i++) {
    if (segments_[i].begin <= first_overwrite_) stop_if_cancelled();
    run_segment(i);
  }
  if (start)
    profile_event("launch", "replay", start, now_seconds() - start,
                  fmt::format(R"("steps":{})", steps_.size()));
}

void Graph::run_segment(size_t i) {
  const Segment& segment = segments_[i];
  const size_t end = i + 1 < segments_.size() ? segments_[i + 1].begin : steps_.size();
  if (segment.region && knob(Knob::DEBUG) < 2 && !is_profiling()) {
    segment.region->run(pointers_.data(), vars_.data());
    count([&](Counters& c) {
      c.kernels += end - segment.begin;
      c.flops += segment.work.flops;
      c.bytes += segment.work.bytes;
    });
    return;
  }
  for (size_t s = segment.begin; s < end; s++) {
    const Step& step = steps_[s];
    run_step(step.launch, {arguments_.data() + step.arguments, step.launch.buffers.size()},
             {vars_.data() + step.vars, step.launch.vars.size()});
  }
}

std::string Graph::summary() const {
  size_t separate = 0, together = 0, meetings = 0;
  for (const Arena& a : arenas_) separate += a.separate_bytes, together += a.bytes;
  for (const Segment& s : segments_) meetings += s.region ? s.region->n_meetings() : 0;
  return fmt::format(
      "{} kernels, {} more run once; {} inputs, {} results; {:.2f} MB of intermediates in {:.2f} MB; "
      "threads meet {} times",
      steps_.size(), once_.size(), inputs_.size(), results_.size(), static_cast<double>(separate) * 1e-6,
      static_cast<double>(together) * 1e-6, meetings);
}

}  // namespace lathe

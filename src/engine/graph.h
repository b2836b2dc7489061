// A recording that can be run again over other inputs.
#pragma once
#include "engine/recording.h"
#include "engine/region.h"
#include "schedule/memory_plan.h"

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace lathe {

// Memory of a captured graph is
//   bound: inputs, and results that it makes, which every run() gets anew;
//   fixed: what was there before, what others hold on to, and what is computed once;
//   planned: all else, in arenas that last from run to run.
// Kernels that depend neither on inputs nor on memory that the graph writes run at the first run(), and again
// only when something they read was written since.
class Graph {
 public:
  // `inputs` are different Buffers, `results` those that the values handed out look at, of which those stay
  // that the recording makes, and `held` others that something looks at.
  Graph(const Recording& recording, std::span<const UOp> inputs, std::vector<UOp>& results,
        const std::unordered_set<const Node*>& held);

  // `memory` for the inputs, then for results(), each of the size it had; on the device it had. RuntimeError
  // where an input that the graph writes is also memory that it uses otherwise. Variables without a value in
  // `values` keep the one they had.
  void run(std::span<const std::shared_ptr<Buffer>> memory, const VariableValues& values = {});
  // Buffers without memory like those results that stayed.
  const std::vector<UOp>& results() const { return results_; }
  // Buffers of fixed memory, and those among them that runs write.
  const std::vector<UOp>& fixed() const { return fixed_; }
  bool writes(const UOp& fixed) const { return written_.count(fixed.node()) != 0; }
  bool writes_inputs() const { return writes_inputs_; }

  // Gives the arenas back until the next run.
  void free_intermediates() { arena_memory_.clear(); }
  bool is_empty() const { return steps_.empty() && once_.empty(); }
  std::string summary() const;

 private:
  using Nodes = std::unordered_set<const Node*>;
  struct Step {
    Launch launch;
    size_t arguments, vars;  // position of the first
  };
  // Steps from `begin` on: as many as are one region, or as the devices run themselves.
  struct Segment {
    size_t begin;
    std::optional<Region> region;
    Estimate work;
  };

  void restore_host_data(const Recording& recording, std::span<const UOp> results,
                         std::vector<Launch>& launches, const Nodes& held) const;
  void add_steps(std::vector<Launch> launches, Nodes varying);
  void place_buffers(const Recording& recording, const Nodes& held);
  void make_segments();
  void set_argument(size_t at, Buffer& memory);
  void compute_constants();
  void run_segment(size_t i);
  std::shared_ptr<Buffer> apart(const std::shared_ptr<Buffer>& input) const;
  void check_written_inputs(std::span<const std::shared_ptr<Buffer>> memory) const;

  std::vector<UOp> inputs_, results_, fixed_;
  Nodes written_;
  bool writes_inputs_ = false;

  std::vector<Launch> once_;
  std::vector<UOp> once_inner_;                                           // what only they use
  std::vector<std::pair<std::shared_ptr<Buffer>, uint64_t>> once_reads_;  // with its version
  bool is_computed_ = false;

  std::vector<Step> steps_;
  std::vector<Segment> segments_;
  std::vector<Buffer*> arguments_;                        // step after step
  std::vector<void*> pointers_;                           // to their bytes, where the host sees them
  std::vector<int64_t> vars_;                             // values of variables, step after step
  std::map<std::string, std::vector<size_t>> variables_;  // positions of each among them
  std::unordered_map<const Node*, std::vector<size_t>> positions_;  // of each buffer among the arguments
  std::vector<size_t> written_at_;     // one position of each bound or fixed buffer that is written
  size_t first_overwrite_ = SIZE_MAX;  // the first step that writes what is no result
  std::vector<std::shared_ptr<Buffer>> fixed_memory_;
  std::unordered_set<const Buffer*> written_memory_;
  std::vector<Arena> arenas_;
  std::vector<std::shared_ptr<Buffer>> arena_memory_;  // their buffers; empty while nothing is allocated
};

}  // namespace lathe

// Schedules by the structure of the graph: a training step is scheduled once.
#pragma once
#include "schedule/schedule.h"
#include "uop/variable.h"

namespace lathe {

// make_schedule, or the same schedule over other buffers where a graph of the same structure was scheduled
// before. Structure is everything but which memory Buffers stand for and the values of variables, which go to
// `values`. SCACHE=0 turns it off. Not thread-safe: the engine calls it under its lock.
Schedule cached_schedule(std::span<const UOp> roots, VariableValues& values);
// Whether the last call found its schedule.
bool schedule_cache_hit();

}  // namespace lathe

// Views: chains of movement ops over a value.
#pragma once
#include "uop/uop.h"

#include <vector>

namespace lathe {

// The node under movement ops, Detach and Bitcast.
UOp view_base(const UOp& u);
// The outermost Bitcast of a view to elements of another size; null when there is none.
UOp outer_resize(const UOp& view);
// Memory: a Buffer or Param, or a Multi of such.
bool is_in_memory(const UOp& base);
// Memory, or a later state of memory: the After of an assignment to it.
bool is_storage(const UOp& base);
// The Buffer, Param or Multi behind a state of memory.
UOp storage_root(const UOp& storage);
// The Buffers or Params of a state of memory, one a device.
std::vector<UOp> storage_parts(const UOp& storage);
// True for storage under views that keep its order and leave no gaps: the elements, those of each device, lie
// in memory in row-major order.
bool has_buffer_identity(const UOp& u);
// True when two elements of the view are one element of the base.
bool repeats_elements(const UOp& view, const UOp& base);
// True when the view shows every element of the base.
bool covers_base(const UOp& view, const UOp& base);

// The view's ops applied to `other` in place of the base (same shape, any dtype).
UOp apply_view(const UOp& view, const UOp& base, const UOp& other);
// `x`, shaped like the view, moved back to the base's shape; zeros where the view shows nothing.
UOp invert_view(const UOp& view, const UOp& base, const UOp& x);
// A bool of the base's shape: which elements the view, in which none has another size, shows.
UOp view_mask(const UOp& view, const UOp& base);

// Values of movement ops run backwards, also the gradients of these ops: `x` has the shape of `op_node`.
UOp invert_movement(const UOp& op_node, const UOp& x);

}  // namespace lathe

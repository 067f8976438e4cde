// Where the states of an update rule lie, from what the rule declares: which rank updates what of a bucket, and the shapes of
// what it keeps of that. Pure functions.
//
// A rule sees items of a parameter whole: elements, rows, matrices, or all of it (Whole). An item belongs to the rank of the
// bucket's group in whose shard it begins; what reaches beyond that shard is sent there for the update, and back. Over tensor
// ranks an item may be cut: then each of them has the whole item during the update, does the same, and keeps its local part.
// States like the parameter are as local as the parameter; others of a cut item are the same on all tensor ranks.
#pragma once
#include <vector>

#include "engine/flat.h"
#include "optim/update_rule.h"

namespace ravine {

// Items of one span of a bucket: [first, first + count) in order of memory.
struct SpanItems {
  size_t span = 0;
  const Param* param = nullptr;
  int64_t first = 0, count = 0;
  int64_t size = 0;  // local elements of one
  Shape whole;       // of one, over all tensor ranks
  bool cut = false;  // over tensor ranks: local is a part of whole
  Range range(const Bucket& bucket) const { return {bucket.spans[span].begin + first * size, count * size}; }
};
// The items of trained parameters that begin in this shard of the bucket, span by span; padding is no item.
std::vector<SpanItems> items_in(const Bucket& bucket, Range shard, Whole whole, int tensor_size);

// The shape of a state of a parameter of this shape (or of an item of it). A vector is one row.
Shape state_shape(const StateDeclaration& state, const Shape& shape);
DType state_type(const StateDeclaration& state, DType master);
// Values that a rank keeps of items; 0 where the parameter has no such state.
int64_t state_count(const StateDeclaration& state, const SpanItems& items);
// Bytes of all states of a rule: of a parameter over all ranks; of what a rank has of a bucket.
int64_t state_bytes(const UpdateRule& rule, const Param& param, DType master);
int64_t state_bytes(const UpdateRule& rule, const Bucket& bucket, int tensor_size);
// Of those states of a parameter that ranks may hold different ones of.
int64_t local_state_bytes(const UpdateRule& rule, const Param& param, DType master);

// A box of the state of a parameter, of which the first value is value `from` of what this rank keeps of these items.
struct StateBox {
  int64_t from = 0;
  Shape shape;
  std::vector<int64_t> begin;
};
// Of a state that is not like the parameter.
std::vector<StateBox> state_boxes(const StateDeclaration& state, const Bucket& bucket, const SpanItems& items);

}  // namespace ravine

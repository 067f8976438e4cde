// The layout of optimizer states, from the rule's declarations: which rank updates which part of a bucket, and the
// shapes of its states. Pure functions.
//
// A rule sees whole items of a parameter: elements, rows, matrices, or all of it (Whole). An item belongs to the rank
// of the bucket's group in whose shard it begins; its elements in other shards are sent to that rank for the update,
// and back. An item may be split over tensor ranks. Then each of them has the whole item during the update, computes
// the same, and keeps its local part. States shaped like the parameter are split like the parameter; other states of a
// split item are equal on all tensor ranks.
#pragma once
#include <vector>

#include "engine/flat.h"
#include "optim/update_rule.h"

namespace ravine {

// Items of one span of a bucket: [first, first + count) in memory order.
struct SpanItems {
  size_t span = 0;
  const Param* param = nullptr;
  int64_t first = 0, count = 0;
  int64_t size = 0;  // local elements of an item
  Shape whole;       // shape of an item, over all tensor ranks
  bool cut = false;  // split over tensor ranks: the local item is a part of `whole`
  Range range(const Bucket& bucket) const { return {bucket.spans[span].begin + first * size, count * size}; }
};
// Returns the items of trained parameters that begin in this shard of the bucket, span by span, without padding.
std::vector<SpanItems> items_in(const Bucket& bucket, Range shard, Whole whole, int tensor_size);

// Returns the shape of a state for a parameter, or an item of it, of shape `shape`. A vector is one row.
Shape state_shape(const StateDeclaration& state, const Shape& shape);
DType state_type(const StateDeclaration& state, DType master);
// Returns the number of values of a state that a rank keeps for these items; 0 if the parameter lacks the state.
int64_t state_count(const StateDeclaration& state, const SpanItems& items);
// Returns the bytes of all states of a rule for a parameter, over all ranks. `master` is the type of the master
// weights.
int64_t state_bytes(const UpdateRule& rule, const Param& param, DType master);
// Returns the bytes of all states of a rule that a rank keeps for its part of a bucket.
int64_t state_bytes(const UpdateRule& rule, const Bucket& bucket, int tensor_size);
// Returns the bytes of the states of a parameter that may differ between ranks (StateDeclaration::per_rank).
int64_t local_state_bytes(const UpdateRule& rule, const Param& param, DType master);

// A box of a parameter's state; a result of state_boxes. Its values are consecutive in the values that this rank keeps
// for the items, from index `from` on.
struct StateBox {
  int64_t from = 0;
  Shape shape;
  std::vector<int64_t> begin;
};
// Returns the boxes of a parameter's state that these items hold on this rank. Only for a state that is not shaped like
// the parameter.
std::vector<StateBox> state_boxes(const StateDeclaration& state, const Bucket& bucket, const SpanItems& items);

}  // namespace ravine

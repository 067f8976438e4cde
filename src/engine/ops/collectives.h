// Sums over the ranks of a group in a fixed order: a balanced tree, neighbours first, whatever the library underneath does. As bytes:
// a piece of everything to each rank, ordered sums there, and back.
#pragma once
#include "engine/ctx.h"

namespace ravine {

// `all` has size() pieces of the size of `mine`; mine = the sum over ranks of piece rank(). `mine` may lie inside `all`.
void reduce_scatter(Ctx& c, const Group& group, const TensorView& all, const TensorView& mine);
// x = the sum over ranks of x, on every rank. x lies in one run of memory.
void all_reduce(Ctx& c, const Group& group, const TensorView& x);

}  // namespace ravine

// How parameters lie in flat buckets, and which shard of them a rank has. Pure functions of the declarations and of where the
// rank stands.
#pragma once
#include <vector>

#include "engine/ctx.h"
#include "engine/param_store.h"

namespace ravine {

// Where a rank stands among those that divide the parameters, and how they do.
struct Sharding {
  Mesh mesh;
  Coordinates at;
  bool divided = false;           // ranks of a bucket's group update a shard each (ZeRO), else everything
  int64_t whole_below = 0;        // buckets of fewer elements are not divided
  int64_t stays_up_to = 0;        // values stay whole in buckets none of whose parameters has more elements
  bool first_rank_saves = false;  // rank 0 of a group saves all of it: others may hold other values
};

// The shape of what a rank of the mesh holds of p: cut dims divided, rounded up (a vocabulary that does not divide is padded),
// or fewer and larger parts where the cut says so. Of tensor ranks alone: by their number.
Shape local_shape(const Param& p, const Mesh& mesh);
Shape local_shape(const Param& p, int tensor_size);
// Where it begins in the parameter, per dim.
std::vector<int64_t> local_begin(const Param& p, const Coordinates& at, const Mesh& mesh);
std::vector<int64_t> local_begin(const Param& p, int tensor_rank, int tensor_size);

// Buckets of the units, in their order: within a unit by (way in which frozen values are kept, trainable, read as a matrix, cut
// over the tensor axis), each of one group. Packed ones are never divided, and nobody answers for them: they are made anew.
// Counts are padded so that shards are equal and begin at multiples of kNormRun: partial sums over runs of that length, as norms
// take them, are then the same however many ranks there are. Where a parameter lies in a bucket does not depend on the ranks of
// its group.
std::vector<Bucket> flat_buckets(ParamSet& params, const std::vector<Unit*>& units, const Sharding& sharding,
                                 const Types& types);

// A box of a parameter that lies in one run of a bucket: elements [from, from + shape.count()) of the flat buffer are the box
// of `shape` at `begin` of the whole parameter. Padding belongs to no piece.
struct Piece {
  const Param* param = nullptr;
  int64_t from = 0;
  Shape shape;
  std::vector<int64_t> begin;
  int64_t element(int64_t i) const;  // of the whole parameter: where the i-th of this box lies in it
};
// What these elements of the bucket hold, in order.
std::vector<Piece> pieces_of(const Bucket& bucket, Range range);
// Whether of all tensor ranks that hold the same of p this one is the primary one.
bool is_primary(const Param& p, int tensor_rank, int tensor_size);
// How many tensor ranks, neighbours, hold the same of p where it is cut into fewer parts than ranks; 1 where each has its own.
int replicas_of(const Param& p, int tensor_size);

}  // namespace ravine

// The layout of parameters in flat buckets, and the shard of each bucket that a rank owns. All functions are pure: they
// depend on the declarations and on the rank's coordinates alone.
#pragma once
#include <vector>

#include "engine/ctx.h"
#include "engine/param_store.h"

namespace ravine {

// The position of a rank in the mesh, and the rules by which ranks divide the parameters.
struct Sharding {
  Mesh mesh;
  Coordinates at;
  // true: each rank of a bucket's group updates one shard of it (ZeRO). false: each rank updates the whole bucket.
  bool divided = false;
  int64_t whole_below = 0;  // a bucket with fewer elements is not divided
  // Limit for small parameters (ZeRO 3): if all parameters of a bucket have at most this many elements, its values stay
  // whole on each rank.
  int64_t stays_up_to = 0;
  // true: rank 0 of a group saves the whole bucket in checkpoints, since the other ranks may hold other values.
  bool first_rank_saves = false;
};

// Returns the shape of the part of p that a rank of the mesh holds. Cut dims are divided and rounded up, so a
// vocabulary that does not divide is padded. If Cut::most_parts is smaller than the number of ranks, parts are fewer
// and larger. The second overload takes the number of tensor ranks alone.
Shape local_shape(const Param& p, const Mesh& mesh);
Shape local_shape(const Param& p, int tensor_size);
// Returns the index, per dim, at which the part of p that a rank holds begins in the whole parameter.
std::vector<int64_t> local_begin(const Param& p, const Coordinates& at, const Mesh& mesh);
std::vector<int64_t> local_begin(const Param& p, int tensor_rank, int tensor_size);

// Groups the parameters of the units into flat buckets, in the order of the units. Within a unit there is one bucket
// for each combination of five properties, sorted in this order: storage of frozen values; group; trainable; read as a
// matrix; cut over the tensor axis. Packed buckets are never divided. No rank has a primary range of them: values are
// quantised anew and not saved. Counts are padded, so that shards are equal and begin at multiples of kNormRun. Norms
// take partial sums over runs of kNormRun elements; so these sums are equal for any number of ranks. The offset of a
// parameter in its bucket does not depend on the number of ranks in its group.
std::vector<Bucket> flat_buckets(ParamSet& params, const std::vector<Unit*>& units, const Sharding& sharding,
                                 const Types& types);

// A part of a bucket that is a contiguous box of one parameter. Elements [from, from + shape.count()) of the flat
// buffer are the box of `shape` at index `begin` of the whole parameter. Padding belongs to no piece.
struct Piece {
  const Param* param = nullptr;
  int64_t from = 0;
  Shape shape;
  std::vector<int64_t> begin;
  // Returns the flat index, in the whole parameter, of the i-th element of this box.
  int64_t element(int64_t i) const;
};
// Returns the boxes of parameters that elements `range` of the bucket contain, in order. An Error if a dim other than
// the first does not divide over tensor ranks.
std::vector<Piece> pieces_of(const Bucket& bucket, Range range);
// True if this tensor rank is the first of the tensor ranks that hold the same part of p (its primary replica).
bool is_primary(const Param& p, int tensor_rank, int tensor_size);
// Returns how many neighbouring tensor ranks hold the same part of p; 1 if each rank has its own part.
int replicas_of(const Param& p, int tensor_size);

}  // namespace ravine

// The table of a rank's flat buckets: the buckets of this rank, the position of each parameter in them, and the units
// that read them. FlatWeights and FlatGrads share one table.
#pragma once
#include <vector>

#include "comm/ranks.h"
#include "engine/flat.h"
#include "files/disk_memory.h"

namespace ravine {

// The settings of a FlatTable: pipeline stages, ZeRO stage, and where values are kept.
struct FlatLayout {
  std::vector<int> stages;  // pipeline stage of each unit, by Unit::index; empty: all units are on this stage
  int zero = 0;
  int64_t whole_below = 0;        // buckets of fewer elements are not divided
  int64_t stays_up_to = 0;        // as in Sharding; no bucket stays if values are on disk
  bool first_rank_saves = false;  // as in Sharding
  bool sequence = false;          // uncut parameters: gradients of a tensor rank cover a part of the tokens
  const Ranks* ranks = nullptr;   // null: a single rank; must outlive the store
  // disk_values: disk memory of values between their uses. disk_masters: disk memory of masters that only the update
  // reads. Null: they are in memory. Must outlive the store.
  DiskMemory *disk_values = nullptr, *disk_masters = nullptr;
};

class FlatTable {
 public:
  // Assigns the parameters of this rank's pipeline stage to buckets. A stage that uses a tied parameter of another
  // stage also holds the bucket of its owner. The set is kept by reference.
  FlatTable(ParamSet& params, const Types& types, const FlatLayout& layout);
  FlatTable(const FlatTable&) = delete;
  FlatTable& operator=(const FlatTable&) = delete;

  struct Location {
    size_t bucket = 0;
    int64_t begin = 0;
    Shape shape;        // local
    bool here = false;  // on this stage
  };
  // Returns the bucket of a parameter and its position in it; for a tied parameter, the location of its owner. The
  // parameter must be on this stage.
  const Location& at(const Param& p) const;
  int stage_of(const Unit& u) const { return stages_.empty() ? ranks->at().pipeline : stages_[u.index]; }
  bool is_local(const Unit& u) const { return stage_of(u) == ranks->at().pipeline; }
  // True if each rank keeps all values of a bucket between uses, although ranks divide the bucket.
  bool values_stay(size_t bucket) const { return zero < 3 || buckets[bucket].stays; }
  const Group& group(size_t bucket) const { return ranks->along(buckets[bucket].group); }

  ParamSet& params;
  const Types types;
  const Ranks* ranks;
  const int zero;
  const bool sequence;
  const Sharding sharding;
  DiskMemory* const disk_values;
  DiskMemory* const disk_masters;
  std::vector<Bucket> buckets;
  size_t borrowed = 0;                       // first bucket of a tied parameter whose owner is on another stage
  std::vector<std::vector<size_t>> read_by;  // by Unit::index: the buckets whose values the blocks of the unit read
  std::vector<Axis> groups;                  // the axes of all buckets, each once

 private:
  std::vector<int> stages_;
  std::vector<Location> locations_;  // by Param::index
};

}  // namespace ravine

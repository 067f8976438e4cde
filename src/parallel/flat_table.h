// The flat buckets of a rank: which it holds, where each parameter lies in them, whose blocks read them. FlatWeights and
// FlatGrads share one.
#pragma once
#include <vector>

#include "comm/ranks.h"
#include "engine/flat.h"
#include "files/disk_memory.h"

namespace ravine {

struct FlatLayout {
  std::vector<int> stages;  // pipeline stage of each unit, by Unit::index; empty: all are here
  int zero = 0;
  int64_t whole_below = 0;        // buckets of fewer elements are not divided
  int64_t stays_up_to = 0;        // as in Sharding; of values on a disk none stays
  bool first_rank_saves = false;  // as in Sharding
  bool sequence = false;          // gradients of parameters that are not cut are of a part of the tokens on each tensor rank
  const Ranks* ranks = nullptr;   // null: alone; must outlive the store
  // Where values lie between their uses, and masters that only the update reads; null: in memory. Must outlive the store.
  DiskMemory *disk_values = nullptr, *disk_masters = nullptr;
};

class FlatTable {
 public:
  // Of this rank's stage. A stage that uses a tied parameter of another holds its bucket too. The set is kept by reference.
  FlatTable(ParamSet& params, const Types& types, const FlatLayout& layout);
  FlatTable(const FlatTable&) = delete;
  FlatTable& operator=(const FlatTable&) = delete;

  struct Location {
    size_t bucket = 0;
    int64_t begin = 0;
    Shape shape;        // local
    bool here = false;  // on this stage
  };
  // Of the parameter, or of the one it is tied to. It must be on this stage.
  const Location& at(const Param& p) const;
  int stage_of(const Unit& u) const { return stages_.empty() ? ranks->at().pipeline : stages_[u.index]; }
  bool is_local(const Unit& u) const { return stage_of(u) == ranks->at().pipeline; }
  // True if ranks that divide the bucket keep its values whole between their uses all the same.
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
  size_t borrowed = 0;                       // from here on buckets are of tied parameters whose owner is on another stage
  std::vector<std::vector<size_t>> read_by;  // by Unit::index: buckets whose values its blocks read
  std::vector<Axis> groups;                  // of the buckets, each once

 private:
  std::vector<int> stages_;
  std::vector<Location> locations_;  // by Param::index
};

}  // namespace ravine

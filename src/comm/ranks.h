// This rank's place in the mesh of a run, and the groups it belongs to.
#pragma once
#include <array>
#include <memory>

#include "comm/world.h"

namespace ravine {

class Ranks {
 public:
  Ranks();  // alone
  // Every rank of the world calls, at the same time, with the same mesh of as many ranks. The world must outlive it.
  Ranks(World& world, const Mesh& mesh);
  // Plays `rank` of a mesh that is not there: counts what it would send (comm/group.h).
  static Ranks fake(const Mesh& mesh, int rank);

  const Mesh& mesh() const { return mesh_; }
  const Coordinates& at() const { return at_; }
  int rank() const { return rank_of(mesh_, at_); }
  int size() const { return mesh_.ranks(); }
  bool first() const { return rank() == 0; }
  bool last_stage() const { return at_.pipeline == mesh_.pipeline - 1; }
  const Group& all() const { return *all_; }
  const Group& along(Axis axis) const { return *axes_[static_cast<size_t>(axis)]; }
  // A second group over the pipeline, for messages that go back: their order is then their own.
  const Group& back() const { return *back_; }

 private:
  Mesh mesh_;
  Coordinates at_;
  std::shared_ptr<const Group> all_, back_;
  std::array<std::shared_ptr<const Group>, kAxisCount>
      axes_;  // by Axis; expert_data is the group of the data axis where no experts divide it
};

}  // namespace ravine

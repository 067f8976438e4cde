// This rank's position in the mesh of a run, and its groups.
#pragma once
#include <array>
#include <memory>

#include "comm/world.h"

namespace ravine {

class Ranks {
 public:
  Ranks();  // a single rank
  // Creates the groups of this rank. All ranks of the world call it together, with the same mesh of world.size() ranks.
  // The world must outlive this object.
  Ranks(World& world, const Mesh& mesh);
  // Returns the position of `rank` in a mesh that does not exist. Its groups move nothing and count the bytes that the
  // rank would send (FakeGroup, comm/group.h).
  static Ranks fake(const Mesh& mesh, int rank);

  const Mesh& mesh() const { return mesh_; }
  const Coordinates& at() const { return at_; }
  int rank() const { return rank_of(mesh_, at_); }
  int size() const { return mesh_.ranks(); }
  bool first() const { return rank() == 0; }
  bool last_stage() const { return at_.pipeline == mesh_.pipeline - 1; }
  const Group& all() const { return *all_; }
  const Group& along(Axis axis) const { return *axes_[static_cast<size_t>(axis)]; }
  // Returns a second group along the pipeline, for backward messages, so that their order is independent of the forward
  // messages.
  const Group& back() const { return *back_; }

 private:
  Mesh mesh_;
  Coordinates at_;
  std::shared_ptr<const Group> all_, back_;
  // The group of each Axis; for expert_data the group of the data axis, if experts do not divide it.
  std::array<std::shared_ptr<const Group>, kAxisCount> axes_;
};

}  // namespace ravine

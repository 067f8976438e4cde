#include "comm/ranks.h"

#include "base/error.h"

namespace ravine {

Ranks::Ranks() {
  all_ = back_ = std::make_shared<SelfGroup>();
  axes_.fill(all_);
}

Ranks::Ranks(World& world, const Mesh& mesh) : mesh_(mesh) {
  require(mesh.ranks() == world.size(), "ranks: a mesh of {} ranks in a world of {}", mesh.ranks(), world.size());
  at_ = coordinates_of(mesh, world.rank());
  all_ = std::shared_ptr<const Group>(&world.all(), [](const Group*) {});  // the world owns it
  // An axis of one rank needs no communication. An axis that spans the world still gets its own group, so its calls are
  // counted separately.
  auto open = [&](Axis axis, std::string_view as) -> std::shared_ptr<const Group> {
    if (mesh.size(axis) == 1) return std::make_shared<SelfGroup>();
    if (axis == Axis::expert_data && mesh.expert == 1) return axes_[static_cast<size_t>(Axis::data)];
    return world.group(ranks_along(mesh, axis, world.rank()), as);
  };
  for (Axis axis : kAxes) axes_[static_cast<size_t>(axis)] = open(axis, name(axis));
  back_ = open(Axis::pipeline, "pipeline, backward");
}

Ranks Ranks::fake(const Mesh& mesh, int rank) {
  Ranks r;
  r.mesh_ = mesh;
  r.at_ = coordinates_of(mesh, rank);
  r.all_ = std::make_shared<FakeGroup>(rank, mesh.ranks());
  for (Axis axis : kAxes)
    r.axes_[static_cast<size_t>(axis)] = std::make_shared<FakeGroup>(r.at_.along(axis, mesh), mesh.size(axis));
  if (mesh.expert == 1) r.axes_[static_cast<size_t>(Axis::expert_data)] = r.axes_[static_cast<size_t>(Axis::data)];
  r.back_ = std::make_shared<FakeGroup>(r.at_.pipeline, mesh.pipeline);
  return r;
}

}  // namespace ravine

#include "comm/mesh.h"

#include "base/error.h"

namespace ravine {

std::string_view name(Axis axis) {
  constexpr std::string_view names[] = {"pipeline", "data", "tensor"};
  return names[static_cast<int>(axis)];
}

int Mesh::size(Axis axis) const { return axis == Axis::pipeline ? pipeline : axis == Axis::data ? data : tensor; }

int Coordinates::along(Axis axis) const { return axis == Axis::pipeline ? pipeline : axis == Axis::data ? data : tensor; }

Coordinates coordinates_of(const Mesh& m, int rank) {
  require(rank >= 0 && rank < m.ranks(), "mesh: rank {} of {}", rank, m.ranks());
  return {rank / (m.tensor * m.data), rank / m.tensor % m.data, rank % m.tensor};
}

int rank_of(const Mesh& m, const Coordinates& at) { return (at.pipeline * m.data + at.data) * m.tensor + at.tensor; }

std::vector<int> ranks_along(const Mesh& m, Axis axis, int rank) {
  std::vector<int> out;
  for (int i = 0; i < m.size(axis); ++i) {
    Coordinates at = coordinates_of(m, rank);
    (axis == Axis::pipeline ? at.pipeline : axis == Axis::data ? at.data : at.tensor) = i;
    out.push_back(rank_of(m, at));
  }
  return out;
}

std::vector<std::vector<int>> groups_along(const Mesh& m, Axis axis) {
  std::vector<std::vector<int>> out;
  for (int rank = 0; rank < m.ranks(); ++rank)
    if (coordinates_of(m, rank).along(axis) == 0) out.push_back(ranks_along(m, axis, rank));
  return out;
}

}  // namespace ravine

#include "comm/mesh.h"

#include <fmt/format.h>

#include "base/checked.h"

namespace ravine {

std::string_view name(Axis axis) {
  switch (axis) {
    case Axis::pipeline:
      return "pipeline";
    case Axis::data:
      return "data";
    case Axis::tensor:
      return "tensor";
    case Axis::context:
      return "context";
    case Axis::expert:
      return "expert";
    case Axis::expert_data:
      return "expert_data";
  }
  return "";
}

int Mesh::size(Axis axis) const {
  switch (axis) {
    case Axis::pipeline:
      return pipeline;
    case Axis::data:
      return data;
    case Axis::tensor:
      return tensor;
    case Axis::context:
      return context;
    case Axis::expert:
      return expert;
    case Axis::expert_data:
      return static_cast<int>(div_exact(data, expert));
  }
  return 1;
}

std::string Mesh::text() const {
  std::string out;
  for (Axis axis : {Axis::data, Axis::tensor, Axis::context, Axis::expert, Axis::pipeline})
    if (size(axis) > 1) out += fmt::format("{}{} {}", out.empty() ? "" : " x ", name(axis), size(axis));
  return out;
}

int Coordinates::along(Axis axis, const Mesh& m) const {
  switch (axis) {
    case Axis::pipeline:
      return pipeline;
    case Axis::data:
      return data;
    case Axis::tensor:
      return tensor;
    case Axis::context:
      return context;
    case Axis::expert:
      return data % m.expert;
    case Axis::expert_data:
      return data / m.expert;
  }
  return 0;
}

Coordinates coordinates_of(const Mesh& m, int rank) {
  require(rank >= 0 && rank < m.ranks(), "mesh: rank {} of {}", rank, m.ranks());
  const int row = rank / m.tensor;  // row of tensor ranks
  return {.pipeline = row / m.context / m.data,
          .data = row / m.context % m.data,
          .tensor = rank % m.tensor,
          .context = row % m.context};
}

int rank_of(const Mesh& m, const Coordinates& at) {
  return ((at.pipeline * m.data + at.data) * m.context + at.context) * m.tensor + at.tensor;
}

std::vector<int> ranks_along(const Mesh& m, Axis axis, int rank) {
  std::vector<int> out;
  const Coordinates me = coordinates_of(m, rank);
  for (int i = 0; i < m.size(axis); ++i) {
    Coordinates at = me;
    switch (axis) {
      case Axis::pipeline:
        at.pipeline = i;
        break;
      case Axis::data:
        at.data = i;
        break;
      case Axis::tensor:
        at.tensor = i;
        break;
      case Axis::context:
        at.context = i;
        break;
      case Axis::expert:
        at.data = me.data - me.data % m.expert + i;
        break;
      case Axis::expert_data:
        at.data = i * m.expert + me.data % m.expert;
        break;
    }
    out.push_back(rank_of(m, at));
  }
  return out;
}

std::vector<std::vector<int>> groups_along(const Mesh& m, Axis axis) {
  std::vector<std::vector<int>> out;
  for (int rank = 0; rank < m.ranks(); ++rank)
    if (coordinates_of(m, rank).along(axis, m) == 0) out.push_back(ranks_along(m, axis, rank));
  return out;
}

}  // namespace ravine

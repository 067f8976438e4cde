// The mesh of ranks: how many along each axis, and which rank stands where. The one place that knows the order: as Megatron's,
// tensor ranks lie next to each other, then data, then pipeline.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace ravine {

enum class Axis : uint8_t { pipeline, data, tensor };
std::string_view name(Axis axis);

struct Mesh {
  int pipeline = 1, data = 1, tensor = 1;
  int size(Axis axis) const;
  int ranks() const { return pipeline * data * tensor; }
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

struct Coordinates {
  int pipeline = 0, data = 0, tensor = 0;
  int along(Axis axis) const;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

Coordinates coordinates_of(const Mesh& mesh, int rank);
int rank_of(const Mesh& mesh, const Coordinates& at);
// The ranks that differ from `rank` along this axis only, itself among them, in order of their coordinate.
std::vector<int> ranks_along(const Mesh& mesh, Axis axis, int rank);
// All such groups of the mesh: every rank is in exactly one.
std::vector<std::vector<int>> groups_along(const Mesh& mesh, Axis axis);

}  // namespace ravine

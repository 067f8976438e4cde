// The mesh of ranks: its size along each axis, and the position of each rank. Only this file knows the order of ranks:
// as in Megatron, tensor ranks are adjacent, then context, then data, then pipeline. Experts divide the data ranks:
// adjacent data ranks hold different experts (axis expert). Ranks that hold the same experts sum gradients of experts
// among themselves (axis expert_data).
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

enum class Axis : uint8_t { pipeline, data, tensor, context, expert, expert_data };
inline constexpr Axis kAxes[] = {Axis::pipeline, Axis::data, Axis::tensor, Axis::context, Axis::expert, Axis::expert_data};
inline constexpr size_t kAxisCount = std::size(kAxes);
std::string_view name(Axis axis);

struct Mesh {
  int pipeline = 1, data = 1, tensor = 1, context = 1;
  int expert = 1;  // divides data
  int size(Axis axis) const;
  int ranks() const { return pipeline * data * context * tensor; }
  std::string text() const;  // axes longer than 1: "data 4 x pipeline 2"; "" for one rank
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// The coordinates of a rank in the mesh. Its coordinates along the axes expert and expert_data follow from its data
// coordinate.
struct Coordinates {
  int pipeline = 0, data = 0, tensor = 0, context = 0;
  int along(Axis axis, const Mesh& mesh) const;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

Coordinates coordinates_of(const Mesh& mesh, int rank);
int rank_of(const Mesh& mesh, const Coordinates& at);
// Returns the ranks that differ from `rank` only along this axis, including `rank`, in order of their coordinate.
std::vector<int> ranks_along(const Mesh& mesh, Axis axis, int rank);
// Returns the groups of ranks that differ only along this axis, for the whole mesh. Every rank is in exactly one group.
std::vector<std::vector<int>> groups_along(const Mesh& mesh, Axis axis);

}  // namespace ravine

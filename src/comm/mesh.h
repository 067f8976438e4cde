// The mesh of ranks: how many along each axis, and which rank stands where. The one place that knows the order: as Megatron's,
// tensor ranks lie next to each other, then context, then data, then pipeline. Experts divide the data ranks: neighbours among
// these hold different experts (expert), and those that hold the same ones sum gradients of experts among themselves
// (expert_data).
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
  std::string text() const;  // "data 4 x pipeline 2": what is more than one; "" for one rank
  friend bool operator==(const Mesh&, const Mesh&) = default;
};

// Of a rank; its place among experts follows from that among data ranks.
struct Coordinates {
  int pipeline = 0, data = 0, tensor = 0, context = 0;
  int along(Axis axis, const Mesh& mesh) const;
  friend bool operator==(const Coordinates&, const Coordinates&) = default;
};

Coordinates coordinates_of(const Mesh& mesh, int rank);
int rank_of(const Mesh& mesh, const Coordinates& at);
// The ranks that differ from `rank` along this axis only, itself among them, in order of their coordinate.
std::vector<int> ranks_along(const Mesh& mesh, Axis axis, int rank);
// All such groups of the mesh: every rank is in exactly one.
std::vector<std::vector<int>> groups_along(const Mesh& mesh, Axis axis);

}  // namespace ravine

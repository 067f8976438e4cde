// Pipeline schedules as pure functions: the tasks of each stage, in their order.
#pragma once
#include <cstdint>
#include <vector>

namespace ravine {

// A task of a pipeline stage: the forward or backward pass of one micro batch through one chunk of layers.
struct PipelineTask {
  bool backward = false;
  int chunk = 0;  // of this stage: with V virtual stages, chunk c of stage s holds part c * stages + s of the model
  int micro = 0;
  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

// Returns the tasks (forward and backward passes) of one pipeline stage in order, by 1F1B (Narayanan et al. 2021,
// PipeDream-Flush). First come stages - stage - 1 forward passes (warmup), then forward and backward passes in turn,
// then the remaining backward passes. With chunks > 1 the schedule is interleaved as in Megatron (Narayanan et al.
// 2021, section 2.2.2): micros must be a multiple of stages. The backward passes of each chunk are in the order of the
// micro batches.
std::vector<PipelineTask> pipeline_schedule(int stages, int chunks, int micros, int stage);

// The start and end of each task in a simulated pipeline, in the unit of the costs. The result of pipeline_times.
struct PipelineTimes {
  struct Span {
    PipelineTask task;
    double begin, end;
  };
  std::vector<std::vector<Span>> stages;
  double length = 0;
  double bubble = 0;  // the idle part of stages * length
};
// Simulates a pipeline schedule: a forward pass of part p takes forward[p], a backward pass backward[p] (p < stages *
// chunks), and messages take no time. Throws Error if the schedules wait for each other in a circle.
PipelineTimes pipeline_times(int stages, int chunks, int micros, const std::vector<double>& forward,
                             const std::vector<double>& backward);

// Returns the largest number of activations that a stage holds at once under this schedule. Each counts as one micro
// batch of one chunk.
int activations_held(const std::vector<PipelineTask>& schedule);

// Splits layers into `parts` ranges of consecutive layers, so that the largest sum of `cost` (one cost per layer) is
// least. On ties earlier parts take more. Returns the number of layers of each part, at least one. Fewer layers than
// parts is an Error.
std::vector<int> split_layers(const std::vector<double>& cost, int parts);

}  // namespace ravine

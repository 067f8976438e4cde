// Pipeline schedules as pure functions: what each stage does, in which order. Nothing here runs anything.
#pragma once
#include <cstdint>
#include <vector>

namespace ravine {

// Forward or backward of one micro batch through one chunk of layers of a stage.
struct PipelineTask {
  bool backward = false;
  int chunk = 0;  // of this stage: with V virtual stages chunk c of stage s holds part c * stages + s of the model
  int micro = 0;
  friend bool operator==(const PipelineTask&, const PipelineTask&) = default;
};

// 1F1B (Narayanan et al. 2021, PipeDream-Flush): stages - stage - 1 forwards to warm up, then one forward and one backward in
// turn, then the remaining backwards. With chunks > 1 interleaved as in Megatron (Narayanan et al. 2021, section 2.2.2): micros
// must be a multiple of stages. Of every chunk each micro batch's backwards come in the order of the micro batches.
std::vector<PipelineTask> pipeline_schedule(int stages, int chunks, int micros, int stage);

// When each task starts and ends if a forward of a chunk takes `forward` and a backward `backward` (of part p of stages *
// chunks), and messages take no time. Throws Error if the schedules of the stages wait for each other in a circle.
struct PipelineTimes {
  struct Span {
    PipelineTask task;
    double begin, end;
  };
  std::vector<std::vector<Span>> stages;
  double length = 0;
  double bubble = 0;  // share of stages * length in which a stage does nothing
};
PipelineTimes pipeline_times(int stages, int chunks, int micros, const std::vector<double>& forward,
                             const std::vector<double>& backward);

// The most micro batches whose activations a stage holds at once, counted in chunks.
int activations_held(const std::vector<PipelineTask>& schedule);

// Layers to stages: `parts` runs of consecutive layers with sums of `cost` as even as can be (least largest sum; ties: earlier
// parts take more). Returns the number of layers of each part; every part gets at least one if there are enough.
std::vector<int> split_layers(const std::vector<double>& cost, int parts);

}  // namespace ravine

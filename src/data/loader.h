// Prepares the micro batches of coming steps on a thread of its own, so that training does not wait for data.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "data/dataset.h"

namespace ravine {

// rows sequences of `columns` tokens, row after row. Begins of segments count from the start of the first row; columns outside
// every segment are padding.
struct MicroBatch {
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> ids, labels, positions;  // rows * columns
  std::vector<TokenSpan> segments;
  std::vector<int64_t> sequence_index;  // rows; global number of each sequence, step * global_batch + place in the batch
  int64_t valid_tokens = 0;             // labels that count; of pairs the pairs
  int64_t index = 0;                    // place in the step, over all data ranks
  // Of preferences (Sample::pairs): pair p is segments 2p and 2p + 1. reference: log-probability of the answer of each segment
  // under the reference model, which train/reference.h fills in; empty: 0 of all.
  std::vector<int64_t> pairs;
  std::vector<double> reference;
};

// Samples first .. first+rows-1 of a dataset. Of a ragged one (dataset.h) columns that are padding in every row are left out at
// the end: as wide as the longest row, rounded up to a multiple of 32 and never wider than the dataset. That changes no loss
// and no gradient.
MicroBatch make_micro_batch(const Dataset& data, int64_t first, int64_t rows);

// Whole rows whose tokens and labels are the same uniform draws from the vocabulary every time, to measure or plan with. Like
// any micro batch it has at most INT32_MAX tokens.
MicroBatch random_micro_batch(int64_t rows, int64_t columns, int64_t vocabulary);

struct StepBatches {
  int64_t step = 0;               // from 0
  bool skipped = false;           // left out by skip_steps: no batches, nothing to learn
  std::vector<MicroBatch> micro;  // of this rank
  int64_t valid_tokens = 0;       // of this rank
};

struct LoaderOptions {
  int64_t global_batch = 1, micro_batch = 1;  // sequences; the second divides the first
  int64_t first_step = 0;                     // where to begin or resume, from 0
  int64_t prefetch = 4;                       // micro batches to hold ready; at least one step is
  std::vector<int64_t> skip_steps;            // as metrics.jsonl counts them, from 1; every other step keeps its batch
  // Of several data ranks each takes as many micro batches of a step: a run of neighbours, or every ranks-th. So all ranks
  // together see the same micro batches in the same order whatever their number.
  int64_t rank = 0, ranks = 1;
  bool round_robin = false;
  DataHistory history;  // which samples a step takes; empty: step * global_batch and those after it
};

// The places in a step, from 0, of the micro batches that the rank takes of `micro_batches`, which its ranks divide evenly.
std::vector<int64_t> share_of_rank(const LoaderOptions& options, int64_t micro_batches);

// What step s sees: its global_batch samples in order, micro_batch at a time; of these the rank's own.
StepBatches make_step(const Dataset& data, const LoaderOptions& options, int64_t step);

// Bytes of the batches of a run at most: whole steps of `micro_batches` that hold `prefetch` ready, the one being made, the one
// in use.
int64_t loader_bytes(int64_t prefetch, int64_t micro_batches, int64_t rows, int64_t columns);

class Loader {
 public:
  // The dataset must outlive the loader.
  Loader(const Dataset& data, LoaderOptions options);
  ~Loader();  // stops the thread and waits for it
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  // The batches of the next step; blocks until they are ready. What went wrong on the thread is thrown here, at the step it
  // belongs to and at every call after.
  StepBatches next();

 private:
  void run();
  const Dataset& data_;
  LoaderOptions options_;
  size_t ready_limit_ = 1;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<StepBatches> ready_;
  std::exception_ptr error_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace ravine

// Prepares the micro batches of coming steps on a separate thread, so that training does not wait for data.
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

// A micro batch: `rows` sequences of `columns` tokens, row after row. Segments begin at offsets from the start of the
// first row. Columns outside every segment are padding.
struct MicroBatch {
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> ids, labels, positions;  // [rows * columns]
  std::vector<TokenSpan> segments;
  // [rows]: global number of each sequence: step * global_batch + its index in the batch.
  std::vector<int64_t> sequence_index;
  int64_t valid_tokens = 0;  // labels that are not ignored; with preference pairs: pairs
  int64_t index = 0;         // index in the step, over all data ranks
  // Preference pairs (Sample::pairs): pair p is segments 2p and 2p + 1. reference: log-probability of the answer of
  // each segment by the reference model, which train/reference.h computes; empty: all 0.
  std::vector<int64_t> pairs;
  std::vector<double> reference;
};

// Returns samples [first, first + rows) of a dataset. For a ragged dataset (dataset.h), columns at the end that are
// padding in every row are dropped. The width is then the longest row rounded up to a multiple of 32, and at most the
// width of the dataset. This changes neither loss nor gradient.
MicroBatch make_micro_batch(const Dataset& data, int64_t first, int64_t rows);

// Returns full rows whose tokens and labels are uniform random ids; every call gives the same ids. Used for
// measurements and planning. As in any micro batch, there are at most INT32_MAX tokens.
MicroBatch random_micro_batch(int64_t rows, int64_t columns, int64_t vocabulary);

struct StepBatches {
  int64_t step = 0;               // from 0
  bool skipped = false;           // the step is in skip_steps: it has no batches
  std::vector<MicroBatch> micro;  // of this rank
  int64_t valid_tokens = 0;       // of this rank
};

struct LoaderOptions {
  int64_t global_batch = 1, micro_batch = 1;  // in sequences; micro_batch divides global_batch
  int64_t first_step = 0;                     // the step to begin at or to resume from, from 0
  int64_t prefetch = 4;                       // micro batches to prepare ahead; one step at least
  std::vector<int64_t> skip_steps;            // numbers from 1, as in metrics.jsonl; the other steps keep their batches
  // Each data rank takes an equal number of the micro batches of a step: a range of neighbours, or every ranks-th one
  // (round_robin). So all ranks together see the same micro batches for any number of ranks.
  int64_t rank = 0, ranks = 1;
  bool round_robin = false;
  DataHistory history;  // samples of each step; empty: sample = step * global_batch
};

// Returns the indices in a step, from 0, of this rank's micro batches. The ranks must divide `micro_batches` evenly.
std::vector<int64_t> share_of_rank(const LoaderOptions& options, int64_t micro_batches);

// Returns the batches of a step for this rank: its share of the step's global_batch samples, micro_batch samples at a
// time.
StepBatches make_step(const Dataset& data, const LoaderOptions& options, int64_t step);

// Returns an upper bound of the bytes of a run's batches. Counted are the prepared steps (`prefetch` micro batches, in
// whole steps of `micro_batches`), the step in preparation, and the step in use.
int64_t loader_bytes(int64_t prefetch, int64_t micro_batches, int64_t rows, int64_t columns);

// Runs make_step() for the coming steps on a separate thread.
class Loader {
 public:
  // The dataset must outlive the loader.
  Loader(const Dataset& data, LoaderOptions options);
  ~Loader();  // stops the thread and waits for it
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  // Returns the batches of the next step; blocks until they are ready. An exception of the thread is thrown at the step
  // in which it occurred, and at every later call.
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

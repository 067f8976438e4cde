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

// A micro batch: `rows` sequences of `columns` tokens, row after row. A segment is a run of tokens that attend to each
// other only; its begin is an offset from the start of the first row. Columns outside every segment are padding.
struct MicroBatch {
  int64_t rows = 0, columns = 0;
  std::vector<int32_t> ids, labels, positions;  // [rows * columns]
  std::vector<TokenSpan> segments;
  // [rows]: the number of each sequence in the run: step * global_batch + its index in the global batch.
  std::vector<int64_t> sequence_index;
  int64_t valid_tokens = 0;  // number of labels that are not ignored; with preference pairs: number of pairs
  int64_t index = 0;         // index of the micro batch in its step, counted over all data ranks
  // pairs: numbers of the preference pairs (Sample::pairs); the k-th is segments 2k (chosen) and 2k + 1 (rejected).
  // reference: for each segment, the log-probability of its answer by the reference model, which train/reference.h
  // computes; empty: all 0.
  std::vector<int64_t> pairs;
  std::vector<double> reference;
};

// Returns samples [first, first + rows) of a dataset as one micro batch. For a ragged dataset (Dataset::ragged),
// columns at the end that are padding in every row are dropped. The number of columns is then the longest row rounded
// up to a multiple of 32, and at most data.columns(). This changes neither loss nor gradient.
MicroBatch make_micro_batch(const Dataset& data, int64_t first, int64_t rows);

// Returns a micro batch of full rows whose tokens and labels are uniform random ids below `vocabulary`; every call
// gives the same ids. Used for measurements and planning. rows * columns is at most INT32_MAX.
MicroBatch random_micro_batch(int64_t rows, int64_t columns, int64_t vocabulary);

// The micro batches of one rank for one step: the result of make_step() and Loader::next().
struct StepBatches {
  int64_t step = 0;               // from 0
  bool skipped = false;           // the step is in LoaderOptions::skip_steps: it has no batches
  std::vector<MicroBatch> micro;  // the micro batches of this rank
  int64_t valid_tokens = 0;       // sum over the micro batches of this rank
};

// The settings of make_step() and Loader.
struct LoaderOptions {
  int64_t global_batch = 1, micro_batch = 1;  // in sequences; micro_batch divides global_batch
  int64_t first_step = 0;                     // the step to begin at or to resume from, from 0
  int64_t prefetch = 4;                       // micro batches to prepare ahead; one step at least
  std::vector<int64_t> skip_steps;            // steps without batches, from 1; other steps keep their batches
  // rank, ranks: this data rank, from 0, and the number of data ranks. Each takes an equal number of the micro batches
  // of a step: consecutive ones, or with round_robin every ranks-th one. So all ranks together see the same micro
  // batches for any number of ranks.
  int64_t rank = 0, ranks = 1;
  bool round_robin = false;
  DataHistory history;  // samples of each step; empty: sample = step * global_batch
};

// Returns which micro batches of a step this data rank (options.rank) takes: their indices in the step, from 0.
// micro_batches: their number in the step, a multiple of options.ranks.
std::vector<int64_t> share_of_rank(const LoaderOptions& options, int64_t micro_batches);

// Returns the micro batches of a step for this data rank (options.rank): its share of the step's global_batch samples,
// micro_batch samples in each. step: from 0.
StepBatches make_step(const Dataset& data, const LoaderOptions& options, int64_t step);

// Returns an upper bound of the memory, in bytes, of the batches that a Loader holds. Counted are the steps prepared
// ahead (at least `prefetch` micro batches, in whole steps of `micro_batches`), the step in preparation, and the step
// in use. rows, columns: shape of a micro batch.
int64_t loader_bytes(int64_t prefetch, int64_t micro_batches, int64_t rows, int64_t columns);

// Prepares the micro batches of coming steps on a separate thread, by make_step(), from options.first_step on.
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

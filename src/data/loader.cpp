#include "data/loader.h"

#include <algorithm>

#include "base/checked.h"
#include "base/philox.h"

namespace ravine {

namespace {

constexpr int64_t kRaggedMultiple = 32;

// Returns the number of columns of a micro batch of these rows.
int64_t width(const Dataset& data, const std::vector<Sample>& rows) {
  if (!data.ragged()) return data.columns();
  int64_t used = 1;
  for (const Sample& s : rows)
    for (TokenSpan seg : s.segments) used = std::max<int64_t>(used, seg.begin + seg.length);
  return std::min(data.columns(), round_up(used, kRaggedMultiple));
}

// Returns the number of tokens of a micro batch; segments count tokens in 32 bits.
int64_t tokens_of(int64_t rows, int64_t columns) {
  const int64_t n = mul_checked(rows, columns);
  require(n <= INT32_MAX, "micro batch: {} rows of {} columns are too many tokens", rows, columns);
  return n;
}

}  // namespace

MicroBatch make_micro_batch(const Dataset& data, int64_t first, int64_t rows) {
  std::vector<Sample> samples;
  for (int64_t r = 0; r < rows; ++r) samples.push_back(data.sample(first + r));
  MicroBatch b;
  b.rows = rows;
  b.columns = width(data, samples);
  const auto n = static_cast<size_t>(tokens_of(rows, b.columns));
  b.ids.reserve(n);
  b.labels.reserve(n);
  b.positions.reserve(n);
  for (int64_t r = 0; r < rows; ++r) {
    const Sample& s = samples[static_cast<size_t>(r)];
    for (TokenSpan seg : s.segments) b.segments.push_back({seg.begin + static_cast<int32_t>(r * b.columns), seg.length});
    b.ids.insert(b.ids.end(), s.ids.begin(), s.ids.begin() + b.columns);
    b.labels.insert(b.labels.end(), s.labels.begin(), s.labels.begin() + b.columns);
    b.positions.insert(b.positions.end(), s.positions.begin(), s.positions.begin() + b.columns);
    b.sequence_index.push_back(first + r);
    b.pairs.insert(b.pairs.end(), s.pairs.begin(), s.pairs.end());
    b.valid_tokens += s.pairs.empty()
                          ? static_cast<int64_t>(s.labels.size()) - std::count(s.labels.begin(), s.labels.end(), kIgnored)
                          : static_cast<int64_t>(s.pairs.size());
  }
  return b;
}

MicroBatch random_micro_batch(int64_t rows, int64_t columns, int64_t vocabulary) {
  MicroBatch b;
  b.rows = rows, b.columns = columns, b.valid_tokens = tokens_of(rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    b.sequence_index.push_back(r);
    b.segments.push_back({static_cast<int32_t>(r * columns), static_cast<int32_t>(columns)});
    for (int64_t t = 0; t < columns; ++t) {
      auto words = philox(1, {static_cast<uint32_t>(t), static_cast<uint32_t>(r), 0, 0});
      b.ids.push_back(static_cast<int32_t>(words[0] % static_cast<uint64_t>(vocabulary)));
      b.labels.push_back(static_cast<int32_t>(words[1] % static_cast<uint64_t>(vocabulary)));
      b.positions.push_back(static_cast<int32_t>(t));
    }
  }
  return b;
}

std::vector<int64_t> share_of_rank(const LoaderOptions& o, int64_t micro_batches) {
  const int64_t mine = div_exact(micro_batches, o.ranks);
  std::vector<int64_t> rows_of_rank;
  for (int64_t i = 0; i < mine; ++i) rows_of_rank.push_back(o.round_robin ? i * o.ranks + o.rank : o.rank * mine + i);
  return rows_of_rank;
}

StepBatches make_step(const Dataset& data, const LoaderOptions& o, int64_t step) {
  StepBatches s;
  s.step = step;
  s.skipped = std::find(o.skip_steps.begin(), o.skip_steps.end(), step + 1) != o.skip_steps.end();
  if (s.skipped) return s;
  bool plain = o.history.empty();
  int64_t batch = plain ? o.global_batch : o.history.global_batch(step),
          first = plain ? mul_checked(step, batch) : o.history.first_sample(step);
  for (const int64_t micro : share_of_rank(o, div_exact(batch, o.micro_batch))) {
    s.micro.push_back(make_micro_batch(data, add_checked(first, micro * o.micro_batch), o.micro_batch));
    s.micro.back().index = micro;
    s.valid_tokens += s.micro.back().valid_tokens;
  }
  return s;
}

int64_t loader_bytes(int64_t prefetch, int64_t micro_batches, int64_t rows, int64_t columns) {
  const int64_t steps = std::max<int64_t>(1, ceil_div(prefetch, micro_batches)) + 2;
  return mul_checked(steps * micro_batches, static_cast<int64_t>(sizeof(MicroBatch)) +
                                                rows * (8 + 3 * columns * static_cast<int64_t>(sizeof(int32_t))));
}

Loader::Loader(const Dataset& data, LoaderOptions options) : data_(data), options_(std::move(options)) {
  require(options_.micro_batch >= 1 && options_.global_batch >= 1, "loader: batches have at least one sequence");
  require(options_.ranks >= 1 && options_.rank >= 0 && options_.rank < options_.ranks, "loader: rank {} of {}", options_.rank,
          options_.ranks);
  int64_t micro_per_step = div_exact(div_exact(options_.global_batch, options_.micro_batch), options_.ranks);
  require(options_.first_step >= 0, "loader: the first step is 0 or more, got {}", options_.first_step);
  ready_limit_ = static_cast<size_t>(std::max<int64_t>(1, ceil_div(options_.prefetch, micro_per_step)));
  thread_ = std::thread([this] { run(); });
}

Loader::~Loader() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Loader::run() {
  for (int64_t step = options_.first_step;; ++step) {
    StepBatches made;
    std::exception_ptr error;
    try {
      made = make_step(data_, options_, step);
    } catch (...) {
      error = std::current_exception();
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stop_ || ready_.size() < ready_limit_; });
    if (stop_) return;
    if (error)
      error_ = error;
    else
      ready_.push_back(std::move(made));
    changed_.notify_all();
    if (error) return;
  }
}

StepBatches Loader::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !ready_.empty() || error_; });
  if (ready_.empty()) std::rethrow_exception(error_);
  StepBatches s = std::move(ready_.front());
  ready_.pop_front();
  changed_.notify_all();
  return s;
}

}  // namespace ravine

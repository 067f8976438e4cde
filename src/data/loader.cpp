#include "data/loader.h"

#include <algorithm>

#include "base/checked.h"

namespace ravine {

MicroBatch make_micro_batch(const Dataset& data, int64_t first, int64_t rows) {
  MicroBatch b;
  b.rows = rows;
  b.columns = data.columns();
  auto n = static_cast<size_t>(mul_checked(rows, b.columns));
  require(n <= INT32_MAX, "micro batch: {} rows of {} columns are too many tokens", rows, b.columns);
  b.ids.reserve(n);
  b.labels.reserve(n);
  b.positions.reserve(n);
  for (int64_t r = 0; r < rows; ++r) {
    Sample s = data.sample(first + r);
    for (TokenSpan seg : s.segments) b.segments.push_back({seg.begin + static_cast<int32_t>(r * b.columns), seg.length});
    b.ids.insert(b.ids.end(), s.ids.begin(), s.ids.end());
    b.labels.insert(b.labels.end(), s.labels.begin(), s.labels.end());
    b.positions.insert(b.positions.end(), s.positions.begin(), s.positions.end());
    b.sequence_index.push_back(first + r);
    b.valid_tokens += static_cast<int64_t>(s.labels.size()) - std::count(s.labels.begin(), s.labels.end(), kIgnored);
  }
  return b;
}

StepBatches make_step(const Dataset& data, const LoaderOptions& o, int64_t step) {
  StepBatches s;
  s.step = step;
  s.skipped = std::find(o.skip_steps.begin(), o.skip_steps.end(), step + 1) != o.skip_steps.end();
  if (s.skipped) return s;
  int64_t mine = div_exact(div_exact(o.global_batch, o.micro_batch), o.ranks);
  for (int64_t i = 0; i < mine; ++i) {
    int64_t micro = o.round_robin ? i * o.ranks + o.rank : o.rank * mine + i;
    s.micro.push_back(make_micro_batch(data, add_checked(mul_checked(step, o.global_batch), micro * o.micro_batch), o.micro_batch));
    s.valid_tokens += s.micro.back().valid_tokens;
  }
  return s;
}

Loader::Loader(const Dataset& data, LoaderOptions options) : data_(data), options_(std::move(options)) {
  require(options_.micro_batch >= 1 && options_.global_batch >= 1, "loader: batches have at least one sequence");
  require(options_.ranks >= 1 && options_.rank >= 0 && options_.rank < options_.ranks, "loader: rank {} of {}", options_.rank, options_.ranks);
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

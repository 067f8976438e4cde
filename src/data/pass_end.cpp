#include "data/pass_end.h"

#include <fmt/format.h>

#include "base/checked.h"
#include "base/error.h"

namespace ravine {
namespace {

class WholeSteps final : public Dataset {
 public:
  // rows: rows taken in an epoch; above the row count of `data`, its first rows are taken again. count: rows of an
  // epoch with padding.
  WholeSteps(std::unique_ptr<Dataset> data, int64_t rows, int64_t count)
      : data_(std::move(data)), rows_(rows), epoch_rows_(count) {}
  int64_t sample_count() const override { return epoch_rows_; }
  int64_t row_count() const override { return std::min(rows_, data_->row_count()); }
  int64_t columns() const override { return data_->columns(); }
  int64_t token_count() const override { return data_->token_count(); }
  bool ragged() const override { return data_->ragged(); }
  PairSet pairs() const override { return data_->pairs(); }
  Sample sample(int64_t index) const override {
    if (index % epoch_rows_ < rows_) return data_->sample(taken(index));
    const auto columns = static_cast<size_t>(data_->columns());
    Sample none{.ids = std::vector<int32_t>(columns, 0), .labels = std::vector<int32_t>(columns, kIgnored), .positions = {}};
    for (size_t t = 0; t < columns; ++t) none.positions.push_back(static_cast<int32_t>(t));
    return none;
  }
  std::string origin(int64_t index) const override {
    return index % epoch_rows_ < rows_ ? data_->origin(taken(index)) : "no row: the pass has ended (data.pass_end)";
  }
  void note_sources(DataHistory& history, int64_t step, int64_t global_batch) const override {
    if (!history.empty() && history.segments().back().global_batch != global_batch)
      throw UserError(fmt::format("{} rows in a step", global_batch), "train.global_batch",
                      fmt::format("the run had {}, and data.pass_end counts the rows of a pass by steps",
                                  history.segments().back().global_batch),
                      "keep it, or begin a new run");
    data_->note_sources(history, step, global_batch);
  }
  void follow(const DataHistory& history) override { data_->follow(history); }

 private:
  int64_t taken(int64_t index) const {
    const int64_t row = index % epoch_rows_, n = data_->sample_count();
    return add_checked(mul_checked(index / epoch_rows_, n), row % n);
  }
  std::unique_ptr<Dataset> data_;
  int64_t rows_, epoch_rows_;
};

}  // namespace

std::unique_ptr<Dataset> end_passes(std::unique_ptr<Dataset> data, PassEnd end, int64_t rows_at_once, int64_t micro_batch,
                                    int64_t batch) {
  const int64_t n = data->sample_count();
  if (end == PassEnd::go_on || n % batch == 0) return data;
  int64_t rows = n;
  if (end == PassEnd::drop) rows = n / rows_at_once * rows_at_once;
  if (end == PassEnd::short_step && rows_at_once > micro_batch) rows = ceil_div(n, rows_at_once) * rows_at_once;
  if (rows == 0)
    throw UserError(
        fmt::format("{} rows", n), "data.pass_end",
        fmt::format("none is left where micro batches that are not full are dropped, of {} rows over all ranks", rows_at_once),
        "lower train.micro_batch, or set data.pass_end=short");
  return std::make_unique<WholeSteps>(std::move(data), rows, ceil_div(rows, batch) * batch);
}

}  // namespace ravine

#include "data/mindrecord/mindrecord_dataset.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <numeric>
#include <random>

#include "base/error.h"
#include "data/megatron/megatron_dataset.h"
#include "data/mindrecord/mindrecord_files.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

constexpr const char* kIds = "input_ids";
// Names of the column of labels; the second is the name in files of the converters of Qwen.
constexpr const char* kLabelColumns[] = {"labels", "target_ids"};

class MindRecordDataset final : public Dataset {
 public:
  // batch: rows of a step; an epoch has whole steps. rows: rows of an epoch; 0: all.
  MindRecordDataset(const std::vector<std::string>& paths, const DatasetOptions& o, bool shuffle, int64_t batch, int64_t rows)
      : files_(paths),
        columns_(o.sequence_length),
        vocabulary_(o.vocabulary),
        pad_(o.pad),
        seed_(o.seed),
        shuffle_(shuffle),
        chained_(o.order == SampleOrder::mindspore_whole),
        label_column_(find_labels(files_, o.labels)) {
    const std::string& path = paths[0];
    if (!files_.has(kIds))
      throw UserError("no column input_ids", path, fmt::format("it has {}", fmt::join(files_.columns(), ", ")),
                      "name a data set that was made for language models");
    rows_ = rows > 0 ? std::min(rows, files_.rows()) : files_.rows();
    used_ = rows_ / batch * batch;
    if (used_ == 0)
      throw UserError("too little data", path, fmt::format("{} rows fill no batch of {}", rows_, batch),
                      "lower train.global_batch");
    if (shuffle && chained_ && rows > 0)
      throw UserError(
          "data.samples and data.shuffle", path,
          "without num_shards MindSpore draws rows anew for each epoch, some of them twice: that order is not there",
          "leave out data.samples (num_samples)");
    order_.resize(static_cast<size_t>(files_.rows()));
    std::iota(order_.begin(), order_.end(), 0);
    (void)read(0);
  }
  int64_t sample_count() const override { return used_; }
  int64_t columns() const override { return columns_; }
  int64_t token_count() const override { return used_ * columns_; }
  std::string origin(int64_t index) const override { return files_.row_name(row_of(index)); }
  Sample sample(int64_t index) const override { return read(row_of(index)); }

 private:
  static const char* find_labels(const MindRecordFiles& files, bool must_exist) {
    for (const char* name : kLabelColumns)
      if (must_exist && files.has(name)) return name;
    return nullptr;
  }

  Sample read(int64_t row) const {
    const std::vector<int64_t> ids = files_.values(row, kIds);
    const char* column = label_column_ ? label_column_ : kIds;
    const std::vector<int64_t> labels = label_column_ ? files_.values(row, column) : ids;
    const auto length = static_cast<size_t>(columns_);
    for (const auto& [values, name] : {std::pair{&ids, kIds}, {&labels, column}})
      if (values->size() != length + 1)
        throw UserError(
            fmt::format("a row of {}", values->size()), fmt::format("{}: {}", files_.row_name(row), name),
            fmt::format("it needs data.sequence_length + 1 = {}: the last id is predicted, and not read", length + 1),
            "set the length (seq_length) to that of the data, less one");
    Sample s;
    s.ids.resize(length), s.labels.resize(length), s.positions.resize(length);
    std::iota(s.positions.begin(), s.positions.end(), 0);
    s.segments = {{0, static_cast<int32_t>(length)}};
    for (size_t i = 0; i < length; ++i) {
      s.ids[i] = id(ids[i], row, kIds, i);
      const bool counts = ids[i] != pad_ && labels[i + 1] != kIgnored;
      s.labels[i] = counts ? id(labels[i + 1], row, column, i + 1) : kIgnored;
    }
    return s;
  }

  int32_t id(int64_t value, int64_t row, const char* column, size_t at) const {
    if (value < 0 || value >= vocabulary_)
      throw UserError(fmt::format("{} is out of range", value),
                      fmt::format("{}: {}, place {}", files_.row_name(row), column, at),
                      fmt::format("0 to {}", vocabulary_ - 1), more_rows_advice(value));
    return static_cast<int32_t>(value);
  }

  int64_t row_of(int64_t index) const {
    require(index >= 0, "dataset: sample index is 0 or more, got {}", index);
    const int64_t epoch = index / used_, position = index % used_;
    if (!shuffle_) return position;
    const std::scoped_lock hold(mutex_);
    if (epoch + 1 < epoch_) epoch_ = 0;
    if (epoch + 1 > epoch_ && !chained_) epoch_ = epoch;
    for (; epoch_ < epoch + 1; ++epoch_) {
      if (epoch_ == 0 || !chained_) std::iota(order_.begin(), order_.end(), 0);
      std::default_random_engine engine(
          static_cast<std::default_random_engine::result_type>(seed_ + static_cast<uint64_t>(epoch_) + 1));
      std::shuffle(order_.begin(), order_.end(), engine);
    }
    return order_[static_cast<size_t>(position)];
  }

  MindRecordFiles files_;
  int64_t columns_, vocabulary_, pad_;
  uint64_t seed_;
  bool shuffle_, chained_;
  const char* label_column_;  // null: the ids are the labels
  int64_t rows_ = 0, used_ = 0;
  mutable std::mutex mutex_;
  mutable std::vector<int64_t> order_;  // order of epoch `epoch_`, from 1; 0: as stored
  mutable int64_t epoch_ = 0;
};

std::unique_ptr<Dataset> open_record_list(const std::vector<DataSource>& list, const char* key, const DatasetOptions& o,
                                          bool shuffle, int64_t batch, int64_t rows) {
  std::vector<std::string> paths;
  std::error_code error;
  for (const DataSource& source : list) {
    if ((source.weight && (list.size() > 1 || *source.weight != 1)) || source.format)
      throw UserError("weight or format of a source", key, "MindRecord files are read as they are", "name the path alone");
    if (list.size() > 1 && std::filesystem::is_directory(source.path, error))
      throw UserError("a folder among several sources", source.path,
                      "under data.order=mindspore there is one folder or file, or a list of files", "name its files");
    paths.push_back(source.path);
  }
  if (paths.empty()) throw UserError("no sources", key, "under data.order=mindspore it names a folder or files", "name one");
  return std::make_unique<MindRecordDataset>(paths, o, shuffle, batch, rows);
}

}  // namespace

Datasets open_mindrecord_datasets(const DatasetOptions& o) {
  if (o.valid_fraction > 0)
    throw UserError("nothing to hold out", "data.valid_fraction", "rows of MindRecord files are all trained on",
                    "name validation files in data.valid");
  refuse_megatron_options(o);
  require(o.vocabulary > 0, "dataset: MindRecord files need the size of the vocabulary, got {}", o.vocabulary);
  Datasets d;
  d.train = open_record_list(o.train, "data.train", o, o.shuffle, o.batch, o.samples);
  if (!o.valid.empty()) d.valid = open_record_list(o.valid, "data.valid", o, false, 1, 0);
  return d;
}

}  // namespace ravine

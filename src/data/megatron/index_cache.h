// Index files in Megatron's format: FOLDER/<md5>-GPTDataset-<split>-document_index.npy and others. <md5> is the
// checksum of a JSON text that describes the dataset; the 2023 order omits the split in the name.
// The description of core includes the identifiers of Megatron's tokenizer. No index depends on them, so files with
// other identifiers are found too.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/shape.h"
#include "data/megatron/split.h"
#include "files/mapped_file.h"

namespace ravine {

// The numbers of an index: in memory, or in a mapped .npy file.
template <class T>
class IndexArray {
 public:
  IndexArray() = default;
  explicit IndexArray(std::vector<T> values) : own_(std::move(values)), view_(own_) {}
  IndexArray(MappedFile map, std::span<const T> view) : map_(std::move(map)), view_(view) {}
  IndexArray(IndexArray&&) noexcept = default;  // a moved vector or mapping keeps its address
  IndexArray& operator=(IndexArray&&) noexcept = default;
  std::span<const T> view() const { return view_; }

 private:
  std::vector<T> own_;
  MappedFile map_;
  std::span<const T> view_;
};

// The description that names a dataset's files. samples below 0: one epoch (null).
struct GptDescription {
  MegatronOrder order = MegatronOrder::core;
  std::string prefix;
  int64_t samples = -1, seed = 0, sequence_length = 0;
  MegatronSplit split = MegatronSplit::train;
  const SplitString* split_string = nullptr;
  std::string tokenizer;  // core only: JSON of the tokenizer's unique_identifiers, on one line; "null" if unknown
};

// Returns the value of GptDescription::tokenizer. text: a JSON object, a file that holds one, or a description.txt of
// Megatron, whose tokenizer is taken. Empty remains empty; anything else is a UserError.
std::string tokenizer_identity(const std::string& text);

// Returns the JSON text as Python's json.dumps(indent=4) writes it.
std::string describe(const GptDescription& d);
// Returns the JSON text of a blend of datasets. Weights are floating point, or whole numbers with `counts`; size below
// 0: null.
std::string describe_blend(const std::vector<std::string>& datasets, MegatronOrder order, MegatronSplit split,
                           const std::vector<double>& weights, bool counts, int64_t size);

// The index files of one dataset or blend in a folder.
class IndexCache {
 public:
  // Without a folder, nothing is loaded or saved. kind: "GPTDataset" or "BlendedDataset".
  IndexCache(std::string folder, const std::string& kind, MegatronOrder order, MegatronSplit split, std::string description);
  // Maps the array in <name>.npy; nothing if the file is missing, or has another type or number of dims.
  template <class T>
  std::optional<IndexArray<T>> load(const std::string& name, int rank) const;
  template <class T>
  void save(const std::string& name, std::span<const T> values, int rank) const;  // rank 2: pairs
  void save_description() const;  // called last: a complete set of files has a description
  // True if there is a description that is equal to this one, except for its tokenizer.
  bool complete() const;

 private:
  void find_other(const std::string& kind_and_split);
  std::string path(const std::string& name) const { return folder_ + "/" + start_ + name; }
  std::string folder_, start_, description_;
  std::string read_start_;  // prefix of the files that load() reads
  bool complete_ = false;
};

template <class T>
constexpr const char* npy_code();
template <>
constexpr const char* npy_code<int16_t>() {
  return "<i2";
}
template <>
constexpr const char* npy_code<int32_t>() {
  return "<i4";
}
template <>
constexpr const char* npy_code<int64_t>() {
  return "<i8";
}
template <>
constexpr const char* npy_code<uint32_t>() {
  return "<u4";
}

}  // namespace ravine

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

// The read-only numbers of an index, with their memory: a vector, or a mapped .npy file.
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

// The facts about a GPT dataset whose checksum is in the names of its index files. samples: number of samples; below 0:
// one epoch (null in the JSON text). split_string: must not be null.
struct GptDescription {
  MegatronOrder order = MegatronOrder::core;
  std::string prefix;
  int64_t samples = -1, seed = 0, sequence_length = 0;
  MegatronSplit split = MegatronSplit::train;
  const SplitString* split_string = nullptr;
  std::string tokenizer;  // core only: JSON of the tokenizer's unique_identifiers, on one line; "null" if unknown
};

// Returns the identifiers of a tokenizer as JSON on one line, for GptDescription::tokenizer. text: a JSON object, a
// file that holds one, or a description.txt of Megatron, whose tokenizer is used. For an empty text the result is
// empty. Any other text is a UserError.
std::string tokenizer_identity(const std::string& text);

// Returns a description as the JSON text of Megatron, whose MD5 checksum names the index files. Python's
// json.dumps(indent=4) writes it in the same way.
std::string describe(const GptDescription& d);
// Returns the JSON text that describes a blend, whose MD5 checksum names its index files. datasets: the JSON texts of
// its parts. counts: weights are written as whole numbers, not as floating point. size: number of samples; below 0:
// null is written.
std::string describe_blend(const std::vector<std::string>& datasets, MegatronOrder order, MegatronSplit split,
                           const std::vector<double>& weights, bool counts, int64_t size);

// Loads and saves the index files of one dataset or blend in a folder.
class IndexCache {
 public:
  // folder: "": nothing is loaded or saved. kind: "GPTDataset" or "BlendedDataset". description: the result of
  // describe() or describe_blend().
  IndexCache(std::string folder, const std::string& kind, MegatronOrder order, MegatronSplit split, std::string description);
  // Maps the array in the file ..-<name>.npy. Returns nothing if the file is missing, or if it has another type than T
  // or another number of dims than `rank`.
  template <class T>
  std::optional<IndexArray<T>> load(const std::string& name, int rank) const;
  template <class T>
  // Writes an array to the file ..-<name>.npy. rank: number of dims; 2: `values` are pairs.
  void save(const std::string& name, std::span<const T> values, int rank) const;
  // Writes the description file. Called after all arrays are saved: a description shows that the files are complete.
  void save_description() const;
  // True if the folder has complete index files for this description, whatever tokenizer their description names.
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

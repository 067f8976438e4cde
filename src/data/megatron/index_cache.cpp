#include "data/megatron/index_cache.h"

#include <cctype>
#include <filesystem>

#include "base/error.h"
#include "base/json.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "files/md5.h"
#include "files/npy.h"

namespace ravine {

namespace {

// Formats a number as Python does: the shortest digits that read back; whole numbers with ".0".
std::string number(double x) {
  std::string text = fmt::format("{}", x);
  return text.find_first_of(".en") == std::string::npos ? text + ".0" : text;
}

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace); }

std::string indented(const std::string& text, int by) {
  std::string out;
  for (char c : text) {
    out += c;
    if (c == '\n') out.append(static_cast<size_t>(by), ' ');
  }
  return out;
}

std::string list(const std::vector<std::string>& items) {
  if (items.empty()) return "[]";
  std::string out = "[";
  for (size_t i = 0; i < items.size(); ++i) out.append(i ? ",\n    " : "\n    ").append(indented(items[i], 4));
  return out + "\n]";
}

std::string object(const std::vector<std::pair<std::string, std::string>>& fields) {
  std::string out = "{";
  for (size_t i = 0; i < fields.size(); ++i)
    out.append(i ? ",\n    " : "\n    ").append(quoted(fields[i].first)).append(": ").append(indented(fields[i].second, 4));
  return out + "\n}";
}

// Parses a description and removes "tokenizer", also inside the datasets of a blend. Null if it is not JSON.
Json without_tokenizer(const std::string& description) {
  Json j;
  try {
    j = parse_json(description, "description");
  } catch (const UserError&) {
  }
  if (!j.is_object()) return nullptr;
  j.erase("tokenizer");
  if (auto list = j.find("datasets"); list != j.end() && list->is_array())
    for (Json& d : *list)
      if (d.is_object()) d.erase("tokenizer");
  return j;
}

constexpr int64_t kMostDescription = int64_t{16} << 20;

std::string whole(int64_t n) { return n < 0 ? "null" : fmt::format("{}", n); }

}  // namespace

std::string tokenizer_identity(const std::string& text) {
  if (text.empty()) return "";
  std::error_code ec;
  const bool file = text[0] != '{' && std::filesystem::is_regular_file(text, ec);
  const std::string where = file ? text : "--index-tokenizer";
  auto refuse = [&](const std::string& rule) -> Json {
    throw UserError("no identity of a tokenizer", where, rule,
                    "give the object that Megatron's unique_identifiers are, or a description.txt beside its index files");
  };
  if (!file && text[0] != '{') refuse("it is a JSON object, or a file that holds one");
  Json j = file ? read_json(text, kMostDescription) : parse_json(text, where);
  if (!j.is_object()) refuse("it must be a JSON object");
  if (j.contains("class") && j["class"] == "BlendedDataset") refuse("the description of a blend names no tokenizer of its own");
  if (j.contains("dataset_path"))
    j = j.contains("tokenizer") ? Json(j["tokenizer"]) : refuse("this description has no tokenizer");
  if (!j.is_object() && !j.is_null()) refuse("it must be a JSON object");
  return j.dump();
}

std::string describe(const GptDescription& d) {
  std::vector<std::pair<std::string, std::string>> f{{"class", quoted("GPTDataset")}};
  const bool core = d.order == MegatronOrder::core;
  f.push_back({core ? "dataset_path" : "path_prefix", quoted(d.prefix)});
  f.push_back({"num_samples", whole(d.samples)});
  f.push_back({"index_split", quoted(name(d.split))});
  if (!core) f.push_back({"split", quoted(d.split_string->text())});
  f.push_back({"random_seed", fmt::format("{}", d.seed)});
  f.push_back({"sequence_length", fmt::format("{}", d.sequence_length)});
  if (core) {
    f.push_back({"split", quoted(d.split_string->text())});
    std::vector<std::string> rows;
    bool first = true;  // the first border is a whole number in Python
    for (MegatronSplit s : kMegatronSplits) {
      const auto share = d.split_string->shares(s);
      rows.push_back(share ? list({first ? "0" : number((*share)[0]), number((*share)[1])}) : "null");
      first = false;
    }
    f.push_back({"split_matrix", list(rows)});
    f.push_back({"tokenizer", parse_json(d.tokenizer.empty() ? "null" : d.tokenizer, "tokenizer identifiers")
                                  .dump(4, ' ', true, Json::error_handler_t::replace)});
  }
  return object(f);
}

std::string describe_blend(const std::vector<std::string>& datasets, MegatronOrder order, MegatronSplit split,
                           const std::vector<double>& weights, bool counts, int64_t size) {
  std::vector<std::pair<std::string, std::string>> f{{"class", quoted("BlendedDataset")}, {"datasets", list(datasets)}};
  if (order == MegatronOrder::core) f.push_back({"split", quoted(name(split))});
  std::vector<std::string> numbers;
  for (double w : weights) numbers.push_back(counts ? fmt::format("{}", static_cast<int64_t>(w)) : number(w));
  f.push_back({"weights", list(numbers)});
  f.push_back({"size", whole(size)});
  return object(f);
}

IndexCache::IndexCache(std::string folder, const std::string& kind, MegatronOrder order, MegatronSplit split,
                       std::string description)
    : folder_(std::move(folder)), description_(std::move(description)) {
  const std::string behind = "-" + kind + "-" + (order == MegatronOrder::core ? std::string(name(split)) + "-" : "");
  start_ = read_start_ = md5_hex(description_) + behind;
  if (folder_.empty()) return;
  std::error_code ec;
  const std::string file = path("description.txt");
  complete_ = std::filesystem::is_regular_file(file, ec) && read_whole(file, kMostDescription) == description_;
  if (!complete_ && order == MegatronOrder::core) find_other(behind);
}

void IndexCache::find_other(const std::string& kind_and_split) {
  const std::string tail = kind_and_split + "description.txt";
  const Json mine = without_tokenizer(description_);
  std::error_code ec;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, ec)) {
    const std::string file = entry.path().filename().string();
    const bool better = !complete_ || file < read_start_ + "description.txt";  // of several, the first by name
    if (!better || !file.ends_with(tail) || !entry.is_regular_file(ec) ||
        entry.file_size(ec) > static_cast<uintmax_t>(kMostDescription))
      continue;
    if (without_tokenizer(read_whole(entry.path().string(), kMostDescription)) != mine) continue;
    read_start_ = file.substr(0, file.size() - std::string_view("description.txt").size());
    complete_ = true;
  }
}

bool IndexCache::complete() const { return complete_; }

void IndexCache::save_description() const {
  if (!folder_.empty()) write_file_atomic(path("description.txt"), description_);
}

template <class T>
std::optional<IndexArray<T>> IndexCache::load(const std::string& name, int rank) const {
  std::error_code ec;
  const std::string file = folder_ + "/" + read_start_ + name + ".npy";
  if (folder_.empty() || !std::filesystem::is_regular_file(file, ec)) return std::nullopt;
  MappedFile map(file);
  const std::span<const std::byte> bytes = map.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  // The header must be exactly as numpy.save writes it for this shape.
  const size_t brace = text.substr(0, 256).find("'shape': (");
  if (brace == std::string_view::npos) return std::nullopt;
  int64_t n = 0;
  for (size_t at = brace + 10;
       at < text.size() && std::isdigit(static_cast<unsigned char>(text[at])) && n < (int64_t{1} << 58) / 10; ++at)
    n = 10 * n + (text[at] - '0');
  const std::string header = npy_header(npy_code<T>(), rank == 1 ? Shape{n} : Shape{n, 2});
  const auto count = static_cast<size_t>(n * rank);
  if (!text.starts_with(header) || (bytes.size() - header.size()) / sizeof(T) != count ||
      (bytes.size() - header.size()) % sizeof(T) != 0)
    return std::nullopt;
  // At 64 bytes after the start of a page: aligned.
  const std::span view(reinterpret_cast<const T*>(bytes.data() + header.size()), count);
  return IndexArray<T>(std::move(map), view);
}

template <class T>
void IndexCache::save(const std::string& name, std::span<const T> values, int rank) const {
  if (folder_.empty()) return;
  create_folders(folder_);
  const auto n = static_cast<int64_t>(values.size()) / rank;
  write_npy(path(name + ".npy"), npy_code<T>(), sizeof(T), rank == 1 ? Shape{n} : Shape{n, 2}, std::as_bytes(values));
}

template std::optional<IndexArray<int16_t>> IndexCache::load(const std::string&, int) const;
template std::optional<IndexArray<int32_t>> IndexCache::load(const std::string&, int) const;
template std::optional<IndexArray<int64_t>> IndexCache::load(const std::string&, int) const;
template std::optional<IndexArray<uint32_t>> IndexCache::load(const std::string&, int) const;
template void IndexCache::save(const std::string&, std::span<const int16_t>, int) const;
template void IndexCache::save(const std::string&, std::span<const int32_t>, int) const;
template void IndexCache::save(const std::string&, std::span<const int64_t>, int) const;
template void IndexCache::save(const std::string&, std::span<const uint32_t>, int) const;

}  // namespace ravine

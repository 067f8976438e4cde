#include "checks/token_stream.h"

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "data/indexed/indexed_file.h"
#include "data/mindrecord/mindrecord_files.h"
#include "data/open_datasets.h"
#include "data/records/open_records.h"
#include "data/source.h"
#include "files/convert.h"
#include "files/npy.h"
#include "files/safetensors.h"
#include "probe/dump_kinds.h"
#include "probe/stored_dump.h"
#include "runs/open.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

int32_t as_id(int64_t value, const std::string& where) {
  if (value < INT32_MIN || value > INT32_MAX)
    throw UserError(fmt::format("id {}", value), where, "ids are numbers of 32 bits", "make the data anew");
  return static_cast<int32_t>(value);
}

// The sequences of Megatron's token files.
class IndexedStream final : public TokenStream {
 public:
  explicit IndexedStream(const std::string& prefix) : file_(prefix) { file_.check(); }
  int64_t rows() const override { return file_.sequences(); }
  TokenRow row(int64_t i) const override {
    TokenRow out;
    out.ids.resize(static_cast<size_t>(file_.length(i)));
    file_.copy(i, 0, out.ids);
    return out;
  }
  std::string location(int64_t i) const override { return fmt::format("{}.bin sequence {}", file_.prefix(), i); }

 private:
  IndexedFile file_;
};

class MindRecordStream final : public TokenStream {
 public:
  explicit MindRecordStream(const std::string& path) : files_(path) {
    if (!files_.has("input_ids"))
      throw UserError("no column input_ids", path, "MindRecord files of a training have it", "name the training data");
    for (const char* name : {"labels", "label", "target_ids"})
      if (files_.has(name)) labels_ = name;
  }
  int64_t rows() const override { return files_.rows(); }
  TokenRow row(int64_t i) const override {
    TokenRow out;
    for (const int64_t id : files_.values(i, "input_ids")) out.ids.push_back(as_id(id, location(i)));
    if (!labels_.empty())
      for (const int64_t id : files_.values(i, labels_)) out.labels.push_back(as_id(id, location(i)));
    return out;
  }
  std::string location(int64_t i) const override { return files_.row_name(i); }

 private:
  MindRecordFiles files_;
  std::string labels_;
};

// Rows that are in memory.
class StoredStream final : public TokenStream {
 public:
  StoredStream(std::vector<TokenRow> rows, std::vector<std::string> locations)
      : rows_(std::move(rows)), locations_(std::move(locations)) {}
  int64_t rows() const override { return static_cast<int64_t>(rows_.size()); }
  TokenRow row(int64_t i) const override { return rows_.at(static_cast<size_t>(i)); }
  std::string location(int64_t i) const override { return locations_.at(static_cast<size_t>(i)); }

 private:
  std::vector<TokenRow> rows_;
  std::vector<std::string> locations_;
};

// The samples of a run, in the order in which it takes them.
class RunStream final : public TokenStream {
 public:
  explicit RunStream(Datasets data) : data_(std::move(data)) {}
  int64_t rows() const override { return data_.train->row_count(); }
  TokenRow row(int64_t i) const override {
    Sample s = data_.train->sample(i);
    TokenRow out{std::move(s.ids), std::move(s.labels), {}};
    for (const TokenSpan& span : s.segments) out.segments.emplace_back(span.begin, span.length);
    return out;
  }
  std::string location(int64_t i) const override { return fmt::format("sample {}, {}", i, data_.train->origin(i)); }
  bool shifted() const override { return true; }

 private:
  Datasets data_;
};

// Appends the rows of an array of whole numbers, [T] or [rows, T].
void add_array(std::vector<TokenRow>& rows, std::vector<std::string>& locations, DType type, const Shape& shape,
               std::span<const std::byte> bytes, const std::string& where) {
  if (type != DType::i32 && type != DType::i64)
    throw UserError(fmt::format("an array of {}", name(type)), where, "ids are whole numbers", "name the array of ids");
  std::vector<int64_t> values(static_cast<size_t>(shape.count()));
  convert(type, bytes.data(), DType::i64, values.data(), shape.count());
  const int64_t columns = shape.rank() == 0 ? 1 : shape[shape.rank() - 1];
  for (int64_t i = 0; columns > 0 && i < shape.count() / columns; ++i) {
    TokenRow row;
    for (int64_t t = 0; t < columns; ++t) row.ids.push_back(as_id(values[static_cast<size_t>(i * columns + t)], where));
    rows.push_back(std::move(row));
    locations.push_back(shape.rank() > 1 ? fmt::format("{} row {}", where, i) : where);
  }
}

std::unique_ptr<TokenStream> stored(std::vector<TokenRow> rows, std::vector<std::string> locations) {
  return std::make_unique<StoredStream>(std::move(rows), std::move(locations));
}

// Opens the ids that the embedding has read in a dump, in the order of steps and micro batches.
std::unique_ptr<TokenStream> open_dump(const std::string& path) {
  std::vector<TokenRow> rows;
  std::vector<std::string> locations;
  const Dump dump = read_dump(path);
  StoredDump tensors(path);
  for (const RankDump& rank : dump.ranks)
    for (const DumpRecord& r : rank.records) {
      if (r.op != "embedding" || r.tensor != "ids" || r.output || r.phase != Phase::forward) continue;
      if (!r.is_stored())
        throw UserError("a dump without ids", path, "its tensors must be stored", "record with probe.dump what: tensors");
      add_array(rows, locations, r.dtype, r.shape, tensors.bytes(r),
                fmt::format("{} step {} micro batch {}", path, r.step, r.micro));
    }
  if (rows.empty())
    throw UserError("a dump without ids", path, "it must have calls of the embedding", "record the path model.embed_tokens");
  return stored(std::move(rows), std::move(locations));
}

std::unique_ptr<TokenStream> open_safetensors(const std::string& path) {
  std::vector<TokenRow> rows, labels;
  std::vector<std::string> locations, ignored;
  const SafetensorsReader reader(path);
  const TensorInfo* ids = reader.find("input_ids");
  if (!ids) ids = reader.find("ids");
  if (!ids) throw UserError("no tensor input_ids", path, "a file of batches has it", "name another file");
  add_array(rows, locations, ids->dtype, ids->shape, reader.bytes(*ids), path);
  if (const TensorInfo* target = reader.find("labels")) {
    add_array(labels, ignored, target->dtype, target->shape, reader.bytes(*target), path);
    for (size_t i = 0; i < std::min(rows.size(), labels.size()); ++i) rows[i].labels = std::move(labels[i].ids);
  }
  return stored(std::move(rows), std::move(locations));
}

// Opens records: their field input_ids (with labels), or their text by a tokenizer.
std::unique_ptr<TokenStream> open_record_files(const std::vector<std::string>& files, const Tokenizer* tokenizer) {
  constexpr size_t kMost = 200000;  // records in memory
  std::vector<TokenRow> rows;
  std::vector<std::string> locations;
  for (const std::string& file : files) {
    const auto reader = open_records(file, {});
    for (Record record; rows.size() < kMost && reader->next(record);) {
      const Json json = record.plain ? Json{{"text", record.body}} : record.json();
      TokenRow row;
      const auto numbers = [&](const char* key, std::vector<int32_t>& into) {
        const auto found = json.find(key);
        if (found == json.end() || !found->is_array()) return false;
        for (const Json& id : *found) {
          if (!id.is_number_integer())
            throw UserError(fmt::format("{} is no list of whole numbers", key), record.where(), "ids are whole numbers",
                            "correct the record");
          into.push_back(as_id(id.get<int64_t>(), record.where()));
        }
        return true;
      };
      if (numbers("input_ids", row.ids)) {
        numbers("labels", row.labels);
      } else if (const auto text = json.find("text"); text != json.end() && text->is_string()) {
        if (!tokenizer)
          throw UserError("text without a tokenizer", record.where(), "ids are made by one", "give --tokenizer DIR");
        row.ids = tokenizer->encode(text->get<std::string>(), true);
      } else {
        throw UserError("a record without input_ids and text", record.where(), "one of the two fields is read",
                        "give the config of the training instead, which renders conversations");
      }
      rows.push_back(std::move(row));
      locations.push_back(record.where());
    }
  }
  return stored(std::move(rows), std::move(locations));
}

bool is_data(const std::string& path) {
  std::error_code error;
  if (is_indexed_prefix(path) || is_dump(path) || (fs::exists(path, error) && is_mindrecord_path(path))) return true;
  for (const char* end :
       {".npy", ".safetensors", ".jsonl", ".jsonl.gz", ".jsonl.zst", ".jsonl.xz", ".parquet", ".arrow", ".txt", ".csv"})
    if (path.ends_with(end) && fs::is_regular_file(path, error)) return true;
  return false;
}

void open_data(TokenSource& source, const std::string& path) {
  std::string prefix;
  if (is_indexed_prefix(path, &prefix)) {
    source.kind = "token files of Megatron", source.tokens = std::make_unique<IndexedStream>(prefix);
  } else if (is_dump(path)) {
    source.kind = "ids of a dump", source.tokens = open_dump(path);
  } else if (is_mindrecord_path(path)) {
    source.kind = "MindRecord files", source.tokens = std::make_unique<MindRecordStream>(path);
  } else if (path.ends_with(".npy")) {
    std::vector<TokenRow> rows;
    std::vector<std::string> locations;
    const NpyArray array = read_npy(path);
    add_array(rows, locations, array.dtype, array.shape, array.bytes, path);
    source.kind = "array of ids", source.tokens = stored(std::move(rows), std::move(locations));
  } else if (path.ends_with(".safetensors")) {
    source.kind = "fixed batches", source.tokens = open_safetensors(path);
  } else {
    source.kind = "records", source.tokens = open_record_files({path}, source.tokenizer.get());
  }
}

}  // namespace

TokenSource open_tokens(const std::string& given, const std::string& tokenizer, const SideFacts& facts) {
  TokenSource source{.path = given};
  source.tokenizer_path = tokenizer;
  if (!tokenizer.empty()) source.tokenizer = open_tokenizer(tokenizer);
  if (is_data(given)) {
    open_data(source, given);
    return source;
  }
  source.side = std::make_shared<Side>(load_side(given, facts));
  const Config& c = source.side->config;
  source.kind = "data of a " + source.side->kind;
  source.notes = source.side->notes;
  if (source.tokenizer_path.empty()) source.tokenizer_path = c.model.tokenizer.empty() ? c.model.path : c.model.tokenizer;
  std::error_code error;
  if (!source.tokenizer && !source.tokenizer_path.empty() && fs::exists(source.tokenizer_path, error)) {
    try {
      source.tokenizer = open_tokenizer(source.tokenizer_path);
    } catch (const UserError& e) {
      source.notes.push_back(e.what());
    }
  }
  if (c.data.train.empty()) throw UserError("no data", given, "the config must name training data", "name the data themselves");
  // check_tokens() finds ids beyond the vocabulary, which datasets would refuse at once.
  Config open = c;
  if (!tokenizer.empty()) open.model.tokenizer = tokenizer;
  DatasetOptions options = dataset_options(open, INT32_MAX);
  options.tokenizer_path = source.tokenizer_path;
  if (needs_tokenizer(options) && !source.tokenizer)
    throw UserError("no tokenizer", given, "text needs one", "give --tokenizer DIR");
  Datasets data = open_datasets(options, source.tokenizer.get());
  for (const std::string& line : data.warnings) source.notes.push_back(line);
  source.conversations = data.chat_fingerprint.has_value();
  source.tokens = std::make_unique<RunStream>(std::move(data));
  return source;
}

}  // namespace ravine

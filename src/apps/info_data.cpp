#include "apps/info_data.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <map>
#include <span>

#include "base/cut_text.h"
#include "base/error.h"
#include "base/shell_word.h"
#include "base/terminal.h"
#include "base/text.h"
#include "data/fixed_batches.h"
#include "data/indexed/indexed_file.h"
#include "data/instruct/chat_encoder.h"
#include "data/instruct/chat_set.h"
#include "data/instruct/instruction_files.h"
#include "data/mindrecord/mindrecord_files.h"
#include "data/records/open_records.h"
#include "data/source.h"
#include "files/compressed.h"
#include "files/safetensors.h"
#include "text/chat/prompt_templates.h"
#include "text/tokenizers/open_tokenizer.h"
#include "text/unicode/unicode.h"

namespace fs = std::filesystem;

namespace ravine {
namespace {

constexpr size_t kShown = 400;  // characters of a sample that are shown

// Counts lengths by powers of two.
class Lengths {
 public:
  void add(int64_t n) {
    ++count_, sum_ += n;
    least_ = std::min(least_, n);
    most_ = std::max(most_, n);
    ++bins_[n == 0 ? 0 : std::bit_width(static_cast<uint64_t>(n))];
  }
  Json json(const char* unit) const {
    Json rows = Json::array();
    for (const auto& [bits, n] : bins_) {
      const int64_t low = bits == 0 ? 0 : int64_t{1} << (bits - 1);
      rows.push_back({{"from", low}, {"to", bits == 0 ? 0 : 2 * low - 1}, {"count", n}});
    }
    return {{"unit", unit},
            {"least", count_ ? least_ : 0},
            {"mean", count_ ? static_cast<double>(sum_) / static_cast<double>(count_) : 0.0},
            {"most", most_},
            {"histogram", rows}};
  }

 private:
  int64_t count_ = 0, sum_ = 0, least_ = INT64_MAX, most_ = 0;
  std::map<int, int64_t> bins_;
};

std::string cut(const std::string& text) {
  const std::string_view begin = cut_text(text, kShown);
  return std::string(begin) + (begin.size() < text.size() ? " .." : "");
}

int64_t document_length(const IndexedFile& file, int64_t document) {
  int64_t n = 0;
  for (int64_t s = file.document_begin(document); s < file.document_begin(document + 1); ++s) n += file.length(s);
  return n;
}

std::vector<int32_t> first_ids(const IndexedFile& file, int64_t sequence) {
  std::vector<int32_t> ids(static_cast<size_t>(std::min<int64_t>(file.length(sequence), 256)));
  file.copy(sequence, 0, ids);
  return ids;
}

// Returns ids as text, in parts that are trained on or not.
Json marked(const std::vector<int32_t>& ids, const std::vector<int32_t>& labels, const Tokenizer& tokenizer) {
  Json parts = Json::array();
  StreamDecoder decoder(tokenizer, false);
  for (size_t at = 0; at < ids.size();) {
    const bool trained = at < labels.size() && labels[at] >= 0;
    std::string text;
    for (; at < ids.size() && (at < labels.size() && labels[at] >= 0) == trained; ++at) text += decoder.next(ids[at]);
    text += at < ids.size() ? decoder.settle() : decoder.finish();
    parts.push_back({{"text", text}, {"trained", trained}});
  }
  return parts;
}

// Checks all three files of X, and returns the number of tokens that are learned.
int64_t check_instructions(const std::string& x) {
  const InstructionFiles files({x}, INT32_MAX);
  for (const char* name : {"_packed_attention_mask_document", "_packed_labels_document"}) IndexedFile(x + name).check();
  int64_t learned = 0;
  for (int64_t i = 0; i < files.count(); ++i) {
    const InstructionFiles::Row row = files.row(i, std::max<int64_t>(2, files.length(i)));
    learned += std::count_if(row.labels.begin(), row.labels.end(), [](int32_t l) { return l != kIgnored; });
  }
  return learned;
}

Json describe_indexed(const std::string& path, const DataInfoOptions& o) {
  std::string x, prefix = path;
  const bool instructions = is_instruction_prefix(path, &x);
  if (instructions) prefix = x + "_packed_input_ids_document";
  const int64_t learned = instructions ? check_instructions(x) : 0;
  const IndexedFile file(prefix);
  file.check();
  Json j{{"kind", instructions ? "instruction files" : "token files"},
         {"path", prefix},
         {"type", name(file.type())},
         {"documents", file.documents()},
         {"sequences", file.sequences()},
         {"tokens", file.tokens()}};
  j["bytes"] = file.all_bytes().size();
  if (instructions) j["learned_tokens"] = learned;
  if (file.has_modes()) j["multimodal"] = "each sequence has a mode";
  Lengths lengths;
  int64_t empty = 0;
  for (int64_t d = 0; d < file.documents(); ++d) {
    const int64_t n = document_length(file, d);
    lengths.add(n);
    empty += n == 0;
  }
  if (empty > 0) j["empty_documents"] = empty;
  j["lengths"] = lengths.json("tokens of a document");
  if (file.type() == TokenType::f32 || file.type() == TokenType::f64) return j;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!o.tokenizer.empty()) tokenizer = open_tokenizer(o.tokenizer);
  std::unique_ptr<IndexedFile> labels;
  if (instructions) labels = std::make_unique<IndexedFile>(x + "_packed_labels_document");
  Json samples = Json::array();
  for (int64_t s = 0; s < file.sequences() && static_cast<int64_t>(samples.size()) < o.samples; ++s) {
    const std::vector<int32_t> ids = first_ids(file, s);
    Json sample{{"sequence", s}, {"tokens", file.length(s)}};
    const bool decodes =
        tokenizer && std::all_of(ids.begin(), ids.end(), [&](int32_t id) { return id >= 0 && id < tokenizer->size(); });
    if (tokenizer && !decodes) sample["note"] = "ids beyond this tokenizer";
    if (decodes && labels)
      sample["parts"] = marked(ids, first_ids(*labels, s), *tokenizer);
    else if (decodes)
      sample["text"] = cut(tokenizer->decode(ids, false));
    else
      sample["ids"] = std::vector<int32_t>(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(std::min<size_t>(ids.size(), 32)));
    samples.push_back(sample);
  }
  j["samples"] = samples;
  return j;
}

// Reads every row. Sizes and samples are of input_ids, or else of the first column of whole numbers.
Json describe_mindrecord(const std::string& path, const DataInfoOptions& o) {
  const MindRecordFiles files(path);
  Json j{{"kind", "MindRecord"}, {"path", path}, {"rows", files.rows()}, {"files", files.paths().size()}};
  int64_t bytes = 0;
  for (const std::string& file : files.paths()) bytes += static_cast<int64_t>(fs::file_size(file));
  j["bytes"] = bytes;
  if (files.paths().size() > 1) j["shards"] = files.paths();
  const auto whole = [](const std::string& type) { return type == "int32" || type == "int64"; };
  std::string shown;
  for (size_t i = 0; i < files.columns().size(); ++i)
    if (whole(files.types()[i]) && (shown.empty() || files.columns()[i] == "input_ids")) shown = files.columns()[i];
  Json& columns = j["columns"] = Json::object();
  Json samples = Json::array();
  std::unique_ptr<Tokenizer> tokenizer;
  if (!o.tokenizer.empty()) tokenizer = open_tokenizer(o.tokenizer);
  for (size_t i = 0; i < files.columns().size(); ++i) {
    const std::string& column = files.columns()[i];
    Json& of_column = columns[column] = {{"type", files.types()[i]}};
    if (!whole(files.types()[i])) continue;
    Lengths lengths;
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t row = 0; row < files.rows(); ++row) {
      const std::vector<int64_t> values = files.values(row, column);
      lengths.add(static_cast<int64_t>(values.size()));
      for (const int64_t v : values) least = std::min(least, v), most = std::max(most, v);
      if (column != shown || row >= o.samples) continue;
      samples.push_back({{"row", row}, {"values", values.size()}});
      const bool decodes =
          tokenizer && std::all_of(values.begin(), values.end(), [&](int64_t id) { return id >= 0 && id < tokenizer->size(); });
      if (tokenizer && !decodes) samples.back()["note"] = "ids beyond this tokenizer";
      const auto begin = values.begin(),
                 end = begin + static_cast<ptrdiff_t>(std::min<size_t>(values.size(), decodes ? 256 : 32));
      if (decodes)
        samples.back()["text"] = cut(tokenizer->decode(std::vector<int32_t>(begin, end), false));
      else
        samples.back()["ids"] = std::vector<int64_t>(begin, end);
    }
    if (files.rows() > 0) of_column["least"] = least, of_column["most"] = most;
    of_column["values_of_a_row"] = {{"least", lengths.json("")["least"]}, {"most", lengths.json("")["most"]}};
    if (column == shown) j["lengths"] = lengths.json(("values of " + column + " in a row").c_str());
  }
  for (const auto& [column, type] : files.other_columns()) columns[column] = {{"type", type}, {"note", "no array: not read"}};
  j["samples"] = samples;
  j["to_use_it"] = fmt::format("--train_dataset_dir {} in mindformers, or data.order=mindspore data.train=[{}] in train",
                               shell_word(path), path);
  return j;
}

// Shows conversations as a run gets them.
class ChatView {
 public:
  ChatView(const DataInfoOptions& o)
      : tokenizer_(open_tokenizer(o.tokenizer)),
        encoder_(*tokenizer_, choose_template(o.chat_template, o.tokenizer, *tokenizer_, "--template").chat, LossOn::answers) {}
  Json parts(const Json& record, ChatFormat format, const std::string& where) const {
    const EncodedChat c = encoder_.encode(read_conversation(record, format, where), where);
    std::vector<int32_t> labels;
    for (size_t i = 0; i < c.ids.size(); ++i) labels.push_back(c.learned[i] ? c.ids[i] : kIgnored);
    return marked(c.ids, labels, *tokenizer_);
  }

 private:
  std::unique_ptr<Tokenizer> tokenizer_;
  ChatEncoder encoder_;
};

// True if a JSON file begins as a list. Configs of models and tokenizers are objects.
bool begins_as_list(const std::string& file) {
  char begin[4096];
  const size_t n = open_bytes(file)->read(std::as_writable_bytes(std::span(begin)));
  const std::string_view text(begin, n);
  const size_t at = text.find_first_not_of("\xEF\xBB\xBF \t\r\n");
  return at != std::string_view::npos && text[at] == '[';
}

Json describe_records(const std::string& path, const std::vector<std::string>& files, const DataInfoOptions& o) {
  Json j{{"kind", "texts"}, {"path", path}, {"files", files.size()}};
  std::optional<ChatView> view;
  int64_t bytes = 0, records = 0, repaired = 0;
  Lengths lengths;
  std::map<std::string, int64_t> fields;
  Json samples = Json::array();
  constexpr int64_t kLookedInto = 1000;  // records whose fields are counted
  for (const std::string& file : files) {
    bytes += static_cast<int64_t>(fs::file_size(file));
    auto reader = open_records(file, {});
    // Objects of a list may share a line.
    const bool list = source_kind(file) == SourceKind::json && begins_as_list(file);
    int64_t of_file = 0;
    for (Record r; reader->next(r);) {
      const std::string where = list ? fmt::format("{} record {}", file, ++of_file) : r.where();
      lengths.add(static_cast<int64_t>(r.body.size()));
      if (records++ >= kLookedInto) continue;
      const std::string body = lossy_utf8(r.body);
      repaired += body != r.body;
      r.body = body;
      const Json object = r.json();
      for (const auto& [key, value] : object.items()) ++fields[key];
      std::optional<ChatFormat> format;
      if (!r.plain && !object.contains("text")) format = detect_chat_format(object);
      if (format && records == 1) j["kind"] = fmt::format("conversations ({})", name(*format));
      if (static_cast<int64_t>(samples.size()) >= o.samples) continue;
      samples.push_back({{"where", where}});
      if (format && !o.tokenizer.empty()) {
        if (!view) view.emplace(o);
        samples.back()["parts"] = view->parts(object, *format, where);
      } else {
        samples.back()["text"] = cut(r.plain ? body : object.dump(-1, ' ', false, Json::error_handler_t::replace));
      }
    }
  }
  j["bytes"] = bytes;
  j["records"] = records;
  if (std::any_of(files.begin(), files.end(), [](const std::string& file) { return source_kind(file) == SourceKind::text; }))
    j["records_of_txt"] = "lines, as preprocess takes them; train takes a text as it runs on";
  j["fields_of_the_first"] = fields;
  if (repaired > 0) j["bad_utf8"] = repaired;
  j["lengths"] = lengths.json("bytes of a record");
  j["samples"] = samples;
  return j;
}

bool is_records(const std::string& file) {
  try {
    const SourceKind kind = source_kind(file);
    if (kind != SourceKind::json) return kind != SourceKind::fixed && kind != SourceKind::indexed;
    // A single object that describes a model or a tokenizer is no data.
    auto reader = open_records(file, {});
    Record r;
    if (!reader->next(r)) return false;
    const Json first = r.json();
    return !first.contains("model_type") && !first.contains("architectures") && !first.contains("tokenizer_class") &&
           !first.contains("quantization_config") && (begins_as_list(file) || reader->next(r));
  } catch (const UserError&) {
    return false;
  }
}

}  // namespace

std::optional<Json> describe_data(const std::string& path, const DataInfoOptions& o) {
  std::error_code ec;
  if (is_mindrecord_file(path)) return describe_mindrecord(path, o);
  if (is_instruction_prefix(path)) return describe_indexed(path, o);
  if (std::string prefix; is_indexed_prefix(path, &prefix)) return describe_indexed(prefix, o);
  if (fs::is_directory(path, ec)) {
    std::vector<std::string> files;
    try {
      files = source_files(path);
    } catch (const UserError&) {
      return std::nullopt;
    }
    if (std::all_of(files.begin(), files.end(), is_mindrecord_file)) return describe_mindrecord(path, o);
    return describe_records(path, files, o);
  }
  // Data by its suffix; a .json file only if it is a list or has several records.
  if (fs::is_regular_file(path, ec) && is_records(path)) return describe_records(path, {path}, o);
  return std::nullopt;
}

std::optional<Json> describe_batches(const std::string& path, const DataInfoOptions& o) {
  if (!SafetensorsReader(path).find("input_ids")) return std::nullopt;
  std::optional<FixedBatches> opened;
  try {
    opened.emplace(path, INT32_MAX);
  } catch (const UserError& e) {
    return Json{{"no_batch_file", e.what()}};
  }
  const FixedBatches& file = *opened;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!o.tokenizer.empty()) tokenizer = open_tokenizer(o.tokenizer);
  Json j{{"kind", "fixed batches"}, {"rows", file.rows()}, {"columns", file.columns()}};
  Lengths lengths;
  int64_t learned = 0;
  Json samples = Json::array();
  for (int64_t i = 0; i < file.rows(); ++i) {
    const Sample s = file.sample(i);
    int64_t seen = 0;
    for (const TokenSpan& seg : s.segments) seen += seg.length;
    lengths.add(seen);
    learned += std::count_if(s.labels.begin(), s.labels.end(), [](int32_t l) { return l != kIgnored; });
    if (i >= o.samples) continue;
    samples.push_back({{"row", i}});
    const bool decodes =
        tokenizer && std::all_of(s.ids.begin(), s.ids.end(), [&](int32_t id) { return id < tokenizer->size(); });
    if (tokenizer && !decodes) samples.back()["note"] = "ids beyond this tokenizer";
    if (decodes) {
      std::vector<int32_t> ids(s.ids.begin(), s.ids.begin() + static_cast<ptrdiff_t>(std::min<size_t>(s.ids.size(), 256))),
          labels(1, kIgnored);
      labels.insert(labels.end(), s.labels.begin(), s.labels.end() - 1);
      samples.back()["parts"] = marked(ids, labels, *tokenizer);
    } else {
      samples.back()["ids"] =
          std::vector<int32_t>(s.ids.begin(), s.ids.begin() + static_cast<ptrdiff_t>(std::min<size_t>(s.ids.size(), 32)));
    }
  }
  j["learned_tokens"] = learned;
  j["lengths"] = lengths.json("columns of a row that are no padding");
  j["samples"] = samples;
  return j;
}

void print_lengths(const Json& lengths) {
  fmt::print("lengths ({}): {} to {}, mean {:.1f}\n", lengths["unit"].get<std::string>(), lengths["least"].get<int64_t>(),
             lengths["most"].get<int64_t>(), lengths["mean"].get<double>());
  int64_t most = 1;
  for (const Json& row : lengths["histogram"]) most = std::max(most, row["count"].get<int64_t>());
  for (const Json& row : lengths["histogram"]) {
    const auto count = row["count"].get<int64_t>();
    const auto width = static_cast<size_t>((40 * count + most - 1) / most);
    fmt::print("  {:>9} - {:<9} {:>10}  {}\n", row["from"].get<int64_t>(), row["to"].get<int64_t>(), count,
               std::string(width, '#'));
  }
}

void print_samples(const Json& samples) {
  const bool colour = shows_colour(STDOUT_FILENO);
  for (const Json& s : samples) {
    std::string head;
    for (const auto& [key, value] : s.items())
      if (key != "text" && key != "parts" && key != "ids")
        head += (head.empty() ? "" : ", ") + (key == "where" ? "" : key + " ") +
                (value.is_string() ? value.get<std::string>() : value.dump());
    fmt::print("--- {}\n", printable(head));
    if (s.contains("ids")) fmt::print("{}\n", s["ids"].dump());
    if (s.contains("text")) fmt::print("{}\n", escaped(s["text"].get<std::string>(), "\n\t"));
    if (!s.contains("parts")) continue;
    for (const Json& part : s["parts"]) {
      const bool trained = part["trained"];
      fmt::print("{}{}{}", trained ? (colour ? "\033[32m" : "[[") : "", escaped(part["text"].get<std::string>(), "\n\t"),
                 trained ? (colour ? "\033[0m" : "]]") : "");
    }
    fmt::print("\n");
  }
}

}  // namespace ravine

#include "data/fingerprint.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "base/error.h"
#include "data/instruct/instruction_files.h"
#include "data/source.h"
#include "files/checksum.h"
#include "files/fd.h"

namespace ravine {
namespace {

constexpr int64_t kWhole = int64_t{64} << 20, kPiece = int64_t{1} << 20, kBlock = 4096, kBlocks = 1024;

void add_file(Checksum& sum, const std::string& path, bool whole) {
  int64_t size = 0;
  const Fd file = open_to_read(path, &size);
  sum.update(std::as_bytes(std::span(&size, 1)));
  std::vector<std::byte> part;
  auto add = [&](int64_t at, int64_t bytes) {  // read, not mapped: a mapped page would bring its neighbours into memory
    part.resize(static_cast<size_t>(bytes));
    read_all_at(*file, at, part, path);
    sum.update(part);
  };
  if (whole || size <= kWhole) {
    for (int64_t at = 0; at < size; at += kPiece) add(at, std::min(kPiece, size - at));
    return;
  }
  for (int64_t i = 0; i + 1 < kBlocks; ++i) add((size - kBlock) / (kBlocks - 1) * i, kBlock);
  add(size - kBlock, kBlock);
}

std::string checksum_of_source(const std::string& path) {
  Checksum sum;
  for (const std::string& file : source_files(path)) {
    SourceKind kind = source_kind(file);
    if (kind == SourceKind::instructions) {
      std::string prefix = file;
      is_instruction_prefix(file, &prefix);
      for (const char* list : {"_packed_input_ids_document", "_packed_attention_mask_document", "_packed_labels_document"})
        for (const char* part : {".idx", ".bin"}) add_file(sum, prefix + list + part, false);
    } else if (kind == SourceKind::indexed) {
      add_file(sum, file + ".idx", false);
      add_file(sum, file + ".bin", false);
    } else {
      add_file(sum, file, kind != SourceKind::fixed && kind != SourceKind::mindrecord);
    }
  }
  return checksum_text(sum.value());
}

std::string text_at(const Json& j, const char* key) {
  auto it = j.find(key);
  return it != j.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

DataFingerprint fingerprint_of(const DataOptions& data, const Tokenizer* tokenizer, std::optional<uint64_t> chat_template) {
  DataFingerprint out;
  for (const DataSource& s : data.train) {
    out.sources.push_back({s.path, checksum_of_source(s.path)});
    out.blend = out.blend || s.weight.has_value();
  }
  if (tokenizer) out.tokenizer = checksum_text(tokenizer->fingerprint());
  if (chat_template) out.chat_template = checksum_text(*chat_template);
  static const std::set<std::string> kOthers = {"train", "valid", "skip_steps", "prefetch", "cache", "index_cache"};
  DataOptions copy = data;
  for (const Option& o : options_of(copy, "data"))
    if (!kOthers.count(o.key)) out.options.emplace_back(o.name(), o.yaml());
  return out;
}

Json DataFingerprint::json() const {
  Json list = Json::array(), keys = Json::object();
  for (const Source& s : sources) list.push_back({{"path", s.path}, {"checksum", s.checksum}});
  for (const auto& [key, value] : options) keys[key] = value;
  return {{"sources", list}, {"blend", blend}, {"tokenizer", tokenizer}, {"chat_template", chat_template}, {"options", keys}};
}

std::string DataFingerprint::text() const {
  std::string out;
  for (const Source& s : sources) out += fmt::format("{}: checksum {}\n", s.path, s.checksum);
  out += fmt::format("tokenizer: {}\n", tokenizer.empty() ? "none" : "checksum " + tokenizer);
  return chat_template.empty() ? out : out + fmt::format("chat template: checksum {}\n", chat_template);
}

void refuse_other_data(const Json& was, const DataFingerprint& now, const std::string& checkpoint) {
  if (!was.is_object() || !was.contains("sources") || !was["sources"].is_array()) return;
  auto refuse = [&](const std::string& what, const std::string& where, const std::string& rule) {
    throw UserError(what, where, rule, "set what the run had, or set checkpoint.other_data=true to resume with this");
  };
  if (std::string before = text_at(was, "tokenizer"); !before.empty() && !now.tokenizer.empty() && before != now.tokenizer)
    refuse("another tokenizer than the checkpoint's", "model.tokenizer",
           fmt::format("{} was made with one of checksum {}, this one has {}: the same text would give other ids", checkpoint,
                       before, now.tokenizer));
  if (std::string before = text_at(was, "chat_template");
      !before.empty() && !now.chat_template.empty() && before != now.chat_template)
    refuse("another chat template than the checkpoint's", "data.chat_template, or the one of the tokenizer",
           fmt::format("{} was made with one of checksum {}, this one has {}: the same conversation would give other text",
                       checkpoint, before, now.chat_template));
  std::vector<DataFingerprint::Source> sources;
  for (const Json& s : was["sources"])
    if (s.is_object()) sources.push_back({text_at(s, "path"), text_at(s, "checksum")});
  auto other = [&](const DataFingerprint::Source& a, const DataFingerprint::Source& b) {
    refuse("other data than the checkpoint's", fmt::format("data.train: {}", b.path),
           a.path == b.path
               ? fmt::format("{} was made when it had checksum {}, now it has {}", checkpoint, a.checksum, b.checksum)
               : fmt::format("{} was made with {} there, of checksum {}; this one has {}", checkpoint, a.path, a.checksum,
                             b.checksum));
  };
  if (now.blend || (was.contains("blend") && was["blend"].is_boolean() && was["blend"].get<bool>())) {
    std::set<std::string> known;
    bool any = sources.empty();
    for (const auto& a : sources) known.insert(a.checksum);
    for (const auto& b : now.sources) {
      any = any || known.count(b.checksum) > 0;
      auto same_path = std::find_if(sources.begin(), sources.end(), [&](const auto& a) { return a.path == b.path; });
      if (same_path != sources.end() && !known.count(b.checksum)) other(*same_path, b);
    }
    if (!any)
      refuse("other data than the checkpoint's", "data.train",
             fmt::format("none of its sources is one that {} was made with", checkpoint));
    return;
  }
  for (size_t i = 0; i < std::min(sources.size(), now.sources.size()); ++i)
    if (sources[i].checksum != now.sources[i].checksum) other(sources[i], now.sources[i]);
  if (sources.size() != now.sources.size())
    refuse("other data than the checkpoint's", "data.train",
           fmt::format("it names {} sources, {} was made with {}; without weights they are one text, cut and shuffled together",
                       now.sources.size(), checkpoint, sources.size()));
}

std::vector<std::string> other_data_options(const Json& was, const DataFingerprint& now) {
  std::vector<std::string> out;
  if (!was.is_object() || !was.contains("options") || !was["options"].is_object()) return out;
  for (const auto& [key, value] : now.options)
    if (std::string before = text_at(was["options"], key.c_str()); !before.empty() && before != value)
      out.push_back(fmt::format("{} (was {}, is {})", key, before, value));
  return out;
}

}  // namespace ravine

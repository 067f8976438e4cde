#include "data/source_kinds.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "data/instruct/chat_records.h"
#include "data/source.h"

namespace ravine {

bool holds_ids(const std::string& path) {
  SourceKind kind = source_kind(path);
  return kind == SourceKind::fixed || kind == SourceKind::indexed || kind == SourceKind::instructions ||
         kind == SourceKind::mindrecord;
}

RecordFormat format_of(const DataSource& s, const DatasetOptions& o) { return s.format.value_or(o.format); }

namespace {

bool holds_chats(const std::string& path, RecordFormat format, const std::string& text_key) {
  if (format == RecordFormat::text || holds_ids(path)) return false;
  return chat_format(format) || (source_kind(path) != SourceKind::text && detect_chat_file(path, text_key));
}

Files::Kind kind_of_pairs(const std::string& path) {
  switch (source_kind(path)) {
    case SourceKind::jsonl:
    case SourceKind::json:
    case SourceKind::csv:
    case SourceKind::parquet:
      return Files::pairs;
    default:
      throw UserError("no file of records", path, "train.objective=dpo learns from records with 'chosen' and 'rejected'",
                      "name a .jsonl, .json, .csv or .parquet file, or set train.objective=causal");
  }
}

const char* words_for(Files::Kind kind) {
  switch (kind) {
    case Files::chats:
      return "conversations";
    case Files::pairs:
      return "pairs of answers";
    case Files::indexed:
      return "token files";
    case Files::instructions:
      return "instruction files";
    case Files::fixed:
      return "fixed batches";
    default:
      return "text";
  }
}

Files::Kind kind_of(const std::string& path, RecordFormat format, const std::string& text_key) {
  if (holds_chats(path, format, text_key)) return Files::chats;
  switch (source_kind(path)) {
    case SourceKind::fixed:
      return Files::fixed;
    case SourceKind::indexed:
      return Files::indexed;
    case SourceKind::instructions:
      return Files::instructions;
    case SourceKind::mindrecord:
      throw UserError("a MindRecord file", path, "it is read in MindSpore's order of rows", "set data.order=mindspore");
    default:
      return Files::text;
  }
}

}  // namespace

std::vector<Files> expand(const std::vector<DataSource>& sources, const char* key, const DatasetOptions& o, bool* fixed) {
  std::vector<Files> all;
  bool any_fixed = false, any_other = false;
  for (const auto& s : sources) {
    if (s.weight && (!std::isfinite(*s.weight) || *s.weight <= 0))
      throw UserError("wrong weight", fmt::format("{}: {}", key, s.path), fmt::format("it must be above 0, got {}", *s.weight),
                      "leave the source out instead");
    all.push_back({s, source_files(s.path)});
    Files& f = all.back();
    if (o.pairs && s.format)
      throw UserError("a format of pairs", fmt::format("{}: {}", key, s.path), "records of pairs have one form",
                      "remove the format of the source");
    auto kind = [&](const std::string& path) {
      return o.pairs ? kind_of_pairs(path) : kind_of(path, format_of(s, o), o.text_key);
    };
    f.kind = kind(f.paths[0]);
    std::map<Files::Kind, std::string> firsts;
    for (const auto& path : f.paths) firsts.emplace(kind(path), path);
    if (firsts.size() > 1) {
      std::string found;
      for (const auto& [k, path] : firsts) found += fmt::format("{}{} ({})", found.empty() ? "" : ", ", words_for(k), path);
      throw UserError("kinds of data do not mix", fmt::format("{}: {}", key, s.path),
                      "its files are of several kinds: " + found, "name them as sources of their own, or set their format");
    }
    (f.kind == Files::fixed ? any_fixed : any_other) = true;
  }
  if (any_fixed && any_other)
    throw UserError("kinds of data do not mix", key, "fixed batch files stand alone",
                    "give either text, conversations and token files, or .safetensors files");
  *fixed = any_fixed;
  return all;
}

}  // namespace ravine

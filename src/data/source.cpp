#include "data/source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/missing_path.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "config/likely_sources.h"
#include "data/indexed/indexed_file.h"
#include "data/instruct/instruction_files.h"
#include "data/mindrecord/mindrecord_files.h"
#include "files/folder_mark.h"
#include "files/tokenizer_files.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

// Returns the path in lower case, without the suffix of a compression.
std::string without_compression(std::string path) {
  for (char& c : path) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  for (const char* suffix : {".gz", ".zst", ".xz"})
    if (path.ends_with(suffix)) return path.substr(0, path.size() - std::string_view(suffix).size());
  return path;
}

struct Suffix {
  const char* text;
  SourceKind kind;
};
constexpr Suffix kSuffixes[] = {{".txt", SourceKind::text},
                                {".jsonl", SourceKind::jsonl},
                                {".json", SourceKind::json},
                                {".csv", SourceKind::csv},
                                // Tables of Arrow too.
                                {".parquet", SourceKind::parquet},
                                {".arrow", SourceKind::parquet}};

bool is_record_file(const fs::path& path) {
  const std::string plain = without_compression(path.filename().string());
  if (plain.starts_with('.') || (plain.starts_with("cache-") && plain.ends_with(".arrow"))) return false;
  for (const char* description : {"dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json"})
    if (plain == description) return false;
  return std::any_of(std::begin(kSuffixes), std::end(kSuffixes), [&](const Suffix& s) { return plain.ends_with(s.text); });
}

// True if the name is of a tokenizer's file, or of a file of a model.
bool is_of_tokenizer(const fs::path& file) {
  const std::string name = without_compression(file.filename().string());
  auto is = [&](const char* other) { return name == other; };
  return std::any_of(kTokenizerFiles.begin(), kTokenizerFiles.end(), is) ||
         std::any_of(kTemplateFiles.begin(), kTemplateFiles.end(), is) || name == "config.json" ||
         name == "generation_config.json" || name.ends_with(".index.json") || name.starts_with("adapter_");
}

// Returns the advice how to turn a file of another kind into data.
std::string other_kind_advice(const std::string& path) {
  const auto is = [&](std::initializer_list<const char*> suffixes) {
    return std::any_of(suffixes.begin(), suffixes.end(), [&](const char* s) { return path.ends_with(s); });
  };
  if (is({".pdf", ".docx", ".doc", ".epub", ".odt"}))
    return "make text of it first, for example with pdftotext or pandoc, as a .txt file";
  if (is({".zip", ".tar", ".tgz", ".7z", ".rar"})) return "unpack it and name the folder";
  if (is({".tsv", ".xls", ".xlsx"})) return "save the table as .csv";
  if (is({".pt", ".pth", ".ckpt", ".npy", ".npz"}))
    return "save the texts as .jsonl, or ids as .safetensors with input_ids [N, T]";
  if (is({".md", ".rst", ".tex", ".html", ".htm", ".xml", ".log", ".py", ".c", ".cpp", ".h", ".js", ".java"}))
    return "plain text is taken as .txt: copy or link it under such a name";
  return "if it is plain text, give it the suffix .txt; records of JSON, .jsonl";
}

// Throws a UserError if exactly one of the two files of a prefix exists. path: the prefix, or the existing file.
void refuse_half_prefix(const std::string& path) {
  const std::string prefix = path.ends_with(".bin") || path.ends_with(".idx") ? path.substr(0, path.size() - 4) : path;
  std::error_code ec;
  const bool bin = fs::is_regular_file(prefix + ".bin", ec), idx = fs::is_regular_file(prefix + ".idx", ec);
  if (bin == idx) return;
  throw UserError(
      fmt::format("{} is missing", prefix + (bin ? ".idx" : ".bin")), path,
      "token files are two: .bin holds the ids, .idx says where each text begins",
      fmt::format("copy it beside {}, or make both again with ravine preprocess", prefix + (bin ? ".bin" : ".idx")));
}

// True if the word names existing data.
bool is_data(const std::string& word) {
  std::error_code ec;
  return fs::exists(word, ec) || is_instruction_prefix(word) || is_indexed_prefix(word);
}

}  // namespace

void refuse_unfinished_prefix(const std::string& path) {
  std::error_code ec;
  for (size_t end = path.size(); end != std::string::npos && end > 0; end = path.rfind('_', end - 1)) {
    const std::string prefix = path.substr(0, end), work = prefix + ".preprocess";
    if (path.find('/', end) != std::string::npos) return;
    if (prefix.ends_with('/')) continue;
    const auto mark = read_mark(work);  // exists before anything is saved
    if ((mark && mark->kind == kPreprocessFolder) || fs::is_regular_file(work + "/state.json", ec))
      throw UserError("token files that are not finished", path,
                      fmt::format("ravine preprocess works on them in {}, or was stopped there", work),
                      "wait for it; if it was stopped, the same ravine preprocess command resumes it");
  }
}

SourceKind source_kind(const std::string& path) {
  const std::string plain = without_compression(path);
  if (is_instruction_prefix(path)) return SourceKind::instructions;
  for (const Suffix& s : kSuffixes)
    if (plain.ends_with(s.text)) return s.kind;
  if (path.ends_with(".safetensors")) return SourceKind::fixed;
  if (is_indexed_prefix(path)) return SourceKind::indexed;
  if (is_mindrecord_file(path)) return SourceKind::mindrecord;
  refuse_half_prefix(path);
  throw UserError(
      "unknown kind of data", path,
      "the suffix must be .txt, .jsonl, .json, .csv, .parquet (also .gz, .zst, .xz) or .safetensors, or it names .bin and .idx files",
      other_kind_advice(plain));
}

std::vector<std::string> source_files(const std::string& path) {
  std::error_code ec;
  std::vector<std::string> files;
  if (fs::is_directory(path, ec)) {
    if (const auto mark = read_mark(path); mark && (mark->kind == kRunFolder || mark->kind == kModelFolder))
      throw UserError(mark->kind == kRunFolder ? "a run, not data" : "a model, not data", path,
                      "data are texts, records or token files",
                      mark->kind == kRunFolder ? "name what it was trained on, as its config.yaml says under data.train"
                                               : "name the data; the model is model.path");
    for (auto it = fs::recursive_directory_iterator(path, ec); !ec && it != fs::recursive_directory_iterator();
         it.increment(ec))
      if (it->is_regular_file(ec) && is_record_file(it->path())) files.push_back(it->path().string());
    if (ec) throw UserError("cannot read folder", path, ec.message(), "check its permissions");
    if (files.empty())
      if (const std::vector<std::string> records = mindrecord_files_in(path); !records.empty()) return records;
    if (const std::vector<std::string> prefixes = indexed_prefixes_in(path); files.empty() && !prefixes.empty())
      throw UserError("no texts in folder", path, "token files are named one by one, by what stands before .bin and .idx",
                      fmt::format("name {}", fmt::join(prefixes, ", ")));
    if (files.empty())
      throw UserError("no data in folder", path,
                      "it must hold .txt, .jsonl, .json, .csv or .parquet files (also .gz, .zst, .xz)",
                      "name another folder or the files themselves");
    if (has_tokenizer(path) &&
        std::all_of(files.begin(), files.end(), [](const std::string& file) { return is_of_tokenizer(file); }))
      throw UserError("the folder of a tokenizer, not of data", path, "data are texts, records or token files",
                      "name the folder of the data; a tokenizer is model.tokenizer");
    std::sort(files.begin(), files.end());
    return files;
  }
  if (std::string prefix; is_instruction_prefix(path, &prefix)) return {instruction_source(prefix)};
  if (std::string prefix; is_indexed_prefix(path, &prefix)) return {prefix};
  if (fs::exists(path, ec)) return {path};
  if (path.find_first_of("*?[") != std::string::npos) {
    glob_t found{};
    if (glob(path.c_str(), 0, nullptr, &found) == 0)
      for (size_t i = 0; i < found.gl_pathc; ++i)
        if (!fs::is_directory(found.gl_pathv[i], ec)) files.emplace_back(found.gl_pathv[i]);
    globfree(&found);
    // A pattern matches all files of a prefix; the prefix is listed once.
    std::set<std::string> seen;
    std::vector<std::string> found_files;
    found_files.swap(files);
    for (std::string& file : found_files) {
      if (std::string prefix; file.ends_with(".bin") || file.ends_with(".idx")) {
        if (is_instruction_prefix(file, &prefix))
          file = instruction_source(prefix);
        else if (is_indexed_prefix(file, &prefix))
          file = prefix;
      }
      if (seen.insert(file).second) files.push_back(std::move(file));
    }
    if (!files.empty()) return files;
    throw UserError("no data", path, "no file has a name of this pattern",
                    "check the path, and that the shell was given the pattern in quotes");
  }
  const char* rule = "it must be a file, a folder or a pattern that names files";
  if (path.find(',') != std::string::npos)
    throw UserError("no such data", path, rule,
                    fmt::format("several are a list: data.train=[{}], or --input {}", path, fmt::join(split(path, ','), " ")));
  refuse_half_prefix(path);
  refuse_unfinished_prefix(path);
  const std::vector<std::string> words = split(path, ' ');
  if (const std::string list = likely_sources(words); !list.empty() && std::any_of(words.begin(), words.end(), is_data))
    throw UserError("no such data", path, rule, fmt::format("several are a list with commas: data.train={}", shell_word(list)));
  if (const std::string prefix = near_indexed_prefix(path); !prefix.empty())
    throw UserError("no such data", path, "token files are named by all that stands before .bin and .idx",
                    fmt::format("did you mean '{}'?", prefix));
  throw UserError("no such data", path, rule, missing_path_advice(path, Hub::datasets));
}

}  // namespace ravine

#include "text/tokenizers/open_tokenizer.h"

#include <algorithm>
#include <filesystem>
#include <mutex>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/missing_path.h"
#include "files/compressed.h"
#include "files/file_set.h"
#include "files/tokenizer_files.h"
#include "text/tokenizer_set.h"
#include "text/tokenizers/json_tokenizer.h"
#include "text/tokenizers/llama_settings.h"
#include "text/tokenizers/llama_tokenizer.h"
#include "text/tokenizers/sentencepiece_tokenizer.h"
#include "text/tokenizers/settings_file.h"
#include "text/tokenizers/tokenizer_folder.h"

namespace ravine {

namespace fs = std::filesystem;

namespace {

// Throws a UserError if the named file begins like a text or a list.
void refuse_other_file(const std::string& path, bool json) {
  std::string begin(64, '\0');
  begin.resize(open_bytes(path)->read(std::as_writable_bytes(std::span(begin))));
  const size_t first = begin.find_first_not_of(" \t\r\n");
  const bool text = begin.size() >= 16 && std::all_of(begin.begin(), begin.end(), [](char c) {
                      return static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\r' || c == '\t';
                    });
  if (json ? first == std::string::npos || begin[first] == '{' : !text) return;
  throw UserError(
      json ? "not a tokenizer.json" : "text, not a tokenizer", path,
      json ? "a tokenizer.json is one object" : "a SentencePiece model is a binary file, other tokenizers are a tokenizer.json",
      "name the tokenizer.model, the tokenizer.json, or the folder that holds one");
}

// True if these settings select tokenizer.model. If a folder has both files, tokenizer.json is used otherwise, as in
// AutoTokenizer.
bool selects_sentencepiece(const std::string& dir) {
  std::string path;
  const Json config = read_settings(dir, "tokenizer_config.json", path);
  return is_llama_folder(dir) &&
         (config.value("use_fast", Json()) == false || config.value("backend", Json()) == "sentencepiece");
}

// Warns once if the other file of the folder gives other ids.
void compare_with_model(const Tokenizer& tokenizer, const std::string& dir) {
  static std::mutex mutex;
  static std::set<std::string> compared;
  {
    std::lock_guard lock(mutex);
    if (!compared.insert(dir).second) return;
  }
  std::unique_ptr<Tokenizer> other;
  const bool llama = is_llama_folder(dir);
  try {
    if (llama || is_nearly_llama_folder(dir)) other = open_llama_tokenizer(dir, true);
  } catch (const Error&) {  // the file that is not used may be of an unknown kind
  }
  for (const char* text :
       {"a  b", " a", "a", "Hello, world!", "def f(x):\n    return x\n", "3.14\t159", "你好", "é", "<s> a</s> b"})
    if (std::string_view(text).starts_with("<s>") && !llama) {
      continue;  // other classes have other special tokens; only tokenizer.json defines the tokens around a text
    } else if (other && tokenizer.encode(text, llama) != other->encode(text, llama)) {
      auto ids = [&](const Tokenizer& t) { return fmt::format("{}", fmt::join(t.encode(text, llama), " ")); };
      print_stderr(
          fmt::format("warning: {}: tokenizer.json and tokenizer.model disagree, {} is {} by the first and {} by the second; "
                      "tokenizer.json is used (as Transformers does; {} takes the other)",
                      dir, Json(text).dump(), ids(tokenizer), ids(*other),
                      llama ? "\"use_fast\": false in tokenizer_config.json" : "the name of the file tokenizer.model"));
      return;
    }
}

[[noreturn]] void refuse_folder(const std::string& path) {
  std::string fix = "name the file or folder of the tokenizer";
  for (const char* inside : {"run/model", "model", "tokenizer"})
    if (const std::string there = (fs::path(path) / inside).string(); has_tokenizer(there)) fix = "its tokenizer is " + there;
  throw UserError("no tokenizer in folder", path,
                  "it must hold tokenizer.model, tokenizer.json, vocab.json with merges.txt, or vocab.txt", fix);
}

}  // namespace

std::unique_ptr<Tokenizer> open_tokenizer(const std::string& path) {
  std::error_code ec;
  refuse_unfinished(tokenizer_journal(fs::is_directory(path, ec) ? path : folder_of(path)));
  if (fs::is_directory(path, ec)) {
    if (fs::directory_iterator(path, ec); ec)
      throw UserError("cannot read folder", path, ec.message(), "check its permissions");
    if (!has_tokenizer(path)) refuse_folder(path);
    bool model = !find_in_folder(path, "tokenizer.model").empty(), json = !find_in_folder(path, "tokenizer.json").empty();
    if (model && (!json || selects_sentencepiece(path))) return open_llama_tokenizer(path);
    auto tokenizer = open_tokenizer_folder(path);
    if (model) compare_with_model(*tokenizer, path);
    return tokenizer;
  }
  if (!fs::exists(path, ec))
    throw UserError("no such tokenizer", path, "it must be a tokenizer.model, a tokenizer.json or a folder that holds one",
                    missing_path_advice(path, Hub::models));
  std::string name = path;
  for (const char* suffix : {".xz", ".gz", ".zst"})
    if (name.ends_with(suffix)) name.erase(name.size() - std::string_view(suffix).size());
  if (fs::path(path).filename() == "config.json")
    throw UserError(
        "a model's config, not a tokenizer", path, "it must be a tokenizer.model, a tokenizer.json or a folder that holds one",
        has_tokenizer(folder_of(path)) ? "name its folder, " + folder_of(path) : "name the folder of the tokenizer");
  refuse_other_file(path, name.ends_with(".json"));
  if (name.ends_with(".json")) return open_tokenizer_json(path);
  return open_sentencepiece_tokenizer(path);
}

}  // namespace ravine

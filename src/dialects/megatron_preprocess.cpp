// Translates tools/preprocess_data.py.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "dialects/megatron.h"
#include "dialects/megatron_programs.h"

namespace ravine {

using enum KeyType;
namespace fs = std::filesystem;

DialectTable megatron_preprocess_table() {
  return {
      renamed("--input", texts, "--input"),
      renamed("--output-prefix", text, "--output-prefix"),
      used("--tokenizer-type", text, "--tokenizer", nullptr,
           {"PretrainedFromHF", "Llama2Tokenizer", "SentencePieceTokenizer", "GPTSentencePieceTokenizer", "GPT2BPETokenizer"}),
      renamed("--tokenizer-name-or-path", text, "--tokenizer"),
      renamed("--tokenizer-model", text, "--tokenizer"),
      used("--vocab-file", text, "--tokenizer"),
      used("--merge-file", text, "--tokenizer"),
      inert("--tokenizer-not-use-fast", on, "both kinds of tokenizer give the same ids, and here is one"),
      renamed("--handler-name", text, "--handler"),
      renamed("--json-keys", texts, "--json-keys"),
      renamed("--json-key", texts, "--json-keys"),
      renamed("--hf-datasets-params", text, "--load-dataset"),
      inert("--datasets", texts, "nobody reads it there either"),
      inert("--streaming", on, "records are always read one by one"),
      refused("--split-sentences", on, "documents are not cut into sentences"),
      refused("--keep-newlines", on, "documents are not cut into sentences"),
      used("--append-eod", on, "--append-eod"),
      renamed("--seq-length", whole, "--seq-length"),
      inert("--make-vocab-size-divisible-by", whole, "ids on disk are the tokenizer's"),
      inert("--pad-vocab-size-to", whole, "ids on disk are the tokenizer's"),
      used("--dataset-impl", text, "mmap alone: other kinds of files are not written", "mmap", {"lazy", "cached", "mmap"}),
      renamed("--workers", whole, "--workers", 1),
      inert("--log-interval", whole, "it says how often progress is told, which no file shows"),
      inert("--overwrite-cache", on, "records are read from their files each time"),
      refused("--prompt-type", text, "what stands around a question is the handler's own",
              "train on the records themselves: `ravine train data.train=[FILE] data.chat_template=NAME`"),
      refused("--map-keys", text, "fields of records have the names that the handler knows",
              "train on the records themselves, under the names of alpaca or sharegpt: `ravine train data.train=[FILE]`"),
      refused("--pack", on, "rows of instruction data are packed as they are trained on",
              "train on the records themselves: `ravine train data.train=[FILE] data.pack=true`"),
  };
}

Translation translate_preprocessing(const std::vector<PlacedWord>& words, const MegatronJob& job) {
  const DialectTable table = megatron_preprocess_table();
  Translation t = translate(table, read_flags(table, words, job.program), job.program);
  t.ranks = 1;
  t.command = {"preprocess"};
  const auto pass = [&](const char* flag, const std::string& value) { t.command.insert(t.command.end(), {flag, value}); };
  if (t.has("--hf-datasets-params")) {
    const auto own = job.written.find(t.text("--hf-datasets-params"));  // a file that the script writes
    pass("--load-dataset", own != job.written.end() ? own->second : t.text("--hf-datasets-params"));
    if (t.has("--input")) t.becomes("--input", KeyStatus::inert, "--hf-datasets-params says what is read");
  } else if (t.has("--input")) {
    t.command.push_back("--input");
    for (const Json& file : t.value("--input")) t.command.push_back(file.get<std::string>());
  } else {
    t.refuse("--input", "--input is not given", "it says what is read", "name files or a folder");
  }
  if (t.has("--input") && t.value("--input").size() == 1) t.shows("--input", t.value("--input")[0]);
  const char* key = t.has("--tokenizer-model")          ? "--tokenizer-model"
                    : t.has("--tokenizer-name-or-path") ? "--tokenizer-name-or-path"
                                                        : "--vocab-file";
  if (t.has(key))
    pass("--tokenizer", t.text(key));
  else
    t.refuse("--tokenizer-name-or-path", "--tokenizer-name-or-path is not given", "text becomes ids by a tokenizer",
             "name its folder");
  // A tokenizer is a folder, so merges and vocabulary must be in the same folder.
  if (t.has("--merge-file") && t.has("--vocab-file")) {
    const auto folder_of = [&](const char* flag) { return fs::path(t.text(flag)).lexically_normal().parent_path(); };
    if (folder_of("--merge-file") != folder_of("--vocab-file"))
      t.refuse("--merge-file", fmt::format("--merge-file {}", t.text("--merge-file")),
               "the merges lie in the folder of --vocab-file", "put both into one folder");
  } else if (t.has("--merge-file")) {
    t.becomes("--merge-file", KeyStatus::inert, "--vocab-file is not given");
  }
  if (t.has("--dataset-impl")) {
    if (t.text("--dataset-impl") == "mmap")
      t.becomes("--dataset-impl", KeyStatus::inert, "mmap is what is written");
    else
      t.refuse("--dataset-impl", "--dataset-impl " + t.text("--dataset-impl"),
               "files of tokens are of the kind mmap, which all programs of today read", "leave it out");
  }
  if (t.has("--output-prefix"))
    pass("--output-prefix", t.text("--output-prefix"));
  else
    t.refuse("--output-prefix", "--output-prefix is not given", "it begins the names of what is written", "name it");
  for (const char* keys : {"--json-keys", "--json-key"}) {
    if (!t.has(keys)) continue;
    t.command.push_back("--json-keys");
    for (const Json& k : t.value(keys)) t.command.push_back(k.get<std::string>());
    if (t.value(keys).size() == 1) t.shows(keys, t.value(keys)[0]);
  }
  if (!t.text("--handler-name").empty() && t.text("--handler-name") != "GeneralPretrainHandler")
    pass("--handler", t.text("--handler-name"));
  if (t.is_on("--append-eod")) t.command.push_back("--append-eod");
  if (t.has("--seq-length")) pass("--seq-length", std::to_string(t.whole("--seq-length")));
  if (t.has("--workers")) pass("--workers", std::to_string(t.whole("--workers")));
  return t;
}

std::vector<std::string> preprocess_words(const std::vector<std::string>& words) {
  const std::vector<std::string> foreign = {"--tokenizer-type",    "--tokenizer-name-or-path", "--tokenizer-model",
                                            "--vocab-file",        "--handler-name",           "--json-key",
                                            "--hf-datasets-params"};
  const auto is_foreign = [&](const std::string& w) {
    return std::find(foreign.begin(), foreign.end(), w.substr(0, w.find('='))) != foreign.end();
  };
  if (std::none_of(words.begin(), words.end(), is_foreign)) return words;
  const DialectTable table = megatron_preprocess_table();
  std::vector<PlacedWord> other;
  std::vector<std::string> own;
  for (size_t i = 0; i < words.size();) {  // sorts the flags, with their values, by program
    const std::string name = words[i].substr(0, words[i].find('='));
    const bool theirs = std::any_of(table.begin(), table.end(), [&](const DialectKey& r) { return r.key == name; });
    do {
      if (theirs)
        other.push_back({words[i], "command line"});
      else
        own.push_back(words[i]);
      ++i;
    } while (i < words.size() && !words[i].starts_with("--"));
  }
  // Ravine's --tokenizer replaces the flags of preprocess_data.py for the tokenizer.
  const auto flag_of = [](const std::string& w) { return w.substr(0, w.find('=')); };
  const auto mine = std::find_if(own.begin(), own.end(), [&](const std::string& w) { return flag_of(w) == "--tokenizer"; });
  if (mine != own.end()) {
    for (const PlacedWord& w : other)
      for (const char* theirs : {"--tokenizer-model", "--tokenizer-name-or-path", "--vocab-file"})
        if (flag_of(w.text) == theirs)
          throw UserError(fmt::format("the tokenizer is given twice, by --tokenizer and {}", theirs), "command line",
                          "text becomes ids by one tokenizer", "leave one of them out");
    const auto end = std::find_if(mine + 1, own.end(), [](const std::string& w) { return w.starts_with("--"); });
    other.push_back({"--tokenizer-name-or-path" + mine->substr(std::string("--tokenizer").size()), "command line"});
    for (auto w = mine + 1; w != end; ++w) other.push_back({*w, "command line"});
    own.erase(mine, end);
  }
  Translation t = translate_preprocessing(other, {.program = "preprocess_data.py"});
  refuse_all(t);
  std::vector<std::string> out(t.command.begin() + 1, t.command.end());
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

}  // namespace ravine

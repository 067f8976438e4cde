#include "data/tokenizers/trainer.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <filesystem>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "base/text.h"
#include "data/source.h"
#include "data/tokenizers/sentencepiece_json.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "files/file_set.h"
#include "files/same_path.h"
#include "files/tokenizer_files.h"

namespace ravine {

namespace {

// The lines of all documents. Long ones are cut at spaces: the library passes over lines beyond its limit.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  static constexpr size_t kLongest = 4000;

  explicit Lines(const TokenizerTraining& o) : options_(o) {
    for (const auto& path : o.input)
      for (auto& f : source_files(path)) files_.push_back(std::move(f));
    for (const auto& f : files_)
      if (source_kind(f) == SourceKind::fixed)
        throw UserError("not a text file", f, "a tokenizer learns from text", "give .txt or .jsonl files");
    advance();
  }
  bool done() const override { return done_; }
  void Next() override {
    try {
      advance();
    } catch (...) {  // the library does not expect exceptions here
      error = std::current_exception();
      done_ = true;
    }
  }
  const std::string& value() const override { return line_; }
  sentencepiece::util::Status status() const override { return {}; }

  std::exception_ptr error;
  TrainedTokenizer count;

 private:
  void advance() {
    for (;;) {
      if (at_ >= text_.size() && !next_document()) {
        done_ = true;
        return;
      }
      if (count.bytes >= options_.max_bytes) {
        count.cut_off = done_ = true;
        return;
      }
      size_t end = std::min(text_.find('\n', at_), text_.size());
      size_t stop = end;
      if (stop - at_ > kLongest) {
        stop = text_.rfind(' ', at_ + kLongest);
        if (stop == std::string::npos || stop <= at_) stop = at_ + kLongest;
        while (stop > at_ + 1 && (static_cast<unsigned char>(text_[stop]) & 0xc0) == 0x80) --stop;
      }
      line_.assign(text_, at_, stop - at_);
      at_ = stop == end ? end + 1 : stop;
      std::erase(line_, '\0');  // means nothing to a vocabulary, and ends strings in the library
      if (line_.empty()) continue;
      ++count.lines;
      count.bytes += static_cast<int64_t>(line_.size());
      return;
    }
  }

  bool next_document() {
    at_ = 0;
    while (true) {
      if (reader_ && reader_->next(text_)) return true;
      if (file_ == files_.size()) return false;
      reader_ = open_documents(files_[file_++], options_.text_key, "--text-key");
    }
  }

  const TokenizerTraining& options_;
  std::vector<std::string> files_;
  size_t file_ = 0, at_ = 0;
  std::unique_ptr<DocumentReader> reader_;
  std::string text_, line_;
  bool done_ = false;
};

void check(const TokenizerTraining& o) {
  auto wrong = [](const std::string& key, const std::string& rule) {
    throw UserError(fmt::format("wrong value of --{}", key), "tokenizer train", rule, fmt::format("write --{} so", key));
  };
  if (o.input.empty()) wrong("input", "name at least one text file");
  if (o.output.empty()) wrong("output", "name the folder to write");
  bool bytes = o.type == "byte-bpe";
  if (o.type != "bpe" && o.type != "unigram" && !bytes)
    wrong("type", fmt::format("bpe, unigram or byte-bpe, got '{}'", o.type));
  if (bytes && o.pattern != "gpt2" && o.pattern != "llama3" && o.pattern != "qwen2")
    wrong("pattern", fmt::format("gpt2, llama3 or qwen2, got '{}'", o.pattern));
  if (bytes && o.min_frequency < 1) wrong("min-frequency", fmt::format("at least 1, got {}", o.min_frequency));
  if (o.normalization != "identity" && o.normalization != "nmt_nfkc")
    wrong("normalization", fmt::format("identity or nmt_nfkc, got '{}'", o.normalization));
  if (!(o.character_coverage > 0 && o.character_coverage <= 1))
    wrong("character-coverage", fmt::format("0 < share <= 1, got {}", o.character_coverage));
  int64_t least =
      (bytes ? 1 : 4) + (o.byte_fallback || bytes ? 256 : 0) + static_cast<int64_t>(o.symbols.size() + o.special.size());
  if (o.vocabulary < least || o.vocabulary > 1 << 22)
    throw UserError(fmt::format("--vocab-size is {}", o.vocabulary), "tokenizer train",
                    fmt::format("bytes, special tokens and symbols are pieces too, so it is {} to {}", least, 1 << 22),
                    fmt::format("write --vocab-size {}", o.vocabulary < least ? std::max<int64_t>(least, 1000) : 1 << 22));
  for (const auto& [name, list] : {std::pair("symbols", &o.symbols), {"special-tokens", &o.special}})
    for (const auto& s : *list)
      if (s.empty() || s.find_first_of(std::string("\"\n\0", 3)) != std::string::npos ||
          find_invalid_utf8(s) != std::string::npos)
        wrong(name,
              fmt::format("a {} is UTF-8, not empty, without quotes and line ends", list == &o.special ? "token" : "symbol"));
  for (const auto& s : o.special)
    if (std::find(o.symbols.begin(), o.symbols.end(), s) != o.symbols.end() ||
        std::count(o.special.begin(), o.special.end(), s) > 1 || (!bytes && (s == "<unk>" || s == "<s>" || s == "</s>")))
      wrong("special-tokens", fmt::format("'{}' is a token already", s));
}

// A tokenizer goes with the models trained on it: another in its place makes them useless.
void refuse_tokenizer(const TokenizerTraining& o) {
  std::error_code ec;
  for (const std::string& path : o.input)
    for (const std::string& text : source_files(path))
      for (const char* name : kTokenizerFiles)
        if (const auto file = std::filesystem::path(o.output) / name; same_path(text, file.string()))
          throw UserError(
              "a text has the name of a file of the tokenizer", text,
              fmt::format("--output {} replaces or removes {} there, and what is read is never replaced", o.output, name),
              "choose another --output");
  for (const char* name : kTokenizerFiles)
    if (const auto path = std::filesystem::path(o.output) / name;
        !o.overwrite && std::filesystem::exists(std::filesystem::symlink_status(path, ec)))
      throw UserError("output exists", path.string(), "a tokenizer is there already, and nothing is overwritten unasked",
                      "choose another --output, or add --overwrite");
  refuse_folders(o.output, {std::begin(kTokenizerFiles), std::end(kTokenizerFiles)});
}

void write_folder(const TokenizerTraining& o, const std::string& model) {
  const SentencePieceModel parsed = parse_sentencepiece(model, o.output);
  std::vector<std::pair<std::string, std::string>> files;
  auto token = [](const char* content) {
    return Json{{"content", content}, {"lstrip", false}, {"normalized", false}, {"rstrip", false}, {"single_word", false}};
  };
  Json map{{"bos_token", token("<s>")}, {"eos_token", token("</s>")}, {"unk_token", token("<unk>")}};
  Json added = Json::object();
  const char* names[] = {"<unk>", "<s>", "</s>"};
  for (int id = 0; id < 3; ++id) {
    added[std::to_string(id)] = token(names[id]);
    added[std::to_string(id)]["special"] = true;
  }
  for (const std::string& text : o.special) {
    const std::string id = std::to_string(parsed.processor->PieceToId(text));
    added[id] = token(text.c_str());
    added[id]["special"] = true;
    map["additional_special_tokens"].push_back(token(text.c_str()));
  }
  Json config{{"add_bos_token", true},
              {"add_eos_token", false},
              {"add_prefix_space", o.add_dummy_prefix},
              {"added_tokens_decoder", added},
              {"bos_token", "<s>"},
              {"clean_up_tokenization_spaces", false},
              {"eos_token", "</s>"},
              {"legacy", false},
              {"model_max_length", 1000000000},
              {"sp_model_kwargs", Json::object()},
              {"tokenizer_class", "LlamaTokenizer"},
              {"unk_token", "<unk>"}};
  if (!o.special.empty()) config["additional_special_tokens"] = o.special;
  const auto json = sentencepiece_json(parsed, true);
  if (json) config["tokenizer_class"] = "PreTrainedTokenizerFast";  // whoever reads it takes tokenizer.json as it is
  files.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
  files.emplace_back("special_tokens_map.json", map.dump(2) + "\n");
  if (json) files.emplace_back("tokenizer.json", *json);
  files.emplace_back("tokenizer.model", model);
  write_tokenizer(o, files);
}

}  // namespace

FileSetKind tokenizer_set() { return {"tokenizer", {std::begin(kTokenizerFiles), std::end(kTokenizerFiles)}}; }

std::string tokenizer_journal(const std::string& folder) { return folder + "/tokenizer.replacing"; }

void write_tokenizer(const TokenizerTraining& o, const std::vector<std::pair<std::string, std::string>>& files) {
  create_folders(o.output);
  FileSet set(tokenizer_journal(o.output), tokenizer_set());
  std::vector<std::string> names;
  for (const auto& [name, text] : files) {
    write_file_atomic(set.folder() + "/" + name, text);
    names.push_back(name);
  }
  set.commit(names, o.overwrite);
}

TrainedTokenizer train_tokenizer(const TokenizerTraining& o) {
  check(o);
  finish_file_set(tokenizer_journal(o.output), tokenizer_set());
  refuse_tokenizer(o);
  if (o.type == "byte-bpe") return train_byte_bpe(o);
  Lines lines(o);
  if (lines.done()) throw UserError("no text in the data", o.input[0], "a tokenizer learns from text", "check the files");
  auto flag = [](bool on) { return std::string(on ? "true" : "false"); };
  std::unordered_map<std::string, std::string> args{{"model_type", o.type},
                                                    {"vocab_size", std::to_string(o.vocabulary)},
                                                    {"hard_vocab_limit", "false"},
                                                    {"character_coverage", fmt::format("{}", o.character_coverage)},
                                                    {"normalization_rule_name", o.normalization},
                                                    {"remove_extra_whitespaces", "false"},
                                                    {"allow_whitespace_only_pieces", "true"},
                                                    {"byte_fallback", flag(o.byte_fallback)},
                                                    {"split_digits", flag(o.split_digits)},
                                                    {"add_dummy_prefix", flag(o.add_dummy_prefix)},
                                                    {"unk_id", "0"},
                                                    {"bos_id", "1"},
                                                    {"eos_id", "2"},
                                                    {"pad_id", "-1"},
                                                    {"num_threads", std::to_string(o.threads > 0 ? o.threads : thread_count())},
                                                    {"max_sentence_length", "8192"},
                                                    {"minloglevel", "2"}};
  for (const auto& [key, texts] : {std::pair("user_defined_symbols", &o.symbols), {"control_symbols", &o.special}}) {
    std::string list;
    for (const auto& s : *texts) list += (list.empty() ? "\"" : ",\"") + s + "\"";
    if (!list.empty()) args[key] = list;
  }
  std::string model;
  auto status = sentencepiece::SentencePieceTrainer::Train(args, &lines, &model);
  if (lines.error) std::rethrow_exception(lines.error);
  if (status.ToString().find("required_chars") != std::string::npos)
    throw UserError("vocabulary too small", fmt::format("vocab-size, {}", o.vocabulary),
                    fmt::format("every character of {} needs a piece, beside bytes and special ones", o.input[0]),
                    "raise --vocab-size, or lower --character-coverage so that rare characters become bytes");
  if (!status.ok())
    throw UserError("the tokenizer cannot be trained", o.input[0], status.message(), "change the vocabulary or give more text");
  TrainedTokenizer result = lines.count;
  result.vocabulary = static_cast<int64_t>(parse_sentencepiece(model, o.output).pieces.size());
  write_folder(o, model);
  return result;
}

}  // namespace ravine

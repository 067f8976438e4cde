#include "text/training/sentencepiece_trainer.h"

#include <sentencepiece_trainer.h>

#include <algorithm>
#include <unordered_map>

#include "base/error.h"
#include "base/json.h"
#include "base/parallel.h"
#include "text/tokenizer_set.h"
#include "text/tokenizers/sentencepiece_json.h"
#include "text/tokenizers/sentencepiece_model.h"

namespace ravine {

namespace {

// The lines of all documents. Long lines are cut at spaces, because the library skips lines above its limit.
class Lines final : public sentencepiece::SentenceIterator {
 public:
  static constexpr size_t kLongest = 4000;

  Lines(TrainingText& text, int64_t max_bytes) : documents_(text), max_bytes_(max_bytes) { advance(); }
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
      if (count.bytes >= max_bytes_) {
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
      std::erase(line_, '\0');  // has no meaning in a vocabulary, and ends strings in the library
      if (line_.empty()) continue;
      ++count.lines;
      count.bytes += static_cast<int64_t>(line_.size());
      return;
    }
  }

  bool next_document() {
    at_ = 0;
    return documents_.next(text_);
  }

  TrainingText& documents_;
  int64_t max_bytes_;
  size_t at_ = 0;
  std::string text_, line_;
  bool done_ = false;
};

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
  if (json) config["tokenizer_class"] = "PreTrainedTokenizerFast";  // every reader uses tokenizer.json unchanged
  files.emplace_back("tokenizer_config.json", config.dump(2) + "\n");
  files.emplace_back("special_tokens_map.json", map.dump(2) + "\n");
  if (json) files.emplace_back("tokenizer.json", *json);
  files.emplace_back("tokenizer.model", model);
  write_tokenizer(o.output, files, o.overwrite);
}

// Returns " to 412 or more" for SentencePiece's "Vocabulary size is smaller than required_chars. 300 vs 412. ..".
std::string needed_pieces(const std::string& status) {
  const size_t at = status.find(" vs ");
  if (at == std::string::npos) return "";
  const std::string number = status.substr(at + 4, status.find_first_not_of("0123456789", at + 4) - at - 4);
  return number.empty() ? "" : fmt::format(" to {} or more", number);
}

}  // namespace

TrainedTokenizer train_sentencepiece(const TokenizerTraining& o, TrainingText& text) {
  Lines lines(text, o.max_bytes);
  if (lines.done()) throw UserError("no text in the data", text.name(), "a tokenizer learns from text", "check the files");
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
                    fmt::format("every character of {} needs a piece, beside bytes and special ones", text.name()),
                    fmt::format("raise --vocab-size{}, or lower --character-coverage so that rare characters become bytes",
                                needed_pieces(status.ToString())));
  if (!status.ok())
    throw UserError("the tokenizer cannot be trained", text.name(), status.message(),
                    "change the vocabulary or give more text");
  TrainedTokenizer result = lines.count;
  result.vocabulary = static_cast<int64_t>(parse_sentencepiece(model, o.output).pieces.size());
  write_folder(o, model);
  return result;
}

}  // namespace ravine

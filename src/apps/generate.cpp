// `ravine generate`: text (or ids) that goes on from prompts.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "apps/commands.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "data/tokenizer.h"
#include "infer/generation_config.h"
#include "infer/generator.h"
#include "train/step.h"
#include "train/stop.h"

namespace ravine {
namespace {

struct GenerateFlags {
  CommonFlags common;
  std::string model, prompt, prompts, prompt_ids;
  // Empty: not given.
  std::vector<int64_t> max_new_tokens, top_k, no_repeat_ngram_size, beams, num_return;
  std::vector<double> temperature, top_p, repetition_penalty, length_penalty;
  int64_t seed = 0, batch = 16;
  bool sample = false, early_stopping = false, json = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "Hugging Face folder", required() & same_as("model.path") & metavar("DIR"));
    v("prompt", prompt, "text to go on from");
    v("prompts", prompts, "many: FILE.txt with one per line, or FILE.jsonl with a text under \"prompt\" or data.text_key",
      metavar("FILE"));
    v("prompt-ids", prompt_ids, "many, as a JSON list of lists of ids", metavar("FILE.json"));
    v("max-new-tokens", max_new_tokens, "tokens to write at most (else as generation_config.json says, or 128)",
      at_least(1) & length(1) & metavar("N"));
    v("sample", sample, "draw tokens; without it, always the most likely one");
    v("temperature", temperature, "divides the logits before drawing", above(0) & length(1) & metavar("X"));
    v("top-k", top_k, "draw among the K most likely only; 0: all", at_least(0) & length(1) & metavar("K"));
    v("top-p", top_p, "draw among the most likely that together have probability P", between(0, 1) & length(1) & metavar("P"));
    v("repetition-penalty", repetition_penalty, "above 1: tokens that occurred become less likely",
      above(0) & length(1) & metavar("X"));
    v("no-repeat-ngram-size", no_repeat_ngram_size, "no run of N tokens occurs twice; 0: off",
      at_least(0) & length(1) & metavar("N"));
    v("seed", seed, "of the draws: the same seed gives the same text", at_least(0));
    v("json", json, "one JSON line per prompt");
    v("batch", batch, "prompts worked on at a time", at_least(1));
    v("beams", beams, "beam search (a later release)", at_least(1) & length(1) & metavar("N"));
    v("length-penalty", length_penalty, "of beams (a later release)", length(1) & metavar("X"));
    v("early-stopping", early_stopping, "of beams (a later release)");
    v("num-return", num_return, "of beams (a later release)", at_least(1) & length(1) & metavar("K"));
    common.each(v);
  }
};

struct Prompts {
  std::vector<std::vector<int32_t>> ids;
  std::string where;  // for errors
};

std::vector<std::string> read_lines(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw UserError("no such file", path, "it must exist and be readable", "correct the path");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (find_invalid_utf8(line) != std::string::npos)
      throw UserError("text is not UTF-8", fmt::format("{}:{}", path, lines.size() + 1), "prompts must be UTF-8",
                      "convert the file, for example with iconv -t UTF-8");
    lines.push_back(line);
  }
  return lines;
}

std::vector<std::string> read_texts(const std::string& path, const std::string& text_key) {
  std::vector<std::string> lines = read_lines(path);
  if (path.ends_with(".txt")) return lines;
  if (!path.ends_with(".jsonl"))
    throw UserError("file of another kind", path, "prompts come from .txt or .jsonl", "rename or convert it");
  std::vector<std::string> texts;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].find_first_not_of(" \t") == std::string::npos) continue;
    std::string where = fmt::format("{}:{}", path, i + 1);
    Json line = parse_json(lines[i], where);
    for (const std::string& key : {std::string("prompt"), text_key})
      if (line.is_object() && line.contains(key) && line.at(key).is_string()) {
        texts.push_back(line.at(key).get<std::string>());
        break;
      } else if (key == text_key) {
        throw UserError("no prompt", where,
                        fmt::format("a line must be an object with a text under \"prompt\" or \"{}\"", text_key),
                        "correct the line, or set data.text_key");
      }
  }
  return texts;
}

Prompts read_prompts(const GenerateFlags& flags, const Config& config, const Tokenizer* tokenizer) {
  Prompts p;
  if (!flags.prompt_ids.empty()) {
    p.where = flags.prompt_ids;
    Json all = read_json(p.where);
    const char* rule = "it must be a JSON list of lists of ids";
    if (!all.is_array()) throw UserError("not a list", p.where, rule, "for example [[1, 15, 7], [1, 20]]");
    for (const Json& one : all) {
      std::string where = fmt::format("{}, prompt {}", p.where, p.ids.size() + 1);
      if (!one.is_array()) throw UserError("not a list", where, rule, "for example [[1, 15, 7], [1, 20]]");
      std::vector<int32_t>& ids = p.ids.emplace_back();
      for (const Json& id : one) {
        if (!id.is_number_integer() || std::abs(id.get<double>()) > 2e9)
          throw UserError("'" + id.dump().substr(0, 40) + "' is no id", where, rule, "correct the file");
        ids.push_back(id.get<int32_t>());
      }
    }
  } else {
    p.where = flags.prompts.empty() ? "--prompt" : flags.prompts;
    if (!tokenizer)
      throw UserError("no tokenizer", config.model.path, "text needs the tokenizer.model of the model",
                      "put it there, set model.tokenizer, or give ids with --prompt-ids");
    if (find_invalid_utf8(flags.prompt) != std::string::npos)
      throw UserError("text is not UTF-8", p.where, "prompts must be UTF-8", "convert it");
    std::vector<std::string> texts =
        flags.prompts.empty() ? std::vector{flags.prompt} : read_texts(flags.prompts, config.data.text_key);
    for (const std::string& t : texts) p.ids.push_back(tokenizer->encode(t, true));
  }
  if (p.ids.empty()) throw UserError("no prompts", p.where, "at least one is needed", "add one");
  return p;
}

// The tokenizer that the options name or that lies with the model; none if there is none.
std::unique_ptr<Tokenizer> find_tokenizer(const ModelOptions& model) {
  if (!model.tokenizer.empty()) return open_tokenizer(model.tokenizer);
  if (!std::filesystem::exists(std::filesystem::path(model.path) / "tokenizer.model")) return nullptr;
  return open_tokenizer(model.path);
}

int64_t longest(const Prompts& prompts) {
  size_t n = 0;
  for (const auto& ids : prompts.ids) n = std::max(n, ids.size());
  return static_cast<int64_t>(n);
}

GenerateOptions read_options(const GenerateFlags& flags, const ModelFacts& facts, const GenerationDefaults& defaults,
                             const Prompts& prompts) {
  GenerateOptions o;
  o.processing = defaults.processing;
  auto set = [](auto& field, const auto& given) {
    if (!given.empty()) field = given[0];
  };
  set(o.processing.repetition_penalty, flags.repetition_penalty);
  set(o.processing.no_repeat_ngram, flags.no_repeat_ngram_size);
  set(o.processing.temperature, flags.temperature);
  set(o.processing.top_k, flags.top_k);
  set(o.processing.top_p, flags.top_p);
  o.end_ids = defaults.end_ids;
  o.sample = flags.sample;
  o.seed = static_cast<uint64_t>(flags.seed);
  o.batch = flags.batch;
  if (!flags.max_new_tokens.empty()) {
    o.max_new_tokens = flags.max_new_tokens[0];
    return o;
  }
  // Without a word from the user, the end of the positions is an end like any other.
  if (facts.max_positions > 0) o.max_length = facts.max_positions;
  if (defaults.max_new_tokens) {
    o.max_new_tokens = *defaults.max_new_tokens;
  } else if (defaults.max_length && *defaults.max_length > longest(prompts)) {
    o.max_new_tokens = *defaults.max_length;
    o.max_length = std::min(*defaults.max_length, o.max_length > 0 ? o.max_length : *defaults.max_length);
  }
  return o;
}

// What goes to stdout: texts or JSON lines, in the order of the prompts, each as soon as it may.
class Output {
 public:
  Output(const Prompts& prompts, const Tokenizer* tokenizer, bool json)
      : prompts_(prompts), tokenizer_(tokenizer), json_(json), of_(prompts.ids.size()) {}

  void token(size_t prompt, int32_t id) {
    One& one = of_[prompt];
    if (tokenizer_)
      feed(one, prompt, id);
    else if (!json_)
      one.text += fmt::format("{} ", id);
    if (!json_ && prompt == front_) write(one);
  }

  void finished(size_t prompt, const Generated& result) {
    One& one = of_[prompt];
    if (one.decoder) one.text += one.decoder->finish();
    if (json_)
      one.text = Json{{"prompt_ids", prompts_.ids[prompt]},
                      {"ids", result.ids},
                      {"text", one.text},
                      {"finish", name(result.finish)},
                      {"logprob", result.logprob}}
                     .dump();
    one.text += "\n";
    one.decoder.reset();
    one.done = true;
    for (; front_ < of_.size() && of_[front_].done; ++front_) write(of_[front_]);
    if (!json_ && front_ < of_.size()) write(of_[front_]);
  }

  // After a stop: what was done behind prompts that never began.
  void rest() {
    for (; front_ < of_.size(); ++front_) write(of_[front_]);
  }

 private:
  struct One {
    std::unique_ptr<StreamDecoder> decoder;
    std::string text;  // not yet written
    bool begun = false, done = false;
  };
  // The text is what follows the prompt's, so the decoder hears the prompt first. Ids that only the model has make no text.
  void feed(One& one, size_t prompt, int32_t id) {
    if (!one.decoder) {
      one.decoder = std::make_unique<StreamDecoder>(*tokenizer_, true);
      for (int32_t before : prompts_.ids[prompt])
        if (before < tokenizer_->size()) one.decoder->next(before);
    }
    if (id < tokenizer_->size()) one.text += one.decoder->next(id);
  }
  void write(One& one) {
    if (one.text.empty()) return;
    if (!json_ && !std::exchange(one.begun, true) && std::exchange(any_, true)) std::fputs("\n", stdout);
    std::fwrite(one.text.data(), 1, one.text.size(), stdout);
    std::fflush(stdout);
    one.text.clear();
  }

  const Prompts& prompts_;
  const Tokenizer* tokenizer_;
  bool json_, any_ = false;
  std::vector<One> of_;
  size_t front_ = 0;  // the first prompt whose result is not out yet
};

int run_generate(GenerateFlags& flags, Config& config) {
  if (!flags.beams.empty() || !flags.length_penalty.empty() || flags.early_stopping || !flags.num_return.empty())
    throw UserError("--beams, --length-penalty, --early-stopping, --num-return", "command line",
                    "beam search comes in a later release", "leave them out");
  if (!flags.prompt.empty() + !flags.prompts.empty() + !flags.prompt_ids.empty() != 1)
    throw UserError("no prompt, or several kinds", "command line", "exactly one of --prompt, --prompts and --prompt-ids",
                    "for example --prompt \"Once upon a time\"");
  Log log;
  std::unique_ptr<Tokenizer> tokenizer = find_tokenizer(config.model);
  Prompts prompts = read_prompts(flags, config, tokenizer.get());
  Session session = open_session(config.model.path, compute_type(config.precision, flags.common.backend), flags.common.backend);
  GenerationDefaults defaults = read_generation_config(config.model.path, session.model->facts());
  for (const std::string& field : defaults.not_offered)
    log.warn("'{}' of generation_config.json is not offered and has no effect", field);
  GenerateOptions options = read_options(flags, session.model->facts(), defaults, prompts);
  Recipe recipe = make_recipe(config.precision, session.kernels);
  options.recipe = &recipe;

  StopSignals signals;
  Output output(prompts, tokenizer.get(), flags.json);
  bool stopped = false;
  GenerateEvents events{[&](size_t prompt, int32_t id) { return output.token(prompt, id), true; },
                        [&](size_t prompt, const Generated& result) { output.finished(prompt, result); },
                        [&] { return stopped = StopSignals::requested(); }};
  generate(session, prompts.ids, options, events, prompts.where);
  if (!stopped) return 0;
  output.rest();
  throw Stopped("stopped on request");
}

}  // namespace

Command generate_command() {
  return command<GenerateFlags>(
      {.name = "generate",
       .summary = "go on from prompts: text, or ids",
       .example = "ravine generate --model my-llama --prompt \"Once upon a time\" --sample --temperature 0.8",
       .sections = {"model", "data", "precision"}},
      "Run", run_generate);
}

}  // namespace ravine

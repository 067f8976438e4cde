#include "apps/sampling_flags.h"

#include <algorithm>
#include <charconv>

#include <fmt/ranges.h>

#include "base/text.h"
#include "model/vocabulary.h"

namespace ravine {
namespace {

int32_t id_of(const std::string& text, const ModelFacts& facts) {
  int32_t id = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id);
  if (error != std::errc() || end != text.data() + text.size() || id < 0 || id >= facts.vocabulary)
    throw UserError(fmt::format("'{}' is no token", escaped(text.substr(0, 40))), "--logit-bias",
                    fmt::format("ids must be 0 or more, and below vocab_size = {}", facts.vocabulary),
                    "for example --logit-bias '{15: -100}'; `ravine tokenizer encode` says the ids of a text");
  return id;
}

}  // namespace

GenerateOptions sampling_options(const SamplingFlags& flags, const ModelFacts& facts, const GenerationDefaults& defaults,
                                 int64_t longest) {
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
  set(o.processing.min_p, flags.min_p);
  set(o.processing.typical_p, flags.typical_p);
  o.processing.frequency_penalty = flags.frequency_penalty;
  o.processing.presence_penalty = flags.presence_penalty;
  for (const auto& [id, bias] : flags.logit_bias) o.processing.bias.push_back({id_of(id, facts), bias});
  o.end_ids = defaults.end_ids;
  for (const int64_t id : flags.stop_ids) {
    if (id >= facts.vocabulary)
      throw UserError(fmt::format("token {}", id), "--stop-ids",
                      fmt::format("ids must be below vocab_size = {}", facts.vocabulary), more_rows_advice(id));
    o.end_ids.push_back(static_cast<int32_t>(id));
  }
  o.sample = flags.sample && o.processing.temperature > 0;
  o.seed = static_cast<uint64_t>(flags.seed);
  if (!flags.max_new_tokens.empty()) {
    o.max_new_tokens = flags.max_new_tokens[0];
    return o;
  }
  // Without a limit from the user, the end of the positions is a normal end of the answer.
  if (facts.max_positions > 0) o.max_length = facts.max_positions;
  if (defaults.max_new_tokens) {
    o.max_new_tokens = *defaults.max_new_tokens;
  } else if (defaults.max_length && *defaults.max_length > longest) {
    o.max_new_tokens = *defaults.max_length;
    o.max_length = std::min(*defaults.max_length, o.max_length > 0 ? o.max_length : *defaults.max_length);
  }
  return o;
}

void add_stop_tokens(const SamplingFlags& flags, const Tokenizer* tokenizer, GenerateOptions& options) {
  if (flags.stop_tokens.empty()) return;
  if (!tokenizer)
    throw UserError("stop tokens without a tokenizer", "--stop-tokens", "their ids come from its vocabulary",
                    "put the tokenizer into the model's folder, or give --stop-ids");
  for (const std::string& token : flags.stop_tokens) {
    const std::vector<int32_t> ids = tokenizer->encode(token, false);
    int32_t found = ids.size() == 1 && tokenizer->id_to_piece(ids[0]) == token ? ids[0] : -1;
    for (int32_t id = 0; found < 0 && id < tokenizer->size(); ++id)
      if (tokenizer->id_to_piece(id) == token) found = id;
    if (found < 0)
      throw UserError(fmt::format("no token '{}'", escaped(token.substr(0, 80))), "--stop-tokens",
                      "a token is written as the vocabulary spells it",
                      "look it up by `ravine tokenizer encode`, or give --stop");
    options.end_ids.push_back(found);
  }
}

std::vector<std::string> stop_texts(const SamplingFlags& flags, const GenerationDefaults& defaults) {
  for (const std::string& text : flags.stop)
    if (text.empty() || find_invalid_utf8(text) != std::string::npos)
      throw UserError("a stop text is empty or not UTF-8", "--stop", "an answer ends before such a text", "correct it");
  return flags.stop.empty() ? defaults.stop_texts : flags.stop;
}

std::string given_of(std::initializer_list<std::pair<const char*, bool>> flags) {
  std::vector<std::string> given;
  for (const auto& [name, is] : flags)
    if (is) given.emplace_back(name);
  return fmt::format("{}", fmt::join(given, " and "));
}

std::string given_for_draws(const SamplingFlags& f) {
  return given_of({{"--temperature", !f.temperature.empty()},
                   {"--top-k", !f.top_k.empty()},
                   {"--top-p", !f.top_p.empty()},
                   {"--min-p", !f.min_p.empty()},
                   {"--typical-p", !f.typical_p.empty()}});
}

}  // namespace ravine

#include "runs/run_data.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.h"
#include "base/counted.h"
#include "files/atomic.h"
#include "infer/generation_config.h"
#include "runs/open.h"
#include "runs/vocabulary.h"
#include "step/layout.h"

namespace ravine {
namespace {

// Sets the end token of the data, which also ends generation. If the model names other end tokens, adds a note for the
// log; train/export.h writes all of them.
void note_end(const Config& config, const ModelFacts& facts, const GenerationDefaults& generation, RunData& data) {
  if (config.data.append_eos && data.tokenizer) data.document_end = data.tokenizer->special().eos;
  const std::optional<int32_t> taught = data.end_token ? data.end_token : data.document_end;
  if (!taught) return;
  std::vector<int64_t> named(facts.eos);
  std::string where = config.model.path.empty() ? model_label(config.model) : config.model.path + "/config.json";
  if (!config.model.path.empty()) {
    named.assign(generation.end_ids.begin(), generation.end_ids.end());
    if (generation.names_end) where = config.model.path + "/generation_config.json";
  }
  std::erase_if(named, [](int64_t id) { return id < 0; });
  data.new_end = std::find(named.begin(), named.end(), *taught) == named.end();
  if (data.new_end && !named.empty())
    data.notes.push_back(fmt::format(
        "{} end with {} (id {}), where {} names {}: generation_config.json of the exported folder names {} before {}",
        data.end_token ? "answers" : "documents", data.tokenizer ? data.tokenizer->id_to_piece(*taught) : "a token", *taught,
        where, fmt::join(named, ", "), *taught, named.size() == 1 ? "it" : "them"));
}

}  // namespace

RunData open_run_data(const Config& config, const ModelFacts& facts, const Ranks& ranks, RunFolder& folder, Log& log) {
  GenerationDefaults generation;  // `generate` must accept what the export copies from it
  if (!config.model.path.empty()) generation = read_generation_config(config.model.path, facts);
  if (ranks.size() > 1 && !ranks.first()) ranks.all().barrier();
  double last = seconds_now();
  Config counted_ranks = config;
  counted_ranks.parallel.data = ranks.mesh().data;
  Sources sources = open_sources(counted_ranks, facts, [&](const TokenizeProgress& p) {
    if (seconds_now() - last < 5) return;
    last = seconds_now();
    log.line("tokens   {} of {} read, {} of text, {} tokens", p.files_done, counted(p.files, "file"),
             human_bytes(static_cast<double>(p.text_bytes)), human_count(static_cast<double>(p.tokens)));
  });
  RunData data{.tokenizer = std::move(sources.tokenizer),
               .train = std::move(sources.data.train),
               .valid = std::move(sources.data.valid),
               .tokens_in_use = std::move(sources.data.tokens),
               .notes = std::move(sources.data.notes),
               .warnings = std::move(sources.data.warnings),
               .end_token = sources.data.end_token,
               .chat_template = std::move(sources.data.chat_template),
               .fingerprint = {}};
  note_end(config, facts, generation, data);
  if (follows_validation(config.schedule) && !data.valid)
    throw UserError(fmt::format("schedule.type is {}, and there are no validation data", name(config.schedule.type)),
                    "schedule.type", "it sets the learning rate by the validation loss",
                    "set data.valid or data.valid_fraction, or another schedule.type");
  if (ranks.size() > 1 && ranks.first()) {
    if (!data.tokens_in_use.empty()) {
      folder.hold();
      keep_tokens(data, config, log);
    }
    ranks.all().barrier();
  }
  check_same(ranks.all(), "data",
             fmt::format("{} sequences of {} tokens, {} tokens in all", data.train->sample_count(), data.train->columns(),
                         data.train->token_count()));
  data.fingerprint = fingerprint_of(config.data, data.tokenizer.get(), sources.data.chat_fingerprint);
  check_same(ranks.all(), "data", data.fingerprint.text());
  return data;
}

void keep_tokens(RunData& data, const Config& config, Log& log) {
  if (data.tokens_in_use.empty()) return;
  try {
    save_tokens(run_path(config, "tokens"), data.tokens_in_use);
  } catch (const DiskFull& e) {
    log.warn("tokens are not kept for the next start: {}", e.what());
  }
}

}  // namespace ravine

// `ravine generate`: continues prompts with text or ids.
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "apps/adapters.h"
#include "apps/commands.h"
#include "apps/model_job.h"
#include "apps/named_prompt_models.h"
#include "apps/rank_job.h"
#include "apps/sampling_flags.h"
#include "apps/stop_signals.h"
#include "apps/turns.h"
#include "base/byte_order_mark.h"
#include "base/log.h"
#include "base/text.h"
#include "engine/make_recipe.h"
#include "files/checksum.h"
#include "infer/beams.h"
#include "infer/output.h"
#include "infer/prompts.h"
#include "io/model_folder.h"
#include "step/layout.h"

namespace ravine {
namespace {

struct GenerateFlags {
  CommonFlags common;
  SamplingFlags sampling;
  std::string model, use, prompt, prompts, prompt_ids, chat_template, system;
  std::vector<std::string> adapter;
  BeamRules beam_rules = BeamRules::transformers;
  std::vector<int64_t> beams, num_return;  // empty: not given
  std::vector<double> length_penalty;      //
  int64_t batch = 16;
  bool early_stopping = false, json = false, chat = false;
  template <class V>
  void each(V&& v) {
    v("model", model, "Hugging Face folder", required() & same_as("model.path") & metavar("DIR") & reads_folder());
    v("adapter", adapter, "LoRA adapter for this model: of PEFT or ModelLink, or OUTPUT/adapter of a run",
      named() & metavar("[NAME=]DIR") & reads_folder() &
          detail("Several adapters of one base need names, by which prompts select them."));
    v("use", use, "adapter for prompts that name no adapter", filled() & metavar("NAME"));
    v("prompt", prompt, "prompt; -: all of stdin; for several prompts see --prompts", filled() & at_most_bytes(kMostPrompt));
    v("prompts", prompts, "file with many prompts: FILE.txt, one per line, or FILE.jsonl",
      reads() & metavar("FILE") &
          detail(
              "A line of FILE.jsonl has its text under \"prompt\" or data.text_key, and may name its adapter under \"adapter\"."));
    v("prompt-ids", prompt_ids, "file of many prompts as token ids: a JSON list of lists", reads() & metavar("FILE.json"));
    v("chat", chat, "put prompts into the model's chat template; without a prompt: a conversation on stdin",
      detail("Each line of stdin is a turn. /quit and the end of stdin (Ctrl-D) end the conversation."));
    v("system", system, "with --chat: the system message", metavar("TEXT") & at_most_bytes(kMostPrompt));
    v("template", chat_template,
      "with --chat: chat template, a name such as chatml, or a file of Jinja; empty: the model's own",
      same_as("data.chat_template") & metavar("NAME-or-FILE") & reads() & or_words(template_words()));
    sampling.each(v);
    v.heading("");
    v("json", json, "print one JSON line per prompt");
    v("batch", batch, "prompts per batch", between(1, kMostMicroBatches));
    v.heading("Beam search");
    v("beams", beams, "number of beams; with --sample beams are sampled", between(1, 4096) & length(1) & metavar("N"));
    v("length-penalty", length_penalty, "divisor of beam scores: length^X; above 1 favours long answers",
      between(-100, 100) & length(1) & metavar("X"));
    v("early-stopping", early_stopping, "end the search as soon as N beams are finished");
    v("num-return", num_return, "number of best beams to return, under \"beams\" of the JSON line",
      between(1, 4096) & length(1) & metavar("K"));
    v("beam-rules", beam_rules, "rules of the beam search, by the program that has them");
    v.heading("");
    common.each(v);
  }
};

using Prompts = std::vector<std::vector<int32_t>>;

// True if stdin is a pipe with unread bytes.
bool has_waiting_text() {
  struct stat s {};
  int waiting = 0;
  return ::fstat(STDIN_FILENO, &s) == 0 && S_ISFIFO(s.st_mode) && ::ioctl(STDIN_FILENO, FIONREAD, &waiting) == 0 && waiting > 0;
}

// Checks the flags without opening any file.
void check_flags(const GenerateFlags& flags, int64_t beams, int64_t num_return, bool template_given) {
  if (const std::string of_beams = given_of({{"--length-penalty", !flags.length_penalty.empty()},
                                             {"--early-stopping", flags.early_stopping},
                                             {"--num-return", !flags.num_return.empty()}});
      flags.beams.empty() && !of_beams.empty())
    throw UserError(of_beams + " without --beams", "command line", "it applies to beam search only",
                    "add --beams 4, or leave it out");
  if (!flags.beams.empty() && !flags.sampling.stop.empty())
    throw UserError("--stop with --beams", "command line", "beams are compared by their tokens, and end with an id",
                    "leave one of them out, or give --stop-ids");
  if (num_return > beams)
    throw UserError(fmt::format("--num-return {}", num_return), "command line",
                    beams == 1 ? std::string("there is 1 beam") : fmt::format("there are {} beams", beams),
                    "ask for fewer, or use more beams");
  if (!flags.chat && (!flags.system.empty() || template_given))
    throw UserError(flags.system.empty() ? "--template without --chat" : "--system without --chat", "command line",
                    "it applies to conversations only", "add --chat, or leave it out");
  if (flags.chat && !flags.prompt_ids.empty())
    throw UserError("--chat with --prompt-ids", "command line", "a chat template applies to text, not to ids",
                    "give text with --prompt or --prompts, or leave out --chat");
  const int given = !flags.prompt.empty() + !flags.prompts.empty() + !flags.prompt_ids.empty();
  if (given > 1 || (given == 0 && !flags.chat))
    throw UserError(given > 1 ? "several kinds of prompts" : "no prompt", "command line",
                    "exactly one of --prompt, --prompts and --prompt-ids",
                    given == 0 && has_waiting_text()
                        ? "--prompt - takes the text that is piped in"
                        : "for example --prompt \"Once upon a time\"; --chat without one is a conversation");
  if (given == 1 && flags.prompt != "-" && has_waiting_text())
    print_stderr("note: stdin is not read: --prompt - takes the text that is piped in");
}

// Returns all of stdin, without the last newline. On several ranks, rank 0 reads and the others get its text.
std::string read_stdin(World* world) {
  std::string text;
  if (!world || world->rank() == 0) {
    if (::isatty(STDIN_FILENO) == 1) print_stderr("note: the prompt is what you type now, up to Ctrl-D on a line of its own");
    for (size_t had = 0; !std::feof(stdin) && !std::ferror(stdin) && static_cast<int64_t>(text.size()) <= kMostPrompt;
         text.resize(had)) {
      text.resize(had + (1 << 16));
      had += std::fread(text.data() + had, 1, text.size() - had, stdin);
    }
    refuse_unreadable_stdin();
    drop_byte_order_mark(text);
    if (text.ends_with('\n')) text.pop_back();
    if (text.ends_with('\r')) text.pop_back();
  }
  if (world && world->size() > 1) text = gather_texts(world->all(), text)[0];
  if (text.empty())
    throw UserError("the prompt is empty", "--prompt -", "the prompt is the text on stdin, which is empty",
                    "write it into the pipe: echo Once upon | ravine generate --prompt - ..");
  if (static_cast<int64_t>(text.size()) > kMostPrompt)
    throw UserError("the prompt is too long", "--prompt -", "a prompt has at most 1 GiB", "shorten it");
  return text;
}

// Returns results as text, to send them to other data ranks.
std::string to_text(const std::vector<Generated>& results) {
  Json all = Json::array();
  for (const Generated& g : results) {
    Json one{{"ids", g.ids},         {"finish", static_cast<int>(g.finish)},
             {"logprob", g.logprob}, {"begun", g.begun},
             {"error", g.error},     {"beams", Json::array()}};
    for (const Beam& b : g.beams) one["beams"].push_back({{"ids", b.ids}, {"score", b.score}, {"logprob", b.logprob}});
    all.push_back(std::move(one));
  }
  return all.dump();
}

std::vector<Generated> from_text(const std::string& text) {
  std::vector<Generated> results;
  for (const Json& one : Json::parse(text)) {
    Generated g{one.at("ids").get<std::vector<int32_t>>(),
                static_cast<Finish>(one.at("finish").get<int>()),
                one.at("logprob").get<double>(),
                {},
                one.at("begun").get<bool>(),
                one.at("error").get<std::string>()};
    for (const Json& b : one.at("beams"))
      g.beams.push_back({b.at("ids").get<std::vector<int32_t>>(), b.at("score").get<double>(), b.at("logprob").get<double>()});
    results.push_back(std::move(g));
  }
  return results;
}

bool divides_weights(const LoadedModel& s) { return s.trainable && s.spread.options.zero == 3; }
// True if each data rank works on some of the prompts. With sharded weights (ZeRO 3), all ranks work on all prompts.
bool shares_prompts(const LoadedModel& s) { return !divides_weights(s) && s.ranks().mesh().data > 1; }

// Returns the range of prompts of this data rank: contiguous, the first prompts on the first rank; empty if there are
// fewer prompts than ranks.
std::pair<size_t, size_t> share_of(size_t count, const LoadedModel& s) {
  if (!shares_prompts(s)) return {0, count};
  const auto rank = static_cast<size_t>(s.ranks().at().data), ranks = static_cast<size_t>(s.ranks().mesh().data);
  auto begin = [&](size_t r) { return (count * r + ranks - 1) / ranks; };
  return {begin(rank), begin(rank + 1)};
}

// The input of generation, besides the prompts.
struct Job {
  const GenerateFlags& flags;
  const LoadedModel& loaded;  // the base model
  const NamedPromptModels& named_models;
  BeamOptions beams;
  int64_t num_return = 1;
  Recipe recipe;
};

// The prompts, and the model that answers each of them.
struct PromptList {
  Prompts prompts;
  std::vector<size_t> named_models;
  std::vector<std::string> prompt_names;  // "asked.txt:3" if they are lines of a file
  size_t others = 0;                      // model for prompts that name none, and for a conversation
  std::vector<std::string> prompt_names_of(const std::vector<size_t>& numbers) const {
    std::vector<std::string> out;
    for (const size_t i : numbers)
      if (!prompt_names.empty()) out.push_back(prompt_names[i]);
    return out;
  }
  // Returns the prompts for this model.
  std::vector<size_t> of(size_t named) const {
    std::vector<size_t> out;
    for (size_t i = 0; i < named_models.size(); ++i)
      if (named_models[i] == named) out.push_back(i);
    return out;
  }
  Prompts take(const std::vector<size_t>& numbers) const {
    Prompts out;
    for (const size_t i : numbers) out.push_back(prompts[i]);
    return out;
  }
};

GenerateOptions options_for(const Job& job, const NamedPromptModel& named, const Prompts& prompts) {
  const ModelFacts& facts = named.loaded->model->facts();
  int64_t longest = 0;
  for (const auto& p : prompts) longest = std::max(longest, static_cast<int64_t>(p.size()));
  GenerateOptions options = sampling_options(job.flags.sampling, facts, named.defaults, longest);
  add_stop_tokens(job.flags.sampling, named.tokenizer.get(), options);
  options.batch = job.flags.batch;
  end_with_template(options, named);
  options.recipe = &job.recipe;
  return options;
}

// True if a stop was requested on any rank that runs the model with this one.
bool stopped_anywhere(const LoadedModel& loaded, bool mine) {
  for (const Axis axis : {Axis::tensor, Axis::pipeline}) mine = any(loaded.ranks().along(axis), mine);
  return shares_prompts(loaded) ? mine : any(loaded.ranks().along(Axis::data), mine);
}

// Returns the batch of a model: models of the same number may answer in one batch. Those that share batches have the
// base's.
size_t batch_of(const Job& job, size_t named) {
  const LoadedModel& s = *job.named_models[named].loaded;
  return s.base && !s.adapters ? named : 0;
}

BeamOptions beams_for(const Job& job, const NamedPromptModel& named) {
  BeamOptions beams = job.beams;
  beams.length_penalty = job.flags.length_penalty.empty() ? named.defaults.length_penalty : job.flags.length_penalty[0];
  beams.early_stopping = job.flags.early_stopping ? EarlyStop::yes : named.defaults.early_stopping;
  return beams;
}

// Answers the prompts on stdout and returns the results of this rank. `failures` gets the messages of errors, on rank
// 0.
std::vector<Generated> answer(const Job& job, const PromptList& prompt_list, const std::string& where,
                              std::vector<std::string>& failures) {
  const LoadedModel& loaded = job.loaded;
  const Ranks& ranks = loaded.ranks();
  const size_t count = prompt_list.prompts.size();
  std::vector<PromptModel> prompt_models;  // by named model
  std::vector<BeamOptions> beams;
  for (size_t v = 0; v < job.named_models.size(); ++v) {
    const std::vector<size_t> all = prompt_list.of(v);
    const Prompts prompts = prompt_list.take(all);
    GenerateOptions options = options_for(job, job.named_models[v], prompts);
    options.numbers.assign(all.begin(), all.end());
    options.prompt_names = prompt_list.prompt_names_of(all);
    check_prompts(prompts, job.named_models[v].loaded->model->facts(), options, where);
    prompt_models.push_back({job.named_models[v].loaded, std::move(options)});
    beams.push_back(beams_for(job, job.named_models[v]));
  }

  StopSignals signals;
  const auto [begin, end] = share_of(count, loaded);
  GenerateOutput output(prompt_list.prompts, nullptr, job.flags.json, ranks.first() ? stdout : nullptr,
                        !job.flags.num_return.empty());
  for (size_t i = 0; i < count; ++i) {
    const NamedPromptModel& named = job.named_models[prompt_list.named_models[i]];
    if (!named.tokenizer && !job.flags.sampling.stop.empty())
      throw UserError("stop texts without a tokenizer", "--stop",
                      "they are searched in the text of an answer, which needs a tokenizer",
                      "put the tokenizer into the model's folder, or give --stop-ids");
    output.answers(i, named.name, named.tokenizer.get(),
                   job.flags.beams.empty() ? stop_texts(job.flags.sampling, named.defaults) : std::vector<std::string>());
  }
  std::vector<Generated> results(end - begin);
  bool stopped = false;
  // One pass per batch, in the order of the prompts. Models that share batches are run together.
  for (size_t first = begin; first < end; ++first) {
    const size_t batch = batch_of(job, prompt_list.named_models[first]);
    std::vector<size_t> mine, of;  // prompts, and the model of each
    for (size_t i = begin; i < end; ++i)
      if (batch_of(job, prompt_list.named_models[i]) == batch) mine.push_back(i), of.push_back(prompt_list.named_models[i]);
    if (mine.front() != first) continue;
    if (first > begin && stopped_anywhere(loaded, stopped)) break;
    for (PromptModel& s : prompt_models) {
      s.options.numbers.assign(mine.begin(), mine.end());
      s.options.prompt_names = prompt_list.prompt_names_of(mine);
    }
    GenerateEvents events;
    events.failed = [](size_t, const std::string&) {};  // reported at the end
    events.stop = [&] { return stopped = stopped || signals.requested(); };
    events.token = [&](size_t prompt, int32_t id) { return output.token(mine[prompt], id); };
    if (ranks.first())  // its prompts are the first ones
      events.finished = [&](size_t prompt, const Generated& result) { output.finished(mine[prompt], result); };
    std::vector<Generated> found = job.flags.beams.empty() ? generate(prompt_models, of, prompt_list.take(mine), events, where)
                                                           : generate_beams(prompt_models, beams, of, prompt_list.take(mine),
                                                                            job.num_return, events, where);
    for (size_t i = 0; i < mine.size(); ++i) results[mine[i] - begin] = std::move(found[i]);
  }
  for (const Generated& g : results)
    if (!g.error.empty()) failures.push_back(g.error);
  if (shares_prompts(loaded)) {  // results of other data ranks; all ranks call it, also those without a prompt
    std::vector<std::string> all = gather_texts(ranks.along(Axis::data), to_text(results));
    size_t prompt = end;
    for (size_t d = 1; ranks.first() && d < all.size(); ++d)
      for (Generated& g : from_text(all[d])) {
        for (int32_t id : g.ids) output.token(prompt, id);
        if (g.begun) output.finished(prompt, g);
        if (!g.error.empty()) failures.push_back(g.error);
        ++prompt;
      }
  }
  if (!any(ranks.all(), stopped)) return results;
  if (ranks.first()) output.rest();
  throw Stopped("stopped on request");
}

// Throws for failed prompts, after the others are answered.
void refuse_failures(const std::vector<std::string>& failures, size_t prompts, const Ranks& ranks) {
  if (!any(ranks.all(), !failures.empty())) return;
  if (prompts == 1 || failures.empty()) throw Error(failures.empty() ? "generate: a prompt failed" : failures[0]);
  constexpr size_t kMostReported = 5;
  std::string text = fmt::format("{} of {} prompts failed, the others are answered", failures.size(), prompts);
  for (size_t i = 0; i < std::min(failures.size(), kMostReported); ++i) text += fmt::format("\n  {}", failures[i]);
  throw Error(text + (failures.size() > kMostReported ? "\n  .." : ""));
}

void converse(const Job& job, size_t named, ChatPrompt& chat) {
  Turns turns("You >> ");
  const bool terminal = turns.terminal();
  if (terminal) print_stderr("each line is a turn; /quit or Ctrl-D ends the conversation");
  while (const std::optional<std::string> line = turns.next()) {
    if (line->find_first_not_of(" \t") == std::string::npos) continue;
    if (*line == "/exit" || *line == "/quit") return;
    if (terminal && (*line == "exit" || *line == "quit" || *line == ":q" || *line == ":quit" || *line == "/bye")) return;
    if (terminal && line->size() > 1 && (*line)[0] == '/' && line->find_first_of(" /", 1) == std::string::npos) {
      print_stderr("each line is a turn; /quit or Ctrl-D ends the conversation");
      continue;
    }
    const Json before = chat.messages();
    const std::vector<int32_t> prompt = chat.add_question(*line);
    std::vector<std::string> failures;
    const std::vector<Generated> generated =
        answer(job, {.prompts = {prompt}, .named_models = {named}, .prompt_names = {"the conversation"}}, "the conversation",
               failures);
    if (failures.empty())
      chat.answered(prompt, generated.at(0).ids);
    else
      chat.set_messages(before), print_stderr(escaped(fmt::format("error: {}", failures[0])));
    std::fflush(stdout);
  }
}

// Returns the prompts of the flags, each with its model; none for a conversation.
PromptList collect_prompts(World* world, const GenerateFlags& flags, const Config& config, NamedPromptModels& named_models) {
  const bool jsonl = flags.prompts.ends_with(".jsonl");
  PromptList prompt_list;
  prompt_list.others = !flags.use.empty() ? named_models.find(flags.use, "--use") : jsonl ? 0 : named_models.only();
  auto add = [&](const std::string& text, size_t named) {
    prompt_list.prompts.push_back(named_models.encode(named, text)), prompt_list.named_models.push_back(named);
  };
  if (!flags.prompt_ids.empty()) {
    prompt_list.prompts = read_prompt_ids(flags.prompt_ids);
    prompt_list.named_models.assign(prompt_list.prompts.size(), prompt_list.others);
  } else if (!flags.prompts.empty()) {
    for (const PromptText& p : read_prompt_texts(flags.prompts, config.data.text_key)) {
      prompt_list.prompt_names.push_back(fmt::format("{}:{}", flags.prompts, p.line));
      add(p.text, p.adapter.empty() ? prompt_list.others : named_models.find(p.adapter, prompt_list.prompt_names.back()));
    }
  } else if (!flags.prompt.empty()) {
    add(flags.prompt == "-" ? read_stdin(world) : flags.prompt, prompt_list.others);
  }
  return prompt_list;
}

void run_on(World* world, GenerateFlags& flags, const Config& config, const std::vector<NamedPath>& adapters,
            LoadedModel& loaded) {
  BeamOptions beams;
  if (!flags.beams.empty()) beams.beams = flags.beams[0];
  const int64_t num_return = flags.num_return.empty() ? 1 : flags.num_return[0];
  // A template of a run's config is for its conversations.
  const auto template_source = config.sources.find("data.chat_template");
  check_flags(flags, beams.beams, num_return,
              template_source != config.sources.end() && template_source->second == "command line");
  check_model_folder(config.model.path, "--model");
  Log log;
  log.quiet(world && world->rank() > 0);
  NamedPromptModels named_models(config.model, adapters, flags.chat_template, {flags.chat, flags.system});
  const PromptList prompt_list = collect_prompts(world, flags, config, named_models);
  const bool conversation = flags.chat && flags.prompt.empty() && flags.prompts.empty();
  // Exactly one of them is set.
  const std::string where = !flags.prompt.empty() ? "--prompt" : flags.prompts + flags.prompt_ids;
  if (prompt_list.prompts.empty() && !conversation) throw UserError("no prompts", where, "at least one is needed", "add one");
  if (conversation && world && world->size() > 1)
    throw UserError("a conversation on several ranks", "--chat", "only the first rank has a stdin to read turns from",
                    "give a question with --prompt, or run it without mpirun");
  if (conversation) named_models.chat(prompt_list.others);
  for (size_t v = 1; v < named_models.size(); ++v)
    if (!conversation && prompt_list.of(v).empty()) log.warn("no prompt asks for the adapter '{}'", named_models[v].name);
  loaded = open_model_job(world, config.model.path, config, flags.common.backend, OpenFor::running, describe(flags),
                          named_models[0].adapter);
  named_models.open(loaded);
  const Ranks& ranks = loaded.ranks();
  const std::string words = Json({prompt_list.prompts, prompt_list.named_models}).dump();
  check_same(ranks.all(), "prompts",
             fmt::format("{} prompts of checksum {}", prompt_list.prompts.size(),
                         checksum_text(checksum_of(std::as_bytes(std::span(words))))));
  if (ranks.size() > 1) log.line("ranks    {}: {}", ranks.size(), describe_ranks(loaded));
  if (ranks.size() > 1 && config.parallel.sequence) log.warn("parallel.sequence is about training: it has no effect");
  if (divides_weights(loaded))
    log.warn(
        "parallel.zero=3 gathers all weights for every token: parallel.tensor or parallel.pipeline divide a model too, and are faster");
  std::vector<std::string> warned;
  for (size_t v = 0; v < named_models.size(); ++v)
    for (const std::string& field : named_models[v].defaults.not_offered)
      if (std::find(warned.begin(), warned.end(), field) == warned.end()) warned.push_back(field);
  for (const std::string& field : warned) log.warn("'{}' of generation_config.json is not offered and has no effect", field);
  if (const std::string draws = given_for_draws(flags.sampling);
      !flags.sampling.sample && flags.beam_rules == BeamRules::transformers && !draws.empty() &&
      flags.sampling.temperature != std::vector<double>{0})
    log.warn("without --sample there is no effect of {}", draws);
  beams.rules = flags.beam_rules;
  if (beams.rules == BeamRules::modellink && (flags.early_stopping || named_models[0].defaults.early_stopping != EarlyStop::no))
    log.warn("ModelLink's rules know no early stopping: it has no effect");
  const Job job{flags, loaded, named_models, beams, num_return, make_recipe(config.precision, loaded.kernels)};
  if (conversation) return converse(job, prompt_list.others, named_models.chat(prompt_list.others));
  std::vector<std::string> failures;
  answer(job, prompt_list, where, failures);
  refuse_failures(failures, prompt_list.prompts.size(), ranks);
}

int run_generate(GenerateFlags& flags, Config& config) {
  const ResolvedAdapters resolved = resolve_model_and_adapters(config.model.path, flags.adapter);
  config.model.path = flags.model = resolved.model;
  RankJob job(config.parallel, config.train.threads);
  LoadedModel loaded;
  return job.run([&](World* world) {
    run_on(world, flags, config, resolved.adapters, loaded);
    loaded = {};
  });
}

}  // namespace

Command generate_command() {
  return command<GenerateFlags>(
      {.name = "generate",
       .summary = "generate text from prompts: text, or token ids",
       .example = "ravine generate --model my-llama --prompt \"Once upon a time\" --sample --temperature 0.8",
       .about =
           "Writes a continuation of each prompt to stdout. Many prompts share batches. Defaults come from the model's generation_config.json.",
       .sections = {"model.path", "model.tokenizer", "lora.base", "data.text_key", "data.chat_template", "precision.compute",
                    "precision.bf16_products", "precision.recipes", "precision.unfused", "parallel.data", "parallel.tensor",
                    "parallel.pipeline", "parallel.zero", "parallel.zero_threshold", "parallel.virtual",
                    "parallel.stage_layers", "parallel.patience", "parallel.interface"},
       .shown = {"model.tokenizer", "precision.compute", "parallel.tensor"}},
      "Run", run_generate);
}

}  // namespace ravine

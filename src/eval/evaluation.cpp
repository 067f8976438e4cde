#include "eval/evaluation.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include <fmt/ranges.h>

#include "base/clock.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "eval/few_shot.h"
#include "eval/python_text.h"
#include "files/atomic.h"
#include "files/compressed.h"
#include "infer/likelihood.h"

namespace ravine {
namespace {

constexpr const char* kResultsFile = "results.json";

std::string path_in(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

size_t index_of_most(const std::vector<double>& values) {
  return static_cast<size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

bool is_right(const Item& item, size_t choice) {
  return std::find(item.right.begin(), item.right.end(), static_cast<int64_t>(choice)) != item.right.end();
}

Json ranked_line(const Task& task, const Item& item, const std::vector<double>& logprobs) {
  std::vector<double> normalised;
  for (size_t i = 0; i < logprobs.size(); ++i)
    normalised.push_back(logprobs[i] / static_cast<double>(std::max<int64_t>(1, count_characters(item.choices[i]))));
  const size_t best = index_of_most(logprobs), best_normalised = index_of_most(normalised);
  Json line{{"id", item.id}, {"prompt", item.prompt}, {"logprobs", logprobs}, {"parsed", best}};
  if (task.normalised) line["parsed_norm"] = best_normalised;
  line["answer"] = item.several ? Json(item.right) : Json(item.right.at(0));
  line["correct"] = is_right(item, best);
  if (task.normalised) line["correct_norm"] = is_right(item, best_normalised);
  return line;
}

// True if the text of the first tokens is longer than `prompt`. A cut character at its end (U+FFFD) is not counted.
bool reaches_beyond(const Tokenizer& tokenizer, std::span<const int32_t> first, std::string_view prompt) {
  const std::string text = tokenizer.decode(first, false);
  std::string_view sure = text;
  while (sure.ends_with("\xEF\xBF\xBD")) sure.remove_suffix(3);
  return !prompt.starts_with(sure);
}

// Encodes the choices as lm-evaluation-harness' TemplateLM._encode_pair: blanks at the end of the context belong to the
// continuation. The continuation is the whole text without as many tokens as the context has alone. If other tokens
// (fewer or more) reach beyond the end of the context, the continuation is these tokens instead, after the earlier
// tokens of the whole text.
Continuations encode_choices(const Tokenizer& tokenizer, const Item& item) {
  Continuations c;
  std::string_view context = item.prompt;
  const size_t kept = context.find_last_not_of(" \t\n\r\f\v") + 1;
  c.context = tokenizer.encode(context.substr(0, kept), true);
  for (const std::string& choice : item.choices) {
    const std::vector<int32_t> whole = tokenizer.encode(fmt::format("{} {}", context, choice), true);
    const auto [same, other] = std::mismatch(c.context.begin(), c.context.end(), whole.begin(), whole.end());
    auto seam = other;
    if (same != c.context.end()) {
      const std::string prompt = tokenizer.decode(c.context, false);
      while (seam != whole.end() && !reaches_beyond(tokenizer, {whole.begin(), seam + 1}, prompt)) ++seam;
    }
    auto refuse = [&](const char* wrong, const char* rule, const char* fix) {
      throw UserError(fmt::format("choice {} of {} {}", c.continuations.size() + 1, escaped(item.id), wrong), "model.tokenizer",
                      rule, fix);
    };
    if (seam == whole.end())
      refuse("has no token of its own", "a choice is scored by its tokens behind the prompt",
             "correct the choice in the data, or use another tokenizer");
    if (seam == whole.begin() && !c.context.empty())
      refuse("shares its first token with the prompt", "the likelihood of a token needs one before it",
             "use a tokenizer that begins texts with a token, or a longer prompt (--shots)");
    const bool as_there = static_cast<size_t>(seam - whole.begin()) == c.context.size();
    c.contexts.emplace_back(as_there ? seam : whole.begin(), seam);
    c.continuations.emplace_back(seam, whole.end());
  }
  return c;
}

// Decodes ids. A model may have more ids than its tokenizer has pieces; these ids are dropped.
std::string text_of(const Tokenizer& tokenizer, std::vector<int32_t> ids) {
  std::erase_if(ids, [&](int32_t id) { return id >= tokenizer.size(); });
  return tokenizer.decode(ids, true);
}

int32_t last_id(const Tokenizer& tokenizer, const char* word) {
  const std::vector<int32_t> ids = tokenizer.encode(word, true);
  if (ids.empty())
    throw UserError(fmt::format("'{}' has no token", word), "model.tokenizer", "BoolQ compares the tokens of Yes and No",
                    "leave out boolq, or evaluate it with --protocol likelihood");
  return ids.back();
}

// Computes the likelihoods of items [begin, end). encode(item) returns the request, take(item, result) receives the
// results in order.
template <class Encode, class Take>
void score_items(size_t begin, size_t end, int64_t batch, const EvaluatedModel& answerer, const std::function<bool()>& stop,
                 const std::string& where, Encode&& encode, Take&& take) {
  std::vector<Continuations> encoded;
  for (size_t i = begin; i < end; ++i) encoded.push_back(encode(i));
  LikelihoodOptions o;
  o.batch = batch;
  o.recipe = answerer.recipe;
  LikelihoodEvents events;
  events.stop = stop;
  events.finished = [&](size_t p, const Likelihoods& l) { take(begin + p, l); };
  likelihoods(*answerer.loaded, encoded, o, events, where);
}

// Returns the items of a task. If the data have no folder with the name of the task, its files were looked for in the
// data folder itself. An error in such a file is then reported as a missing folder.
std::vector<Item> items_of(const Task& task, const std::string& data, const TaskOptions& options) {
  namespace fs = std::filesystem;
  const fs::path own = fs::path(data) / task.name;
  std::error_code error;
  if (fs::is_directory(own, error) || data.find(task.name) != std::string::npos || !fs::is_directory(data, error))
    return task.load(data, options);
  try {
    return task.load(data, options);
  } catch (const UserError& e) {
    if (std::string_view(e.what()).starts_with("no data of")) throw;  // the message has the searched path already
    throw UserError(fmt::format("no folder of {}", task.name), own.string(),
                    fmt::format("so files of {} itself were read as {}, and are not: {}", data, task.name, e.what()),
                    fmt::format("name the folder that holds {}, or the benchmark's own", task.name));
  }
}

}  // namespace

// A task in progress. Lines are put in any order, and written in the order of the data.
struct Evaluation::Job {
  const Task& task;
  const std::vector<Item>& items;
  Log& log;
  const std::function<bool()>& stop;
  int64_t batch = 16;
  SampleFile* file = nullptr;  // null: another rank writes
  size_t done = 0;             // items whose lines are written, here or on the rank that writes
  size_t began = 0;
  double began_at = seconds_now();
  int64_t correct = 0;
  std::map<size_t, Json> waiting{};

  bool writes() const { return file != nullptr; }
  void put(size_t item, Json line) {
    waiting.emplace(item, std::move(line));
    for (auto it = waiting.begin(); it != waiting.end() && it->first == done; it = waiting.erase(it), ++done) {
      correct += it->second.at("correct").get<bool>() ? 1 : 0;
      if (file) file->append(std::move(it->second));
    }
    show();
  }
  void show() {
    if (done == began) return;
    const double each = (seconds_now() - began_at) / static_cast<double>(done - began);
    const double left = each * static_cast<double>(items.size() - done);
    log.progress(static_cast<double>(done) / static_cast<double>(items.size()),
                 fmt::format("{} {}/{}, {:.3f}, {} left", task.name, done, items.size(),
                             static_cast<double>(correct) / static_cast<double>(done), human_time(left)));
  }
  void end_if_stopped(bool stop_requested) const {
    if (stop_requested)
      throw Stopped(fmt::format("stopped on request at item {} of {} of {}; the same command goes on from there", done,
                                items.size(), task.name));
  }
};

Evaluation::Evaluation(EvaluationOptions options) : options_(std::move(options)) {
  const bool generates = options_.of.protocol == Protocol::generate;
  if (!options_.completions.empty()) {
    if (!generates)
      throw UserError("--completions with --protocol likelihood", "--completions", "an output is parsed, not compared",
                      "leave out --protocol");
    read_completions();
    options_.of.shots = options_.of.shots.value_or(0);
  }
  if (generates) fill_few_shot(options_.of.templates, options_.data);
  std::set<const Task*> selected;
  for (const std::string& name : options_.tasks) selected.insert(&find_task(name, options_.of.protocol));
  for (const Task& task : all_tasks()) {
    if (!selected.contains(&task)) continue;
    if (options_.of.split == EvalSplit::test && task.name != "ceval")
      throw UserError(fmt::format("--split test for {}", task.name), "--split", "only CEval has a split without answers",
                      "leave it out, or give --tasks ceval alone");
    if (generates && !task.parse && !options_.allow_code)
      throw UserError(fmt::format("{} runs what the model writes", task.name), "--tasks",
                      "code that a model has written runs only with --allow-code", "add --allow-code: it runs in a sandbox");
    Work work{&task, items_of(task, data_of(task.name), options_.of)};
    if (!completions_.empty()) std::erase_if(work.items, [&](const Item& i) { return !completions_.contains(i.id); });
    if (work.items.empty())
      throw UserError(fmt::format("no items of {}", task.name),
                      completions_.empty() ? data_of(task.name) : options_.completions,
                      completions_.empty() ? "a task has some" : "no id there is one of the data's", "check the path");
    for (Item& item : work.items)
      if (generates) item.prompt = options_.of.templates.wrap(item.prompt);
    works_.push_back(std::move(work));
    if (generates && !task.parse && !sandbox_) sandbox_ = std::make_unique<Sandbox>();
  }
  if (!completions_.empty() && items() < static_cast<int64_t>(completions_.size()))
    throw UserError(fmt::format("{} of {} have the id of no item", static_cast<int64_t>(completions_.size()) - items(),
                                counted(static_cast<int64_t>(completions_.size()), "output")),
                    options_.completions, "each id must be the id of an item, such as anatomy/3",
                    "check the ids, --tasks and --limit");
}

// Returns the last folder that has the name of the task in its path, as ModelLink does; else the last one that holds a
// folder with this name.
const std::string& Evaluation::data_of(const std::string& task) const {
  const std::vector<std::string>& all = options_.data;
  std::error_code error;
  for (auto it = all.rbegin(); it != all.rend(); ++it)
    if (all.size() > 1 && it->find(task) != std::string::npos) return *it;
  for (auto it = all.rbegin(); it != all.rend(); ++it)
    if (std::filesystem::is_directory(std::filesystem::path(*it) / task, error)) return *it;
  return all.back();
}

void Evaluation::log_examples(const Work& work, Log& log) const {
  if (options_.of.protocol != Protocol::generate || options_.of.shots.value_or(1) == 0) return;
  std::set<std::string> sources;
  for (const Item& item : work.items)
    sources.insert(options_.of.templates.source(work.task->name, work.task->name == "gsm8k" ? "few_shot" : item.subject));
  sources.erase("");
  if (!sources.empty()) log.line("{}: worked examples are {}", work.task->name, fmt::join(sources, ", "));
}

int64_t Evaluation::items() const {
  int64_t n = 0;
  for (const Work& w : works_) n += static_cast<int64_t>(w.items.size());
  return n;
}

void Evaluation::read_completions() {
  LineReader lines(options_.completions);
  while (const auto line = lines.next()) {
    if (strip(*line).empty()) continue;
    const std::string where = fmt::format("{}:{}", options_.completions, lines.line_number());
    const Json json = parse_json(*line, where);
    const auto id = field<std::string>(json, "id", where);
    if (!completions_.emplace(id, field<std::string>(json, "output", where)).second)
      throw UserError(fmt::format("'{}' twice", escaped(id)), where, "an item has one output", "remove one of the lines");
  }
  if (completions_.empty())
    throw UserError("no outputs", options_.completions, "a line is {\"id\": .., \"output\": ..}", "check the path");
}

std::string Evaluation::judge(const Task& task, const Item& item, const std::string& output) const {
  if (task.parse) return task.parse(output);
  const std::string code = fmt::format("{}    {}", item.code, strip_left(output));
  return sandbox_->passes(judged_program(code, item.test, item.entry)) ? "passed" : "failed";
}

Json Evaluation::line_of(const Item& item, const std::string& output, const std::string& parsed) {
  const bool known = !item.answer.empty();
  return Json{{"id", item.id},
              {"prompt", item.prompt},
              {"output", output},
              {"parsed", parsed.empty() ? Json() : Json(parsed)},
              {"answer", known ? Json(item.answer) : Json()},
              {"correct", known && parsed == item.answer}};
}

void Evaluation::take_completions(Job& job) const {
  for (size_t i = job.done; i < job.items.size(); ++i) {
    job.end_if_stopped(job.stop());
    const Item& item = job.items[i];
    const std::string& output = completions_.at(item.id);
    job.put(i, line_of(item, output, judge(job.task, item, output)));
  }
}

void Evaluation::generate_answers(Job& job, const EvaluatedModel& answerer) const {
  const ModelFacts& facts = answerer.loaded->model->facts();
  GenerateOptions o;
  o.max_new_tokens = options_.max_new_tokens.value_or(job.task.new_tokens);
  o.end_ids = answerer.end_ids;
  o.batch = job.batch;
  o.recipe = answerer.recipe;
  if (facts.max_positions > 0 && o.max_new_tokens >= facts.max_positions)
    throw UserError(fmt::format("{} new tokens for {}", o.max_new_tokens, job.task.name), "--max-new-tokens",
                    fmt::format("the model has max_position_embeddings = {}", facts.max_positions), "ask for fewer");
  // Items are encoded in parts, so that memory does not hold all ids at once.
  const auto part = static_cast<size_t>(64 * job.batch);
  for (size_t begin = job.done; begin < job.items.size(); begin = job.done) {
    const size_t end = std::min(job.items.size(), begin + part);
    std::vector<std::vector<int32_t>> prompts;
    o.prompt_names.clear();
    for (size_t i = begin; i < end; ++i) {
      std::vector<int32_t> ids = answerer.tokenizer->encode(job.items[i].prompt, true);
      const auto most = static_cast<size_t>(std::max<int64_t>(0, facts.max_positions - o.max_new_tokens));
      if (facts.max_positions > 0 && ids.size() > most) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
      prompts.push_back(std::move(ids));
      o.prompt_names.push_back(job.items[i].id);
    }
    bool stop_requested = false;
    GenerateEvents events;
    events.stop = [&] { return stop_requested = stop_requested || job.stop(); };
    events.finished = [&](size_t p, const Generated& g) {
      if (g.finish == Finish::stop) return;
      const Item& item = job.items[begin + p];
      const std::string output = text_of(*answerer.tokenizer, g.ids);
      // Only the rank that writes runs code.
      const bool judges = job.writes() || job.task.parse;
      job.put(begin + p, line_of(item, output, judges ? judge(job.task, item, output) : ""));
    };
    generate(*answerer.loaded, prompts, o, events, fmt::format("prompts of {}", job.task.name));
    job.end_if_stopped(job.done < end);
  }
}

void Evaluation::choose_first_tokens(Job& job, const EvaluatedModel& answerer) const {
  const int32_t yes = last_id(*answerer.tokenizer, "Yes"), no = last_id(*answerer.tokenizer, "No");
  const auto part = static_cast<size_t>(64 * job.batch);
  while (job.done < job.items.size()) {
    const size_t end = std::min(job.items.size(), job.done + part);
    score_items(
        job.done, end, job.batch, answerer, job.stop, "prompts of " + job.task.name,
        [&](size_t i) {
          return Continuations{answerer.tokenizer->encode(job.items[i].prompt, true), {{yes}, {no}}};
        },
        [&](size_t i, const Likelihoods& l) {
          const std::string output = text_of(*answerer.tokenizer, {l.first});
          job.put(i, line_of(job.items[i], output, l.logprobs[0] >= l.logprobs[1] ? "T" : "F"));
        });
    job.end_if_stopped(job.done < end);
  }
}

void Evaluation::rank_choices(Job& job, const EvaluatedModel& answerer) const {
  const auto part = static_cast<size_t>(64 * job.batch);
  while (job.done < job.items.size()) {
    const size_t end = std::min(job.items.size(), job.done + part);
    score_items(
        job.done, end, job.batch, answerer, job.stop, "choices of " + job.task.name,
        [&](size_t i) { return encode_choices(*answerer.tokenizer, job.items[i]); },
        [&](size_t i, const Likelihoods& l) { job.put(i, ranked_line(job.task, job.items[i], l.logprobs)); });
    job.end_if_stopped(job.done < end);
  }
}

std::vector<TaskResult> Evaluation::earlier_results() const {
  std::vector<TaskResult> results;
  const std::string path = path_in(options_.output, kResultsFile);
  if (!std::filesystem::exists(path)) return results;
  const Json tasks = field<Json>(read_json(path), "tasks", path);
  for (const Task& task : all_tasks()) {
    const std::string samples = samples_path(options_.output, task.name);
    const bool again = std::any_of(works_.begin(), works_.end(), [&](const Work& w) { return w.task->name == task.name; });
    if (again || !tasks.contains(task.name) || !std::filesystem::exists(samples)) continue;
    std::vector<Outcome> outcomes;
    for (const Json& line : read_samples(samples)) outcomes.push_back(outcome_of(line, samples));
    if (!outcomes.empty()) results.push_back(score(task, options_.of.protocol, outcomes));
  }
  return results;
}

std::vector<TaskResult> Evaluation::run(const EvaluatedModel* answerer, Log& log, const std::function<bool()>& stop) {
  const Ranks* ranks = answerer ? &answerer->loaded->ranks() : nullptr;
  const bool writes = !ranks || ranks->first();
  std::vector<TaskResult> results, all = writes ? earlier_results() : std::vector<TaskResult>();
  for (const Work& work : works_) {
    std::unique_ptr<SampleFile> file;
    if (writes) file = std::make_unique<SampleFile>(options_.output, work.task->name, work.items);
    log_examples(work, log);
    Job job{*work.task, work.items, log, stop, options_.batch.value_or(16), file.get()};
    int64_t there = file ? static_cast<int64_t>(file->size()) : 0;
    if (ranks) there = gather_integers(ranks->all(), there)[0];
    job.done = job.began = static_cast<size_t>(there);
    if (there > 0 && job.done < work.items.size())
      log.line("{}: goes on at item {} of {}", work.task->name, there + 1, work.items.size());
    for (size_t i = 0; file && i < job.done; ++i) job.correct += file->lines()[i].at("correct").get<bool>() ? 1 : 0;
    if (!answerer)
      take_completions(job);
    else if (options_.of.protocol == Protocol::likelihood)
      rank_choices(job, *answerer);
    else if (work.task->first_token)
      choose_first_tokens(job, *answerer);
    else
      generate_answers(job, *answerer);
    log.end_progress();
    if (!file) continue;
    if (options_.of.split == EvalSplit::test) {
      write_file_atomic(path_in(options_.output, "ceval_submission.json"), ceval_submission(file->lines()).dump(1) + "\n");
      continue;
    }
    std::vector<Outcome> outcomes;
    for (const Json& line : file->lines()) outcomes.push_back(outcome_of(line, file->path()));
    results.push_back(score(*work.task, options_.of.protocol, outcomes));
    all.push_back(results.back());
    write_file_atomic(path_in(options_.output, kResultsFile),
                      results_json(all).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
    write_file_atomic(path_in(options_.output, "results.csv"), results_csv(all));
  }
  return results;
}

Json ceval_submission(const std::vector<Json>& samples) {
  Json out = Json::object();
  for (const Json& line : samples) {
    const auto id = field<std::string>(line, "id", "samples");
    const size_t slash = id.rfind('/');
    const Json parsed = line.value("parsed", Json());
    out[id.substr(0, slash)][id.substr(slash + 1)] = parsed.is_string() ? parsed : Json("");
  }
  return out;
}

}  // namespace ravine

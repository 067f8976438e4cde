#include "train/advice.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <thread>

#include "base/counted.h"
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/shell_word.h"
#include "config/chosen.h"
#include "config/optimizer_types.h"
#include "config/takes.h"
#include "data/indexed/indexed_tokens.h"
#include "data/instruct/chat_records.h"
#include "data/instruct/chat_set.h"
#include "data/instruct/instruction_files.h"
#include "data/instruct/pair_set.h"
#include "data/source.h"
#include "data/source_kinds.h"
#include "files/tokenizer_files.h"
#include "optim/class_schedules.h"
#include "optim/make_update_rule.h"
#include "optim/schedule.h"
#include "runs/open.h"
#include "runs/run_paths.h"
#include "runs/vocabulary.h"
#include "text/chat/prompt_templates.h"
#include "text/chat/rendered_json.h"
#include "text/tokenizers/open_tokenizer.h"

namespace ravine {
namespace {

constexpr int64_t kRecords = 200;  // records read per source
constexpr size_t kBytes = 1 << 20;

class Advice {
 public:
  Advice(const Config& c, const Tokenizer* opened) : c_(c), tokenizer_(opened) {}

  std::vector<std::string> all() {
    numbers();
    copied_folder();
    threads();
    attempt([&] { model(); });
    adapter();
    attempt([&] { tokenizer(); });
    attempt([&] { foreign_tokenizer(); });
    attempt([&] { files(); });
    for (const DataSource& s : c_.data.train) attempt([&] { source(s); });
    return lines_;
  }

 private:
  template <class... A>
  void add_warning(fmt::format_string<A...> text, A&&... args) {
    std::string line = fmt::format(text, std::forward<A>(args)...);
    if (std::find(lines_.begin(), lines_.end(), line) == lines_.end()) lines_.push_back(std::move(line));
  }

  template <class F>
  void attempt(const F& f) {
    try {
      f();
    } catch (const UserError& e) {
      add_warning("{}", e.what());
    }
  }

  double rate(int64_t step) const { return learning_rate(c_.schedule, c_.optimizer.lr, c_.train.steps, step); }

  // Warns of a warmup that is as long as the run, and of a schedule that ends before the run.
  void rates() {
    const ScheduleOptions& s = c_.schedule;
    if (follows_validation(s) || make_update_rule(c_.optimizer)->own_rate(1)) return;
    const int64_t steps = c_.train.steps, length = s.steps > 0 ? s.steps : steps, last = std::min(s.warmup_steps, steps) - 1;
    if (!is_class_schedule(s.type) && s.warmup_steps >= std::min(length, steps)) {
      const double most = std::max(rate(std::max<int64_t>(0, last)), last + 1 < steps ? rate(last + 1) : 0);
      if (most < c_.optimizer.lr * s.classes.lr_scale * (1 - 1e-9))
        add_warning("schedule.warmup_steps={} is not below {}={}: the rate never reaches optimizer.lr", s.warmup_steps,
                    s.warmup_steps >= steps ? "train.steps" : "schedule.steps", s.warmup_steps >= steps ? steps : length);
    }
    const ScheduleEnd end = end_of(s, steps);
    if (*end.key && end.length < steps && end.update < steps && falls(s))
      add_warning("schedule.{}={} is below train.steps={}: from step {} on the rate stays at {:.3g}", end.key, end.length,
                  steps, std::max(end.update, end.length) + 1, rate(end.update));
    if (s.type != ScheduleType::CosineAnnealingLR) return;
    const int64_t wave = s.classes.t_max, behind = std::min(steps, end.update + 1) - wave;
    double most = 0;
    for (int64_t step = wave; step < wave + behind; step += std::max<int64_t>(1, behind / 10000))
      most = std::max(most, rate(step));
    if (behind > 0 && most > rate(wave))
      add_warning("schedule.t_max={} is below train.steps={}: behind it the rate of {} rises again, to {:.3g}", wave, steps,
                  name(s.type), most);
  }

  // True if the learning rate falls after the warmup. The other schedules keep the full rate.
  static bool falls(const ScheduleOptions& s) {
    using enum ScheduleType;
    return s.type != constant && s.type != WarmupLR && s.type != ConstantWarmUpLR &&
           (s.type != OptimizerParamScheduler || s.classes.lr_decay_style != DecayStyle::constant);
  }

  void numbers() {
    const TrainOptions& t = c_.train;
    bool valid = !c_.data.valid.empty() || c_.data.valid_fraction > 0;
    rates();
    for (size_t i = 0; i < c_.optimizer.groups.size(); ++i)
      if (c_.optimizer.groups[i].from_step > t.steps)
        add_warning("optimizer.groups[{}].from_step={} is beyond train.steps={}: its parameters do not train", i,
                    c_.optimizer.groups[i].from_step, t.steps);
    const ScheduleOptions& s = c_.schedule;
    if (is_class_schedule(s.type)) {
      const double full = s.type == ScheduleType::OneCycle      ? s.classes.cycle_max_lr.value_or(0)
                          : s.type == ScheduleType::LRRangeTest ? 0
                                                                : s.classes.warmup_max_lr.value_or(c_.optimizer.lr);
      const int64_t stride = std::max<int64_t>(1, t.steps / 10000);
      double most = 0;
      for (int64_t step = 0; step < t.steps; step += stride)
        most = std::max(most, class_rate(s, c_.optimizer.lr, s.steps > 0 ? s.steps : t.steps, step));
      if (most < 0.99 * full)
        add_warning("schedule.type={}: in train.steps={} the rate reaches {:.3g} at most, never {:.3g}", name(s.type), t.steps,
                    most, full);
      if (c_.sources.contains("optimizer.lr") && (s.type == ScheduleType::OneCycle || s.type == ScheduleType::LRRangeTest ||
                                                  s.classes.warmup_max_lr.value_or(c_.optimizer.lr) != c_.optimizer.lr))
        add_warning("schedule.type={} has rates of its own: optimizer.lr={} has no effect", name(s.type), c_.optimizer.lr);
    }
    if (t.valid_every > 0 && !valid && c_.data.order == SampleOrder::philox)  // others: data.split holds out a part
      // other orders hold out a part by data.split
      add_warning("train.valid_every={}, but there is nothing to validate on: set data.valid or data.valid_fraction",
                  t.valid_every);
    if (t.valid_every == 0 && valid) add_warning("validation data are given, but train.valid_every=0 never looks at them");
    if (t.valid_every == 0 && !valid && t.valid_batches > 0)
      add_warning("train.valid_batches={} has no effect: nothing is validated without train.valid_every", t.valid_batches);
    // The step size of these rules is about the learning rate, for a gradient of any size.
    const OptimizerType rule = c_.optimizer.type;
    if (c_.optimizer.lr > 0.1 && !is_class_schedule(s.type) &&
        (rule == OptimizerType::adamw || rule == OptimizerType::adam || rule == OptimizerType::cadam ||
         rule == OptimizerType::lion))
      add_warning("optimizer.lr={} is large: a step of {} moves each weight by about the rate, and 1e-5 to 1e-3 is usual",
                  c_.optimizer.lr, name(rule));
    if (c_.optimizer.lr == 0 && !is_class_schedule(s.type))
      add_warning("optimizer.lr=0: no weight is changed, and nothing is learned");
    for (int64_t s : c_.data.skip_steps)
      if (s > t.steps) add_warning("data.skip_steps names step {}, the run ends after {}", s, t.steps);
  }

  // Warns of a copied run folder. The run.yaml of `ravine init` has absolute paths, so a copy writes into the original
  // run.
  void copied_folder() {
    namespace fs = std::filesystem;
    const auto given = c_.sources.find("train.output");
    if (given == c_.sources.end()) return;
    const fs::path file = given->second.substr(0, given->second.rfind(':')),
                   first = fs::path(c_.train.output).parent_path() / "run.yaml";
    std::error_code error;
    if (file.filename() != "run.yaml" || !fs::is_regular_file(file, error) || !fs::is_regular_file(first, error) ||
        fs::equivalent(file, first, error))
      return;
    add_warning(
        "{} names train.output={}, the run of {}: this folder was copied, with its paths; correct them, or set train.output={}",
        given->second, c_.train.output, first.string(), (file.parent_path() / "run").string());
  }

  void threads() {
    const auto cores = static_cast<int64_t>(std::thread::hardware_concurrency());
    if (cores > 0 && c_.train.threads > cores)
      add_warning(
          "train.threads={} on {}: they take turns, and each step waits for all of them; train.threads={} is as many as help",
          c_.train.threads, counted(cores, "core"), cores);
    if (const char* given = std::getenv("OMP_NUM_THREADS"); given && c_.train.threads == 0 && std::atoi(given) < 1)
      add_warning("OMP_NUM_THREADS='{}' is no number of threads, and has no effect", given);
  }

  // Returns each file of the source once, as a canonical path.
  static std::vector<std::string> real_files(const DataSource& s) {
    std::vector<std::string> out;
    std::error_code error;
    for (const std::string& file : source_files(s.path)) {
      const std::filesystem::path real = std::filesystem::weakly_canonical(file, error);
      out.push_back(error ? file : real.string());
    }
    return out;
  }

  void files() {
    std::set<std::string> seen, twice, both;
    for (const DataSource& s : c_.data.train)
      for (const std::string& file : real_files(s))
        if (!seen.insert(file).second && twice.insert(file).second)
          add_warning("data.train names {} twice: its text counts twice; weights say so plainly ({{path: .., weight: 2}})",
                      file);
    for (const DataSource& s : c_.data.valid)
      for (const std::string& file : real_files(s))
        if (seen.contains(file) && both.insert(file).second)
          add_warning(
              "data.valid names {}, which data.train trains on: the loss on it does not tell what is learned; data.valid=[] data.valid_fraction=0.05 holds out a part of it",
              file);
  }

  // True if the rotary positions of the model have no limit (rope_type dynamic).
  static bool grows(const Json& config) {
    for (const char* key : {"rope_parameters", "rope_scaling", "rotary"})
      if (config.contains(key) && config[key].is_object())
        for (const char* type : {"rope_type", "type"})
          if (config[key].value(type, Json()) == "dynamic") return true;
    return false;
  }

  void model() {
    if (c_.model.path.empty() && c_.model.config.empty()) return;
    Json j = requested_model_config(c_);
    auto whole = [&](const char* key) { return j.contains(key) && j[key].is_number_integer() ? j[key].get<int64_t>() : 0; };
    model_config_ = j;
    vocabulary_ = run_vocabulary(c_, j, 0);
    positions_ = grows(j) ? 0 : whole("max_position_embeddings");
    if (int64_t most = positions_; most > 0 && c_.data.sequence_length > most * in_a_sequence())
      add_warning(
          "data.sequence_length={} is above {}the model's max_position_embeddings={}: train refuses it; set data.sequence_length={} or less",
          c_.data.sequence_length, in_a_sequence() == 2 ? "twice " : "", most, most * in_a_sequence());
    dropout(j, "train.dropout", {"hidden_dropout", "resid_pdrop"});
    dropout(j, "train.attention_dropout", {"attention_dropout", "attn_pdrop"});
  }

  void adapter() {
    if (c_.lora.path.empty()) return;
    for (const std::string& line : {older_than_its_run(c_.lora.path), trained_on_other_base(c_.lora.path, c_.model.path)})
      if (!line.empty()) add_warning("{}", line);
  }

  // Warns of a dropout in config.json that this run does not use. config.json has the dropout of its author's training;
  // the option sets the dropout of this run.
  void dropout(const Json& j, const char* option, std::initializer_list<const char*> keys) {
    if (c_.sources.contains(option)) return;
    for (const char* key : keys)
      if (j.contains(key) && j[key].is_number() && j[key].get<double>() > 0)
        add_warning(
            "config.json has {}={}, and this run drops nothing there: {}={} trains as it says, {}=0 says that none is meant",
            key, j[key].dump(), option, j[key].dump(), option);
  }

  void tokenizer() {
    where_ = c_.model.tokenizer.empty() ? c_.model.path : c_.model.tokenizer;
    std::error_code ignored;
    if (where_.empty() || (std::filesystem::is_directory(where_, ignored) && !has_tokenizer(where_))) return;
    if (!tokenizer_) {
      own_ = open_tokenizer(where_);
      tokenizer_ = own_.get();
    }
    vocabulary_ = run_vocabulary(c_, model_config_, tokenizer_->size());
    if (const std::string problem = vocabulary_problem(tokenizer_->size(), vocabulary_); !problem.empty())
      add_warning("{}: ids beyond it have no row in the embedding", problem);
    if (c_.model.path.empty() && vocabulary_ > 2 * tokenizer_->size())
      add_warning(
          "the new model has a vocabulary of {}, the tokenizer {} ids: most rows of the embedding are never used; vocab_size of {} could be smaller",
          vocabulary_, tokenizer_->size(), model_label(c_.model));
    if (c_.data.append_eos && !tokenizer_->special().eos && reads_text())
      add_warning("the tokenizer has no end token (eos), but data.append_eos=true puts it behind each document");
  }

  bool reads_text() const {
    return c_.data.train.empty() || std::any_of(c_.data.train.begin(), c_.data.train.end(),
                                                [](const DataSource& s) { return !holds_ids(source_files(s.path).at(0)); });
  }

  // Warns of a tokenizer that differs from the tokenizer of model.path.
  void foreign_tokenizer() {
    if (!tokenizer_ || c_.model.tokenizer.empty() || c_.model.path.empty()) return;
    if (const std::string foreign = foreign_tokenizer_problem(*tokenizer_, c_.model.tokenizer, c_.model.path); !foreign.empty())
      add_warning("{}", foreign);
  }

  void source(const DataSource& s) {
    const std::string file = source_files(s.path).at(0);
    const RecordFormat format = s.format.value_or(c_.data.format);
    SourceKind kind = source_kind(file);
    if (kind == SourceKind::fixed || kind == SourceKind::mindrecord) return;
    if (kind == SourceKind::indexed) return token_file(s.path, file);
    if (kind == SourceKind::instructions) return instructions(s.path, file);
    if (!tokenizer_) return;
    if (c_.train.objective == TrainObjective::dpo)
      pairs(s.path, file);
    else if (chat_format(format) ||
             (format == RecordFormat::automatic && kind != SourceKind::text && detect_chat_file(file, c_.data.text_key)))
      chats(s.path, file, format);
    else
      documents(s.path, file);
  }

  void chats(const std::string& path, const std::string& file, RecordFormat format) {
    ChatEncoder encoder(*tokenizer_, choose_template(c_.data.chat_template, where_, *tokenizer_, "data.chat_template").chat,
                        c_.data.loss_on);
    if (encoder.end_is_appended())
      add_warning(
          "{}: the chat template ends answers with no special token of this tokenizer; its eos is put behind the last one only (a tokenizer gets those of the template by `ravine tokenizer train --special-tokens ..`)",
          path);
    ChatRecords records(file);
    int64_t n = 0, empty = 0, returns = 0;
    bool keyed = false;
    std::vector<int64_t> lengths;
    std::optional<ChatFormat> known = chat_format(format);
    for (Record r; n < kRecords && records.next(r); ++n) {
      returns += r.body.find("\\r\\n") != std::string::npos;
      std::string where = fmt::format("{} record {}", file, r.number);
      Json j = parse_rendered(r.body, where);
      if (!known) known = detect_chat_format(j);
      keyed = keyed || j.contains(c_.data.text_key);
      EncodedChat e = encoder.encode(read_conversation(j, known.value_or(ChatFormat::alpaca), where), where);
      lengths.push_back(static_cast<int64_t>(e.ids.size()) - 1);
      empty += std::find(e.learned.begin(), e.learned.end(), 1) == e.learned.end();
    }
    share(path, lengths);
    if (chosen_options(c_).contains("data.text_key") && !keyed)
      add_warning("data.text_key={} has no effect on {}: its records are conversations, and have no such key", c_.data.text_key,
                  path);
    if (10 * returns >= n && returns > 0) warn_of_returns(path, file);
    if (10 * empty >= n && empty > 0)
      add_warning("{}: {} of the first {} conversations have no answer to learn", path, empty, n);
  }

  void pairs(const std::string& path, const std::string& file) {
    std::shared_ptr<const ChatTemplate> chat;
    if (holds_conversations_of_preferences(file))
      chat = choose_template(c_.data.chat_template, where_, *tokenizer_, "data.chat_template").chat;
    const PairEncoder encoder(*tokenizer_, chat);
    ChatRecords records(file);
    int64_t n = 0;
    std::vector<int64_t> lengths;
    for (Record r; n < kRecords && records.next(r); ++n) {
      const std::string where = fmt::format("{} record {}", file, r.number);
      const EncodedPair p = encoder.encode(read_preference(parse_rendered(r.body, where), where), where);
      // each answer has half of the columns
      lengths.push_back(2 * static_cast<int64_t>(std::max(p.chosen.ids.size(), p.rejected.ids.size())));
    }
    share(path, lengths);
  }

  // Returns the number of answers in a sequence, each with positions from 0.
  int64_t in_a_sequence() const { return c_.train.objective == TrainObjective::dpo ? 2 : 1; }

  // Checks a file of token ids: some of its ids, and the ends of its first documents.
  void token_file(const std::string& path, const std::string& file) {
    const auto tokens = open_token_file(file, vocabulary_);
    if (!tokenizer_ || !tokenizer_->special().eos) return;
    int64_t n = 0, ended = 0;
    for (; n < std::min<int64_t>(tokens->documents(), kRecords); ++n) {
      int64_t last = tokens->document_begin(n + 1) - 1;
      while (last >= tokens->document_begin(n) && tokens->length(last) == 0) --last;
      int32_t id = -1;
      if (last >= tokens->document_begin(n)) tokens->copy(last, tokens->length(last) - 1, std::span(&id, 1));
      ended += id == *tokenizer_->special().eos;
    }
    if (n > 0 && ended == 0)
      add_warning(
          "{}: none of the first {} documents ends with the tokenizer's end token ({}): a model trained on them never learns to stop (preprocess --append-eod)",
          path, n, tokenizer_->id_to_piece(*tokenizer_->special().eos));
  }

  void instructions(const std::string& path, const std::string& file) {
    const InstructionFiles files({file}, vocabulary_ > 0 ? vocabulary_ : INT32_MAX);
    const int64_t n = std::min(files.count(), kRecords);
    std::vector<int64_t> lengths;
    int64_t empty = 0;
    for (int64_t i = 0; i < n; ++i) {
      lengths.push_back(files.length(i) - 1);
      const InstructionFiles::Row row = files.row(i, std::max<int64_t>(files.length(i), 2));
      empty += std::all_of(row.labels.begin(), row.labels.end(), [](int32_t l) { return l == kIgnored; });
    }
    share(path, lengths);
    if (10 * empty >= n && empty > 0)
      add_warning("{}: {} of the first {} conversations have no answer to learn", path, empty, n);
  }

  void documents(const std::string& path, const std::string& file) {
    auto reader = open_documents(file, c_.data.text_key);
    int64_t n = 0, tokens = 0;
    size_t bytes = 0, ends = 0, returns = 0;
    for (std::string text; n < kRecords && bytes < kBytes && reader->next(text); ++n) {
      auto ids = tokenizer_->encode(text, true);
      bytes += text.size();
      ends += static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
      for (size_t at = 0; (at = text.find("\r\n", at)) != std::string::npos; at += 2) ++returns;
      tokens += std::min<int64_t>(static_cast<int64_t>(ids.size()), c_.data.sequence_length);
    }
    if (returns > 0 && 2 * returns >= ends) warn_of_returns(path, file);
    if (c_.data.pack || n == 0) return;
    if (10 * tokens < n * c_.data.sequence_length && c_.train.micro_batch > 1)
      add_warning("{}: documents fill {} % of a sequence of {}: data.pack=true would join them", path,
                  100 * tokens / (n * c_.data.sequence_length), c_.data.sequence_length);
  }

  void warn_of_returns(const std::string& path, const std::string& file) {
    const SourceKind kind = source_kind(file);
    const bool text = kind == SourceKind::text, json = kind == SourceKind::json || kind == SourceKind::jsonl;
    const std::string how =
        text || json ? fmt::format("; a copy without: {} {} > {}", text ? "tr -d '\\r' <" : R"(sed 's/\\r\\n/\\n/g')",
                                   shell_word(file), shell_word(without_returns(file)))
                     : "; save the table with \\n in its texts";
    add_warning("{}: lines end with \\r\\n, as Windows writes them, and the model learns to write \\r too{}", path, how);
  }

  static std::string without_returns(const std::string& file) {
    const std::filesystem::path path = file;
    return (path.parent_path() / (path.stem().string() + ".lf" + path.extension().string())).string();
  }

  // Warns if many conversations or pairs do not fit, with the length that 95 % of them fit. `lengths`: columns of each.
  void share(const std::string& path, std::vector<int64_t> lengths) {
    const auto n = static_cast<int64_t>(lengths.size());
    auto fits = [&](int64_t length) {
      return std::count_if(lengths.begin(), lengths.end(), [&](int64_t l) { return l <= length; });
    };
    const int64_t longer = n - fits(c_.data.sequence_length);
    if (n == 0 || 10 * longer < n) return;
    std::sort(lengths.begin(), lengths.end());
    int64_t enough = (lengths[static_cast<size_t>((95 * n + 99) / 100 - 1)] + 63) / 64 * 64;
    if (positions_ > 0) enough = std::min(enough, positions_ * in_a_sequence());
    add_warning("{}: {} % of the first {} {} are longer than data.sequence_length={} and are {}{}", path, 100 * longer / n, n,
                in_a_sequence() == 2 ? "pairs" : "conversations", c_.data.sequence_length,
                c_.data.too_long == TooLong::drop ? "left out" : "cut",
                enough > c_.data.sequence_length
                    ? fmt::format("; data.sequence_length={} would keep {} % of them whole", enough, 100 * fits(enough) / n)
                    : "; the model takes no longer ones");
  }

  const Config& c_;
  std::vector<std::string> lines_;
  std::unique_ptr<Tokenizer> own_;
  const Tokenizer* tokenizer_;  // null: no tokenizer, or not open yet
  std::string where_;
  Json model_config_;
  int64_t vocabulary_ = 0, positions_ = 0;
};

}  // namespace

std::vector<std::string> likely_mistakes(const Config& config, const Tokenizer* opened) { return Advice(config, opened).all(); }

std::vector<std::string> idle_options(const Config& c, const Mesh& mesh) {
  std::vector<std::string> lines;
  if (c.parallel.zero > 0 && mesh.data == 1)
    lines.push_back(fmt::format(
        "parallel.zero={} has no effect on one data rank: it divides what several data ranks hold alike", c.parallel.zero));
  if (c.parallel.sequence && mesh.tensor == 1)
    lines.emplace_back("parallel.sequence=true has no effect without tensor ranks (parallel.tensor)");
  if (c.parallel.virtual_stages > 1 && mesh.pipeline == 1)
    lines.push_back(fmt::format("parallel.virtual={} has no effect without pipeline stages (parallel.pipeline)",
                                c.parallel.virtual_stages));
  const PrecisionOptions& p = c.precision;
  const bool f32 = p.compute == DType::f32 || p.compute == DType::f64;
  if (p.gradients == GradientType::compute && f32)
    lines.push_back(
        fmt::format("precision.gradients=compute has no effect with precision.compute={}: gradients are {} as it is",
                    name(*p.compute), name(*p.compute)));
  const bool moves = p.loss_scale ? *p.loss_scale == 0 : p.compute == DType::f16;
  for (const std::string& option : chosen_options(c)) {
    if (!option.starts_with("precision.scale_")) continue;
    if (!moves && p.compute)
      lines.push_back(fmt::format("{} has no effect: {}", option,
                                  p.loss_scale && *p.loss_scale > 0 ? "precision.loss_scale is fixed"
                                                                    : "only gradients of precision.compute=f16 are scaled"));
  }
  for (const std::string& option : unused_options(c, true))
    if (!option.starts_with("precision.scale_") || moves || !p.compute)
      lines.push_back(fmt::format("{} has no effect: it belongs to {}", option, selected_text(*taken_by(option))));
  const bool one_bit = traits_of(c.optimizer.type).is_taken("freeze_step"),
             zero_one = traits_of(c.optimizer.type).is_taken("var_freeze_step");
  if (const int64_t from = zero_one ? c.optimizer.var_freeze_step : c.optimizer.freeze_step; one_bit || zero_one) {
    if (mesh.data == 1)
      lines.push_back(fmt::format("optimizer.type={} on one data rank: nothing is sent", name(c.optimizer.type)));
    else if (from >= c.train.steps)
      lines.push_back(
          fmt::format("optimizer.{}freeze_step={} is not below train.steps={}: optimizer.type={} never sends one bit",
                      zero_one ? "var_" : "", from, c.train.steps, name(c.optimizer.type)));
  }
  return lines;
}

std::vector<std::string> scarce_data(const Config& c, const Dataset& data) {
  std::vector<std::string> lines;
  if (c.data.order != SampleOrder::philox) return lines;
  const int64_t sequences = data.sample_count(), batch = c.train.global_batch;
  if (data.token_count() < data.columns())
    lines.push_back(fmt::format(
        "the data are {}, less than one sequence of {}: the rest of it is padding; give more data, or a smaller data.sequence_length",
        counted(data.token_count(), "token"), data.columns()));
  else if (sequences < batch)
    lines.push_back(fmt::format(
        "the data are {}, a step takes {} (train.global_batch): each step sees them {:.1f} times; give more data, or set train.global_batch={}",
        counted(sequences, "sequence"), batch, static_cast<double>(batch) / static_cast<double>(sequences), sequences));
  return lines;
}

double passes_over(const Config& c, const Dataset& data) {
  if (c.data.order != SampleOrder::philox) return 0;
  return static_cast<double>(c.train.steps) * static_cast<double>(c.train.global_batch) /
         static_cast<double>(data.sample_count());
}

std::string roughly(double seconds) { return seconds < 1 ? "less than 1 s" : "about " + human_time(seconds); }

std::string passes_text(double passes) {
  const std::string number = fmt::format("{:.{}f}", passes, passes < 10 ? 2 : 0);
  return fmt::format("{} {}", number, number == "1.00" ? "pass" : "passes");
}

}  // namespace ravine

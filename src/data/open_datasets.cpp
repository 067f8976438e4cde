#include "data/open_datasets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/counted.h"
#include "base/error.h"
#include "base/narrow_option.h"
#include "data/fixed_batches.h"
#include "data/indexed/indexed_tokens.h"
#include "data/instruct/chat_records.h"
#include "data/instruct/chat_set.h"
#include "data/instruct/instruction_files.h"
#include "data/instruct/pair_set.h"
#include "data/megatron/megatron_dataset.h"
#include "data/mindrecord/mindrecord_dataset.h"
#include "data/mixed_dataset.h"
#include "data/packing.h"
#include "data/pass_end.h"
#include "data/source.h"
#include "data/source_kinds.h"
#include "text/chat/prompt_templates.h"

namespace ravine {

namespace {

class FixedDataset final : public Dataset {
 public:
  explicit FixedDataset(std::vector<std::unique_ptr<FixedBatches>> files) : files_(std::move(files)) {
    for (const auto& f : files_) count_ += f->rows();
  }
  int64_t sample_count() const override { return count_; }
  int64_t columns() const override { return files_[0]->columns(); }
  int64_t token_count() const override { return count_ * columns(); }
  Sample sample(int64_t index) const override {
    auto [file, row] = locate(index);
    return files_[file]->sample(row);
  }
  std::string origin(int64_t index) const override {
    auto [file, row] = locate(index);
    return fmt::format("{} row {}", files_[file]->path(), row);
  }

 private:
  std::pair<size_t, int64_t> locate(int64_t index) const {
    require(index >= 0, "dataset: sample index is 0 or more, got {}", index);
    int64_t row = index % count_;
    size_t file = 0;
    while (row >= files_[file]->rows()) row -= files_[file++]->rows();
    return {file, row};
  }
  std::vector<std::unique_ptr<FixedBatches>> files_;
  int64_t count_ = 0;
};

bool weighted(const std::vector<Files>& sources) {
  return std::any_of(sources.begin(), sources.end(), [](const Files& f) { return f.source.weight.has_value(); });
}

std::unique_ptr<Dataset> open_fixed(const std::vector<Files>& sources, const char* key, const DatasetOptions& options,
                                    int64_t vocabulary, std::vector<std::string>& notes) {
  // A single source with weight 1 is accepted.
  if (weighted(sources) && (sources.size() > 1 || sources[0].source.weight != 1))
    throw UserError("weights do not apply", key, "fixed batch files are taken in order", "remove the weights");
  require(vocabulary > 0, "dataset: fixed batches need the size of the vocabulary, got {}", vocabulary);
  std::vector<std::unique_ptr<FixedBatches>> files;
  for (const auto& s : sources)
    for (const auto& path : s.paths) {
      files.push_back(std::make_unique<FixedBatches>(path, vocabulary, options.max_positions));
      if (files.back()->columns() != options.sequence_length)
        throw UserError(
            "wrong sequence length", path + ": input_ids",
            fmt::format("it has {} columns, data.sequence_length is {}", files.back()->columns(), options.sequence_length),
            fmt::format("set data.sequence_length={}", files.back()->columns()));
      if (const int64_t row = files.back()->joined_row(); row >= 0)
        notes.push_back(fmt::format(
            "{}: position_ids of row {} begin again, and attention crosses there, as in Transformers with an attention_mask; without attention_mask each part is apart",
            path, row));
    }
  return std::make_unique<FixedDataset>(std::move(files));
}

struct Streams {
  std::vector<MixedStream> train, held;
};

// Opens text, conversations and token files of one list, one source after another.
class Opening {
 public:
  // `tokenizer` may be null if all sources are token files.
  Opening(const char* key, const DatasetOptions& o, const Tokenizer* tokenizer, int64_t vocabulary, double held_out,
          Datasets& out)
      : key_(key), o_(o), tokenizer_(tokenizer), vocabulary_(vocabulary), held_out_(held_out), out_(out) {
    SpecialTokens special = tokenizer ? tokenizer->special() : SpecialTokens{};
    padding_ = special.pad.value_or(special.eos.value_or(0));
    if (o.vocabulary > 0 && padding_ >= o.vocabulary) padding_ = 0;
  }

  void text(const Files& g) {
    PackOptions pack{o_.sequence_length, o_.pack, o_.predict_next_block, o_.document_attention, padding_};
    TokenizeOptions t{o_.text_key, o_.append_eos, o_.vocabulary, held_out_, o_.threads, o_.progress};
    TokensInUse tokens;
    std::optional<TokenizedFiles> files;
    if (!o_.token_folder.empty()) {
      tokens.key = token_key(g.paths, *tokenizer_, t);
      files = load_tokens(o_.token_folder, tokens.key, g.paths, *tokenizer_);
      tokens.fresh = !files;
    }
    if (!files) files.emplace(tokenize_files(g.paths, *tokenizer_, t));
    if (files->empty > 0)
      out_.notes.push_back(fmt::format("{}: {} with an empty text left out", g.source.path, counted(files->empty, "record")));
    tokens.train = std::make_shared<const TokenStore>(std::move(files->train));
    tokens.held_out = std::make_shared<const TokenStore>(std::move(files->held_out));
    if (!o_.token_folder.empty()) out_.tokens.push_back(tokens);
    if (std::any_of(g.paths.begin(), g.paths.end(),
                    [](const std::string& path) { return source_kind(path) == SourceKind::text; }))
      out_.notes.push_back(fmt::format("{}: text that runs on from line to line, in {} (preprocess makes one of each line)",
                                       g.source.path,
                                       counted(tokens.train->documents() + tokens.held_out->documents(), "document")));
    size_t hinted = 0;
    for (const std::string& path : g.paths)
      if (source_kind(path) != SourceKind::text && hinted++ < kFilesNamed) note_fields(path, format_of(g.source, o_));
    add(g, std::make_unique<PackedSamples>(tokens.train, pack),
        held_out_ > 0 ? std::make_unique<PackedSamples>(tokens.held_out, pack) : nullptr);
  }

  // Adds the tokens of records as samples for training and validation; the tokens are loaded from the cache by key(),
  // or read now.
  template <class Samples, class Key, class Read>
  TokensInUse add_tokens(const Files& g, Key&& key, Read&& read) {
    TokensInUse tokens;
    std::optional<ChatSet> set;
    if (!o_.token_folder.empty()) {
      tokens.key = key();
      set = load_chats(o_.token_folder, tokens.key, g.paths, *tokenizer_);
      tokens.fresh = !set;
    }
    if (!set) set.emplace(read());
    tokens.chats = std::make_shared<const ChatStore>(std::move(set->train));
    tokens.held_out_chats = std::make_shared<const ChatStore>(std::move(set->held_out));
    tokens.files = g.paths;
    tokens.counts = set->counts;
    tokens.format = set->format;
    if (!o_.token_folder.empty()) out_.tokens.push_back(tokens);
    const ChatLayout layout{o_.sequence_length, o_.pack, padding_};
    add(g, std::make_unique<Samples>(tokens.chats, layout),
        held_out_ > 0 ? std::make_unique<Samples>(tokens.held_out_chats, layout) : nullptr);
    return tokens;
  }

  void chats(const Files& g) {
    if (!encoder_) {
      ChosenTemplate chosen = choose_template(o_.chat_template, o_.tokenizer_path, *tokenizer_, "data.chat_template");
      out_.chat_template = chosen.source;
      out_.chat_fingerprint = chosen.chat->fingerprint();
      encoder_ = std::make_unique<ChatEncoder>(*tokenizer_, std::move(chosen.chat), o_.loss_on);
      out_.end_token = encoder_->end_token();
      out_.notes.push_back(
          fmt::format("answers end with {} (id {}){}", tokenizer_->id_to_piece(encoder_->end_token()), encoder_->end_token(),
                      encoder_->end_is_appended() ? ", the tokenizer's eos: the chat template has no end token" : ""));
    }
    ChatSetOptions c{format_of(g.source, o_), o_.sequence_length + 1, o_.too_long, o_.vocabulary, held_out_, o_.progress,
                     o_.max_positions};
    const TokensInUse tokens = add_tokens<ChatSamples>(
        g, [&] { return chats_key(g.paths, *tokenizer_, *encoder_, c); },
        [&] { return read_chats(g.paths, *tokenizer_, *encoder_, c); });
    out_.notes.push_back(fmt::format("{} ({}): {}, in {}", g.source.path, name(tokens.format), tokens.counts.text(),
                                     counted(streams.train.back().samples->count(), "sequence")));
    if (const std::string w = tokens.counts.warning(); !w.empty())
      out_.warnings.push_back(fmt::format("{}: {}", g.source.path, w));
  }

  // Opens preference records. Both answers of a pair share a sequence, so each may have half of it.
  void pairs(const Files& g) {
    std::shared_ptr<const ChatTemplate> chat;
    if (holds_conversations_of_preferences(g.paths[0])) {
      if (!pair_template_) {
        ChosenTemplate chosen = choose_template(o_.chat_template, o_.tokenizer_path, *tokenizer_, "data.chat_template");
        pair_template_ = std::move(chosen.chat);
        out_.chat_template = chosen.source;
        out_.chat_fingerprint = pair_template_->fingerprint();
      }
      chat = pair_template_;
    }
    const PairEncoder encoder(*tokenizer_, chat);
    if (o_.sequence_length < 4)
      throw UserError("too short for a pair", "data.sequence_length",
                      fmt::format("it holds both answers of a pair, got {}", o_.sequence_length), "set a larger one");
    ChatSetOptions c{RecordFormat::automatic, o_.sequence_length / 2, o_.too_long, o_.vocabulary, held_out_, o_.progress};
    const TokensInUse tokens = add_tokens<PairSamples>(
        g, [&] { return pairs_key(g.paths, *tokenizer_, encoder, c); },
        [&] { return read_pairs(g.paths, *tokenizer_, encoder, c); });
    out_.notes.push_back(fmt::format("{} (preferences): {}, in {}", g.source.path, pair_counts_text(tokens.counts),
                                     counted(streams.train.back().samples->count(), "sequence")));
    if (const std::string w = pair_counts_warning(tokens.counts); !w.empty())
      out_.warnings.push_back(fmt::format("{}: {}", g.source.path, w));
  }

  void indexed(const Files& g) {
    if (held_out_ > 0)
      throw UserError(
          "nothing to hold out", "data.valid_fraction", "token files are taken whole",
          "set data.valid_fraction=0; then data.valid may name a validation prefix, or data.order=megatron cut them by data.split");
    PackOptions pack{o_.sequence_length, o_.pack, o_.predict_next_block, o_.document_attention, padding_};
    add(g, std::make_unique<PackedSamples>(std::make_shared<const IndexedTokens>(g.paths, vocabulary_), pack), nullptr);
  }

  // Opens the files of `ravine preprocess --handler`, which contain the labels already.
  void instructions(const Files& g) {
    if (o_.loss_on != LossOn::answers)
      throw UserError("the labels are in the files already", fmt::format("{}: {}", key_, g.source.path),
                      fmt::format("data.loss_on={} cannot change them", name(o_.loss_on)),
                      "leave data.loss_on out, or train on the records themselves");
    auto files = std::make_shared<const InstructionFiles>(g.paths, vocabulary_);
    InstructionChoice c = choose_instructions(*files, {RecordFormat::automatic, o_.sequence_length + 1, o_.too_long,
                                                       vocabulary_, held_out_, nullptr, o_.max_positions});
    ChatLayout layout{o_.sequence_length, o_.pack, padding_};
    auto samples = [&](std::vector<int64_t>& chosen) {
      return std::make_unique<InstructionSamples>(files, std::move(chosen), layout);
    };
    add(g, samples(c.train), held_out_ > 0 ? samples(c.held_out) : nullptr);
    out_.notes.push_back(fmt::format("{} (instruction files): {}, in {}", g.source.path, c.counts.text(),
                                     counted(streams.train.back().samples->count(), "sequence")));
    if (const std::string w = c.counts.warning(); !w.empty()) out_.warnings.push_back(fmt::format("{}: {}", g.source.path, w));
    InstructionEnd end = instruction_end(c, tokenizer_, o_.tokenizer_path);
    if (!out_.end_token) out_.end_token = end.token;
    if (!end.note.empty()) out_.notes.push_back(std::move(end.note));
  }

  Streams streams;

 private:
  static constexpr size_t kFilesNamed = 4;  // named in notes, per source

  // Notes which field of the records is used and which are not. Warns if records of conversations are used as plain
  // text.
  void note_fields(const std::string& path, RecordFormat format) {
    Record first;
    if (!ChatRecords(path).next(first)) return;
    const Json record = first.json();
    std::vector<std::string> others;
    for (const auto& [key, value] : record.items())
      if (key != o_.text_key) others.push_back(key.substr(0, 80));
    constexpr size_t kKeysNamed = 8;
    const size_t more = others.size() - std::min(others.size(), kKeysNamed);
    others.resize(others.size() - more);
    out_.notes.push_back(fmt::format("{}: the text under '{}'{}", path, o_.text_key,
                                     others.empty() ? ""
                                                    : fmt::format("; not used: {}{}", fmt::join(others, ", "),
                                                                  more ? fmt::format(" and {} more", more) : "")));
    if (format == RecordFormat::text || o_.text_key == "text") return;
    if (const auto form = detect_chat_format(record))
      out_.warnings.push_back(fmt::format(
          "{}: only '{}' is trained on, as plain text, though the records are conversations ({}): leave data.text_key out to learn their answers, or set data.format=text",
          path, o_.text_key, name(*form)));
    else
      try {
        refuse_chat_slip(record, path);
      } catch (const UserError& e) {
        out_.warnings.push_back(fmt::format("only '{}' is trained on, as plain text: {}", o_.text_key, e.what()));
      }
  }

  void add(const Files& g, std::unique_ptr<SampleStream> train, std::unique_ptr<SampleStream> held) {
    if (train->count() == 0)
      throw UserError("too little data", fmt::format("{}: {}", key_, g.source.path),
                      "at least two tokens are needed for a prediction", "give more text");
    streams.train.push_back({g.source.path, g.source.weight.value_or(1), std::move(train)});
    if (held && held->count() > 0) streams.held.push_back({g.source.path, 1, std::move(held)});
  }

  const char* key_;
  const DatasetOptions& o_;
  const Tokenizer* tokenizer_;
  int64_t vocabulary_;
  double held_out_;
  int32_t padding_ = 0;
  std::unique_ptr<ChatEncoder> encoder_;
  std::shared_ptr<const ChatTemplate> pair_template_;
  Datasets& out_;
};

// Joins the sources of a list without weights: all text becomes one source, and so do all token files. Lists that are
// not trained on are always joined.
std::vector<Files> joined(const std::vector<Files>& sources) {
  std::vector<Files> out;
  std::map<Files::Kind, size_t> first;
  for (const Files& f : sources) {
    auto [it, fresh] = first.emplace(f.kind, out.size());
    if (f.kind == Files::chats || f.kind == Files::pairs || f.kind == Files::instructions || fresh) {
      out.push_back(f);
      continue;
    }
    Files& t = out[it->second];
    t.source.path += ", " + f.source.path;
    t.paths.insert(t.paths.end(), f.paths.begin(), f.paths.end());
  }
  return out;
}

// Opens a list of text and conversations as out.train. If `held_out` is above 0, the held-out part becomes out.valid.
void open_read(const std::vector<Files>& sources, const char* key, const DatasetOptions& o, const Tokenizer* tokenizer,
               int64_t vocabulary, double held_out, bool train, Datasets& out) {
  bool blend = train && weighted(sources);
  Opening opening(key, o, tokenizer, vocabulary, held_out, out);
  double sum = 0, least = sources[0].source.weight.value_or(1);
  for (const Files& g : blend ? sources : joined(sources)) {
    switch (g.kind) {
      case Files::chats:
        opening.chats(g);
        break;
      case Files::pairs:
        opening.pairs(g);
        break;
      case Files::indexed:
        opening.indexed(g);
        break;
      case Files::instructions:
        opening.instructions(g);
        break;
      default:
        opening.text(g);
    }
    const double weight = g.source.weight.value_or(1);
    sum += weight;
    least = std::min(least, weight);
  }
  if (blend && least / sum < 1.0 / 32768)
    throw UserError("weight too small", key, fmt::format("{} is less than 1/32768 of all", least),
                    "leave the source out or raise its weight");
  auto seed = train && o.shuffle ? std::optional(o.seed) : std::nullopt;
  out.train = std::make_unique<MixedDataset>(std::move(opening.streams.train), blend, seed, o.sequence_length);
  if (held_out == 0) return;
  if (opening.streams.held.empty())
    throw UserError("too little data", "data.valid_fraction", "the held-out part is too short for a prediction",
                    "raise it or name files in data.valid");
  out.valid = std::make_unique<MixedDataset>(std::move(opening.streams.held), false, std::nullopt, o.sequence_length);
}

// Returns the number of samples that Megatron requests for validation, if a validation takes train.valid_batches micro
// batches; -1 (one epoch) if it takes all. On overflow, INT64_MAX.
int64_t valid_samples(const TrainOptions& t) {
  if (t.valid_every == 0) return 0;
  if (t.valid_batches == 0) return -1;
  int64_t samples = t.steps / t.valid_every + 1;
  if (__builtin_mul_overflow(samples, t.valid_batches, &samples) || __builtin_mul_overflow(samples, t.micro_batch, &samples))
    return INT64_MAX;
  return samples;
}

// Megatron orders build an index of all samples that a run requests.
void check_valid_samples(const Config& config) {
  constexpr int64_t kMost = int64_t{1} << 40;
  if (config.data.order != SampleOrder::philox && valid_samples(config.train) > kMost)
    throw UserError(
        "too many samples for validation", "train.valid_batches",
        fmt::format(
            "with train.steps={} and train.valid_every={} a run would take {} micro batches of {} each time, more than {} samples in all",
            config.train.steps, config.train.valid_every, config.train.valid_batches, config.train.micro_batch, kMost),
        "lower it, or set train.valid_batches=0 for one epoch");
}

}  // namespace

DatasetOptions dataset_options(const Config& config, int64_t vocabulary) {
  check_valid_samples(config);
  DatasetOptions o{config.data};
  o.pairs = config.train.objective == TrainObjective::dpo;
  o.tokenizer_path = config.model.tokenizer.empty() ? config.model.path : config.model.tokenizer;
  o.seed = static_cast<uint64_t>(config.data.order_seed < 0 ? config.train.seed : config.data.order_seed);
  o.vocabulary = vocabulary;
  o.threads = narrow_option<int>(config.train.threads, "train.threads");
  if (o.cache) o.token_folder = config.train.output + "/tokens";
  o.batch = config.train.global_batch;
  o.micro_batch = config.train.micro_batch;
  o.rows_at_once = config.train.micro_batch * std::max<int64_t>(1, config.parallel.data);
  o.train_samples = config.train.steps * config.train.global_batch;
  o.valid_samples = valid_samples(config.train);
  return o;
}

bool needs_tokenizer(const DatasetOptions& o) {
  if (o.order != SampleOrder::philox) return (o.reset_position_ids || o.reset_attention_mask || o.eod_mask_loss) && o.eod < 0;
  for (const auto* list : {&o.train, &o.valid})
    for (const auto& s : *list)
      for (const auto& file : source_files(s.path))
        if (!holds_ids(file)) return true;
  return false;
}

namespace {

// Warns of options for kinds of data that no source holds.
void note_idle_options(const DatasetOptions& o, const std::vector<Files>& train, const std::vector<Files>& valid, Datasets& d) {
  auto holds = [&](std::initializer_list<Files::Kind> kinds) {
    auto is = [&](const Files& f) { return std::find(kinds.begin(), kinds.end(), f.kind) != kinds.end(); };
    return std::any_of(train.begin(), train.end(), is) || std::any_of(valid.begin(), valid.end(), is);
  };
  auto note = [&](bool is_set, bool used, const std::string& option, const char* why) {
    if (is_set && !used) d.warnings.push_back(fmt::format("{} has no effect: {}", option, why));
  };
  const DataOptions plain;
  note(!o.chat_template.empty(), holds({Files::chats, Files::pairs}), "data.chat_template=" + o.chat_template,
       "no source holds conversations that it would render");
  note(o.loss_on != plain.loss_on, holds({Files::chats, Files::instructions}), fmt::format("data.loss_on={}", name(o.loss_on)),
       "no source holds conversations, and of plain text all is learned");
  note(o.too_long != plain.too_long, holds({Files::chats, Files::pairs, Files::instructions}),
       fmt::format("data.too_long={}", name(o.too_long)),
       "no source holds conversations, and plain text goes on in the next sequence");
  note(o.text_key != plain.text_key, holds({Files::text, Files::chats}), "data.text_key=" + o.text_key,
       "no source holds records of text");
}

}  // namespace

Datasets open_datasets(const DatasetOptions& o, const Tokenizer* tokenizer) {
  if (o.train.empty())
    throw UserError("no training data", "data.train", "it must name at least one source", "set data.train=[FILE]");
  if (o.sequence_length < 1 || o.sequence_length > 1 << 24)
    throw UserError("wrong sequence length", "data.sequence_length", fmt::format("1 to {}, got {}", 1 << 24, o.sequence_length),
                    "choose another length");
  if (!(o.valid_fraction >= 0 && o.valid_fraction < 1))
    throw UserError("wrong share", "data.valid_fraction", fmt::format("0 <= share < 1, got {}", o.valid_fraction),
                    "choose another share");
  // Checked even if no source uses it.
  if (!o.chat_template.empty()) check_template_name(o.chat_template, "data.chat_template");
  if (o.order != SampleOrder::philox && o.pass_end != PassEnd::go_on)
    throw UserError(fmt::format("data.pass_end={}", name(o.pass_end)), "data.pass_end",
                    fmt::format("data.order={} has its own rule for the end of a pass", name(o.order)),
                    "leave it out, or set data.order=philox");
  if (o.order == SampleOrder::mindspore || o.order == SampleOrder::mindspore_whole) return open_mindrecord_datasets(o);
  if (o.order != SampleOrder::philox) return open_megatron_datasets(o, tokenizer);
  refuse_megatron_options(o);
  Datasets d;
  bool fixed = false, valid_fixed = false;
  auto train = expand(o.train, "data.train", o, &fixed);
  auto valid = expand(o.valid, "data.valid", o, &valid_fixed);
  auto is_read = [](const Files& f) { return f.kind == Files::text || f.kind == Files::chats || f.kind == Files::pairs; };
  if (!tokenizer && (std::any_of(train.begin(), train.end(), is_read) || std::any_of(valid.begin(), valid.end(), is_read)))
    throw UserError("no tokenizer", "model", "text data needs one",
                    "give a model folder with tokenizer.model, or model.tokenizer");
  int64_t vocabulary = o.vocabulary > 0 ? o.vocabulary : tokenizer ? tokenizer->size() : 0;
  double held_out = valid.empty() ? o.valid_fraction : 0;
  if (fixed && held_out > 0)
    throw UserError("nothing to hold out", "data.valid_fraction", "fixed batch files are taken whole",
                    "set data.valid_fraction=0; then data.valid may name validation files");
  note_idle_options(o, train, valid, d);
  if (fixed)
    d.train = open_fixed(train, "data.train", o, vocabulary, d.notes);
  else
    open_read(train, "data.train", o, tokenizer, vocabulary, held_out, true, d);
  if (!valid.empty() && valid_fixed) {
    d.valid = open_fixed(valid, "data.valid", o, vocabulary, d.notes);
  } else if (!valid.empty()) {
    Datasets v;
    open_read(valid, "data.valid", o, tokenizer, vocabulary, 0, false, v);
    d.valid = std::move(v.train);
    d.tokens.insert(d.tokens.end(), v.tokens.begin(), v.tokens.end());
    for (auto [from, to] : {std::pair(&v.notes, &d.notes), std::pair(&v.warnings, &d.warnings)})
      for (std::string& line : *from)
        if (std::find(to->begin(), to->end(), line) == to->end()) to->push_back(std::move(line));
    if (!d.end_token) d.end_token = v.end_token, d.chat_template = v.chat_template;
  }
  d.train = end_passes(std::move(d.train), o.pass_end, o.rows_at_once, o.micro_batch, o.batch);
  return d;
}

}  // namespace ravine

// The section data of a run's options: what is read, how it is cut and mixed.
#pragma once
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "config/bounds.h"
#include "config/choices.h"
#include "config/option.h"

namespace ravine {

// Names of the chat templates that the program has (text/chat/prompt_templates.h).
inline constexpr const char* kTemplateNames[] = {"alpaca", "chatml",  "qwen",  "default", "empty",    "llama2",
                                                 "llama3", "mistral", "gemma", "glm4",    "deepseek", "vicuna"};
inline std::vector<std::string> template_words() { return {std::begin(kTemplateNames), std::end(kTemplateNames)}; }

struct DataSource {
  std::string path;
  std::optional<double> weight;  // none: not given, which is another thing than 1
  std::optional<RecordFormat> format;
  template <class V>
  void each(V&& v) {
    v("path", path, "file, folder, pattern or .bin/.idx prefix", bare() & filled() & reads_folder());
    v("weight", weight,
      "share of this source among all, relative, such as counts of tokens; none: 1 beside a source that has one, and if none has one the sources are taken as they are",
      no_value("none") & between(1e-9, 1e15));
    v("format", format, "as data.format, for this source; empty: data.format", no_value(""));
  }
};

// A weight for each source, 1 for those without; empty if no source has one.
std::vector<double> source_weights(const std::vector<DataSource>& sources);

// What samples Megatron's GPT dataset makes of token files: for training in its order, and for `ravine data index`.
struct MegatronOptions {
  int64_t sequence_length = 1024;  // predictions of a sample
  std::string split = "969,30,1";
  bool reset_position_ids = false, reset_attention_mask = false, eod_mask_loss = false;
  int64_t eod = -1;         // end-of-document id; needed by the three above
  std::string index_cache;  // folder of index files; empty: none
};

enum class PassEnd : uint8_t { go_on, short_step, drop };
constexpr auto names_of(PassEnd) {
  using enum PassEnd;
  return std::to_array<ValueName<PassEnd>>({{go_on, "go-on"}, {short_step, "short"}, {drop, "drop"}});
}

struct DataOptions : MegatronOptions {
  std::vector<DataSource> train, valid;
  double valid_fraction = 0;
  std::string text_key = "text", chat_template;
  RecordFormat format = RecordFormat::automatic;
  LossOn loss_on = LossOn::answers;
  TooLong too_long = TooLong::cut;
  PassEnd pass_end = PassEnd::go_on;
  bool pack = true, predict_next_block = true, document_attention = false, append_eos = true, shuffle = true;
  std::vector<int64_t> skip_steps;
  int64_t prefetch = 4;
  bool cache = true;
  SampleOrder order = SampleOrder::philox;
  int64_t pad = -1, samples = 0, order_seed = -1;
  bool labels = true;
  template <class V>
  void each(V&& v) {
    v("train", train, "training sources: paths, or {path: PATH, weight: W, format: F}", may_change());
    v("valid", valid, "validation sources, written like data.train", may_change());
    v("valid_fraction", valid_fraction, "part of the training documents held out for validation when data.valid is empty",
      at_least(1e-6) & below(1) & or_zero() & fixed());
    v("sequence_length", sequence_length, "tokens of a sequence; for fixed batch files the columns of input_ids",
      between(2, kMostTokens) & may_change());
    v("text_key", text_key, "field of a JSON line that holds the text", filled() & fixed());
    v("format", format,
      "what JSON records are: text under data.text_key; conversations of the form alpaca, sharegpt or messages; auto: the first record tells",
      fixed());
    v("chat_template", chat_template,
      "how conversations become text: a name (alpaca, chatml, llama3, ..) or a file of Jinja; empty: the chat template of the tokenizer",
      reads() & or_words(template_words()) & fixed());
    v("loss_on", loss_on, "tokens of a conversation that are learned: those of all answers, of the last one, or all tokens",
      fixed());
    v("too_long", too_long,
      "conversations that do not fit into a sequence: cut off behind it, or left out; either is counted and reported", fixed());
    v("pack", pack,
      "join documents or conversations until a sequence is full; false: one per sequence, padded to the longest of the micro batch",
      fixed());
    v("predict_next_block", predict_next_block,
      "whether the last token of a full sequence of joined text predicts the first of the next one; false: it predicts nothing, as in the scripts of Transformers",
      fixed());
    v("document_attention", document_attention,
      "keep attention inside documents of a packed sequence; conversations are always kept apart, and so are the parts of a row whose position_ids begin again",
      fixed());
    v("append_eos", append_eos, "end each document with the end-of-sequence token", fixed());
    v("shuffle", shuffle, "take sequences in an order drawn from data.seed; fixed batch files keep theirs", fixed());
    v("seed", order_seed, "seed of the order of sequences; -1: train.seed", at_least(-1) & fixed());
    v("pass_end", pass_end,
      "rows at the end of a pass that fill no step: go-on: the step takes the first of the next pass too; short: they are a step of their own; drop: the same without a micro batch that is not full",
      fixed());
    v("skip_steps", skip_steps, "steps (from 1) whose batch is left out; every other batch stays where it was",
      between(1, kMostSteps) & may_change());
    v("prefetch", prefetch, "micro batches prepared ahead of the one in use", between(0, kMostMicroBatches) & may_change());
    v("cache", cache, "keep the tokens of text and conversations in train.output/tokens for the next start", may_change());
    v("order", order,
      "order of the samples: philox needs no index; megatron and megatron-2023 give those of Megatron-core and of Megatron-LM in 2023, from .bin/.idx prefixes; mindspore that of MindSpore, from MindRecord files, and mindspore-whole that of MindSpore without shards (num_shards)",
      fixed());
    v("pad", pad, "of MindRecord files: the id of padding, behind which nothing is predicted; -1: none",
      between(-1, INT32_MAX) & fixed());
    v("samples", samples,
      "how many rows an epoch has: of MindRecord files the first in its order; under a Megatron order so many are drawn, and each epoch has them again; 0: all",
      between(0, 1e12) & fixed());
    v("labels", labels, "of MindRecord files: whether a column labels counts; false: the ids themselves are predicted",
      fixed());
    v("split", split, "shares of train, valid and test under a Megatron order, when data.valid is empty", fixed());
    v("index_cache", index_cache,
      "folder of index files as Megatron names them, read and written; empty: indices stay in memory", writes() & may_change());
    v("reset_position_ids", reset_position_ids, "under a Megatron order: positions begin again behind each end of a document",
      fixed());
    v("reset_attention_mask", reset_attention_mask, "under a Megatron order: attention stays inside documents", fixed());
    v("eod_mask_loss", eod_mask_loss, "under a Megatron order: ends of documents predict nothing", fixed());
    v("eod", eod, "id that ends a document for the three above; -1: the end token of the tokenizer",
      between(-1, INT32_MAX) & fixed());
  }
};

}  // namespace ravine

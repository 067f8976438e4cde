// Section data: sources of training data, and how they are tokenized, cut and mixed.
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

// Names of the built-in chat templates (text/chat/prompt_templates.h).
inline constexpr const char* kTemplateNames[] = {"alpaca", "chatml",  "qwen",  "default", "empty",    "llama2",
                                                 "llama3", "mistral", "gemma", "glm4",    "deepseek", "vicuna"};
inline std::vector<std::string> template_words() { return {std::begin(kTemplateNames), std::end(kTemplateNames)}; }

struct DataSource {
  std::string path;
  std::optional<double> weight;  // nothing: not set, which differs from 1 (see detail)
  std::optional<RecordFormat> format;
  template <class V>
  void each(V&& v) {
    v("path", path, "file, folder, pattern or .bin/.idx prefix", bare() & filled() & reads_folder());
    v("weight", weight, "share of this source in the samples, relative to the other sources",
      no_value("none") & between(1e-9, 1e15) &
          detail(
              "If no source has a weight, all sources are taken as they are. If one has a weight, a source without a weight has weight 1."));
    v("format", format, "as data.format, for this source; empty: data.format", no_value(""));
  }
};

// Returns a weight for each source, 1 for a source without one; empty if no source has a weight.
std::vector<double> source_weights(const std::vector<DataSource>& sources);

// The samples of Megatron's GPT dataset over token files: for training in its order, and for `ravine data index`.
struct MegatronOptions {
  int64_t sequence_length = 1024;  // tokens to predict per sample
  std::string split = "969,30,1";
  bool reset_position_ids = false, reset_attention_mask = false, eod_mask_loss = false;
  int64_t eod = -1;         // end-of-document id, needed by the three options above
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
    v("train", train, "training sources: paths, or {path: PATH, weight: W, format: F}", may_change() & common());
    v("valid", valid, "validation sources, written like data.train", may_change() & common());
    v("valid_fraction", valid_fraction, "share of the training documents for validation, if data.valid is empty",
      at_least(1e-6) & below(1) & or_zero() & fixed());
    v("sequence_length", sequence_length, "tokens per sequence; for fixed batch files: the columns of input_ids",
      between(2, kMostTokens) & may_change() & common());
    v("text_key", text_key, "field of a JSON line that holds the text", filled() & fixed() & common());
    v("format", format, "content of JSON records: text, or conversations (alpaca, sharegpt, messages); auto: detected",
      fixed() & common() & detail("Text stands under data.text_key. auto decides by the first record."));
    v("chat_template", chat_template, "chat template: a name (alpaca, chatml, ..) or a Jinja file; empty: the tokenizer's",
      reads() & or_words(template_words()) & fixed() & common());
    v("loss_on", loss_on, "tokens of a conversation to learn: all answers, the last answer, or all tokens", fixed());
    v("too_long", too_long, "conversations that are longer than a sequence: cut them, or drop them",
      fixed() & detail("The log counts the conversations that are cut or dropped."));
    v("pack", pack, "join documents until a sequence is full; false: one document per sequence, padded",
      fixed() & detail("Conversations are joined too. Padding ends at the longest sequence of the micro batch."));
    v("predict_next_block", predict_next_block,
      "let the last token of a full sequence predict the first token of the next sequence",
      fixed() & detail("false: this token predicts nothing, as in the training scripts of Transformers."));
    v("document_attention", document_attention, "keep attention inside the documents of a packed sequence",
      fixed() &
          detail("Conversations are always kept apart. The parts of a row whose position_ids begin again are kept apart too."));
    v("append_eos", append_eos, "add the end-of-sequence token to each document", fixed());
    v("shuffle", shuffle, "shuffle the sequences by data.seed; fixed batch files keep their order", fixed());
    v("seed", order_seed, "seed of the order of sequences; -1: train.seed", at_least(-1) & fixed());
    v("pass_end", pass_end, "rows at the end of an epoch that fill no step: go-on, short or drop",
      fixed() &
          detail(
              "go-on: the step takes rows of the next epoch too. short: these rows are a step of their own. drop: as short, without a micro batch that is not full."));
    v("skip_steps", skip_steps, "numbers of steps (from 1) whose batch is skipped; the other batches do not move",
      between(1, kMostSteps) & may_change());
    v("prefetch", prefetch, "micro batches to prepare ahead of the one in use", between(0, kMostMicroBatches) & may_change());
    v("cache", cache, "keep the tokens of text and conversations in train.output/tokens for the next start", may_change());
    v("order", order, "order of the samples: philox, or that of Megatron or MindSpore",
      fixed() &
          detail(
              "megatron: Megatron-core, megatron-2023: Megatron-LM of 2023, both from .bin/.idx prefixes. mindspore: MindSpore, from MindRecord files; mindspore-whole: the same without shards (num_shards)."));
    v("pad", pad, "MindRecord files: id of padding, behind which nothing is predicted; -1: none",
      between(-1, INT32_MAX) & fixed());
    v("samples", samples, "samples per epoch; 0: all",
      between(0, 1e12) & fixed() &
          detail(
              "Of MindRecord files the first samples of the order are taken. Under a Megatron order so many samples are drawn, and each epoch has the same samples."));
    v("labels", labels, "MindRecord files: predict the column labels; false: predict the ids themselves", fixed());
    v("split", split, "shares of train, valid and test under a Megatron order, when data.valid is empty", fixed());
    v("index_cache", index_cache,
      "folder of index files as Megatron names them, read and written; empty: indices stay in memory", writes() & may_change());
    v("reset_position_ids", reset_position_ids, "Megatron orders: restart positions after each end of a document", fixed());
    v("reset_attention_mask", reset_attention_mask, "Megatron orders: keep attention inside documents", fixed());
    v("eod_mask_loss", eod_mask_loss, "Megatron orders: ends of documents predict nothing", fixed());
    v("eod", eod, "id that ends a document, for Megatron orders; -1: the end token of the tokenizer",
      between(-1, INT32_MAX) & fixed());
  }
};

}  // namespace ravine

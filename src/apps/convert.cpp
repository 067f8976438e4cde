#include "io/convert/convert.h"

#include <algorithm>
#include <filesystem>

#include "apps/command.h"
#include "apps/stop_signals.h"
#include "base/counted.h"
#include "base/log.h"
#include "base/program_name.h"
#include "base/shell_word.h"
#include "base/text.h"
#include "files/tensor_file.h"
#include "files/tokenizer_files.h"
#include "io/model_folder.h"
#include "optim/schedule.h"
#include "runs/run_paths.h"
#include "runs/vocabulary.h"
#include "text/chat/chat_template.h"
#include "text/tokenizers/open_tokenizer.h"
#include "text/tokenizers/sentencepiece_json.h"

namespace ravine {
namespace {

struct ConvertFlags {
  ConvertOptions options;
  std::vector<int64_t> zero;  // empty: not given
  int64_t threads = 0;
  template <class V>
  void each(V&& v) {
    ConvertOptions& o = options;
    v("input", o.input, "Hugging Face folder, or checkpoint of Megatron, DeepSpeed, MindFormers (also a .ckpt) or Ravine",
      required() & metavar("PATH") & reads_folder());
    v("output", o.output, "folder to write; it appears complete or not at all (not needed with --dry-run)",
      filled() & metavar("DIR") & writes());
    v("to", o.to, "layout to write", required());
    v("from", o.from, "layout of the input; auto: recognized by its files", no_value(kAuto));
    v.heading("Layouts of other programs");
    v("tensor", o.tensor, "tensor ranks of the Megatron or MindFormers folder to write", between(1, 1000));
    v("pipeline", o.pipeline, "pipeline ranks of the Megatron folder", between(1, 1000));
    v("virtual", o.virtual_stages, "virtual stages per pipeline rank", between(1, 1000));
    v("stage-layers", o.stage_layers, "layers of each stage of the Megatron folder, like 3 5; none: equal numbers",
      between(1, 100000) & metavar("N .."));
    v("vocab-multiple", o.vocabulary_multiple,
      "Megatron: rows of the vocabulary are padded to a multiple of this times --tensor; 0: 128", between(0, 1 << 20));
    v("experts", o.experts, "Megatron: experts of a layer in one module (--moe-grouped-gemm), or in a module each");
    v("fused", o.fused, "MindFormers: q, k, v as one matrix per layer, gate and up too (qkv_concat)");
    v("zero", zero, "DeepSpeed: ZeRO stage of the checkpoint to write; default: 2", between(0, 3) & length(1) & metavar("N"));
    v("ranks", o.ranks, "data ranks of a DeepSpeed or Megatron checkpoint; DeepSpeed resumes with the same number only",
      between(1, 100000));
    v("universal", o.universal,
      "DeepSpeed: a universal checkpoint, for any stage and number of ranks (checkpoint.load_universal)");
    v("optimizer", o.optimizer, "convert optimizer states and the step too",
      detail(
          "To ravine, from DeepSpeed ZeRO, Megatron, MindFormers and Ravine: the run of the input goes on. To Megatron, from a Ravine checkpoint."));
    v("distributed-optimizer", o.distributed,
      "with --optimizer: write distrib_optim.pt, for Megatron's --use-distributed-optimizer");
    v.heading("Weights");
    v("adapter", o.adapter, "adapter of PEFT or ModelLink to merge into the weights", metavar("DIR") & reads_folder());
    v("dtype", o.dtype, "number format of the weights to write; none: as stored",
      one_of<DType>({std::nullopt, DType::f32, DType::bf16, DType::f16}));
    v("model-config", o.model_config, "config.json, if the input has none or another vocabulary; with --to peft: of the base",
      metavar("FILE") & reads());
    v("vocab-size", o.vocabulary, "Megatron input: rows of the vocabulary, if its files do not say it; 0: not known",
      between(0, 1 << 30) & detail("The rows behind them are padding and are cut."));
    v("resize-vocab", o.resize_vocabulary, "rows of embedding and head; new rows are the mean of the old rows; 0: unchanged",
      between(0, 1 << 30));
    v("upcycle", o.upcycle, "with --to hf: turn a dense model into a mixture of experts, like experts=8,top_k=2",
      filled() & metavar("SPEC") & detail("Each expert is a copy of the MLP. Routers are drawn from seed=S, 0 by default."));
    v.heading("");
    v("dry-run", o.dry_run, "list the tensors that would be written, and write nothing");
    v("allow-unknown", o.allow_unknown, "leave out tensors that the layout does not know");
    v("threads", threads, "threads for compute; 0: all cores of this process", between(0, 4096) & same_as("train.threads"));
  }
};

void print_rows(const ConvertReport& report) {
  size_t file = 4, tensor = 4;
  for (const ConvertRow& r : report.rows)
    file = std::max(file, r.file.size()), tensor = std::max(tensor, printable(r.name).size());
  for (const ConvertRow& r : report.rows)
    fmt::print("{:<{}}  {:<{}}  {:<5} {:<16} {}\n", r.file, file, printable(r.name), tensor, r.dtype, r.shape, r.rule);
}

// Converts, with a progress bar and notes for the user.
ConvertReport show_conversion(ConvertOptions o, Log& log, bool layout = true) {
  StopSignals signals;
  signals.set_stop_lines(
      "Stopping after this piece; Ctrl-C again stops at once.",
      fmt::format("Stopped at once. What is complete stays beside {}, and the same command goes on there.", escaped(o.output)));
  o.stop = [&] { return signals.requested(); };
  ConvertReport report;
  try {
    report = convert_weights(o, [&](int64_t done, int64_t all) {
      log.progress(static_cast<double>(done) / static_cast<double>(std::max<int64_t>(all, 1)),
                   fmt::format("{} of {}", human_bytes(static_cast<double>(done)), human_bytes(static_cast<double>(all))));
    });
  } catch (...) {
    log.end_progress();
    throw;
  }
  log.end_progress();
  if (layout) log.line("input: {}", report.source);
  for (const std::string& note : report.notes) log.warn("{}", note);
  return report;
}

// Warns of a likely mistake in the choice of a model and its adapter.
void warn_of_mismatch(Log& log, const std::string& model, const std::string& adapter) {
  for (const std::string& line :
       {older_than_its_run(model), older_than_its_run(adapter), trained_on_other_base(adapter, model)})
    if (!line.empty()) log.warn("{}", line);
}

struct MergeLoraFlags {
  ConvertOptions options;
  std::vector<std::string> adapters;
  int64_t threads = 0;
  template <class V>
  void each(V&& v) {
    ConvertOptions& o = options;
    v("model", o.input, "base model: a Hugging Face folder, or a run that trained an adapter, whose base is taken",
      required() & metavar("DIR") & reads_folder());
    v("adapter", adapters, "LoRA adapter of PEFT or ModelLink, or OUTPUT/adapter of a run",
      required() & metavar("DIR") & reads_folder());
    v("base", o.base, "number format of the frozen weights in the training (lora.base); none: as stored",
      one_of<BaseStorage>({std::nullopt, BaseStorage::bf16, BaseStorage::nf4}) &
          detail("Under nf4 the adapter is merged into the values of the 4-bit blocks."));
    v("output", o.output, "model folder to write; it appears complete or not at all",
      required() & filled() & metavar("DIR") & writes());
    v("dtype", o.dtype, "number format of the weights to write; none: as in the base",
      one_of<DType>({std::nullopt, DType::f32, DType::bf16, DType::f16}));
    v("threads", threads, "threads for compute; 0: all cores of this process", between(0, 4096) & same_as("train.threads"));
  }
};

int run_merge_lora(MergeLoraFlags& flags, Config&) {
  ConvertOptions& o = flags.options;
  o.to = ConvertTarget::hf, o.from = WeightLayout::hf;
  o.missing_tokenizer_files = missing_tokenizer_files;
  if (flags.adapters.size() > 1)
    throw UserError(fmt::format("{} adapters", flags.adapters.size()), "--adapter", "one is merged at a time",
                    fmt::format("merge {} first, and the next into the model that this writes", shell_word(flags.adapters[0])));
  o.adapter = flags.adapters.at(0);
  const auto [model, adapter] = resolve_model_and_adapter(o.input, o.adapter);
  o.input = model, o.adapter = adapter;
  check_model_folder(o.input, "--model");
  Log log;
  warn_of_mismatch(log, model, adapter);
  log.line("merging  {} into {}", o.adapter, o.input);
  const ConvertReport report = show_conversion(o, log, false);
  log.line("saved    {}, {} in {}", counted(report.rows.size(), "tensor"), human_bytes(static_cast<double>(report.bytes)),
           o.output);
  log.line("next     {} generate --model {} {}--prompt TEXT --sample", program_word(), shell_word(o.output),
           load_chat_template(o.output) ? "--chat " : "");
  return 0;
}

// Throws if the tokenizer, which is copied too, has ids without a row in the resized vocabulary.
void refuse_ids_without_rows(const ConvertOptions& o) {
  std::error_code ignored;
  if (o.resize_vocabulary == 0 || !std::filesystem::is_directory(o.input, ignored) || !has_tokenizer(o.input)) return;
  const int64_t ids = open_tokenizer(o.input)->size();
  if (!vocabulary_problem(ids, o.resize_vocabulary).empty())
    throw UserError(fmt::format("--resize-vocab {}, and the tokenizer of {} has {} ids", o.resize_vocabulary, o.input, ids),
                    "command line", "every id must have a row in the embedding",
                    fmt::format("give --resize-vocab {} or more", ids));
}

int run_convert(ConvertFlags& flags, Config&) {
  ConvertOptions o = flags.options;
  if (!flags.zero.empty()) o.zero = flags.zero[0];
  if (o.output.empty() && !o.dry_run)
    throw UserError("--output is missing", "command line", "a folder is written", "give --output DIR, or --dry-run");
  const bool under_deepspeed = o.to == ConvertTarget::megatron_deepspeed;
  const bool megatron = is_megatron(o.to), mindformers = o.to == ConvertTarget::mindformers,
             deepspeed = o.to == ConvertTarget::deepspeed, ravine = o.to == ConvertTarget::ravine;
  auto only = [&](bool used, bool fits, const char* what, const char* rule) {
    if (used && !fits) throw UserError(what, "command line", rule, "leave it out");
  };
  only(o.tensor > 1, megatron || mindformers, "--tensor",
       "only Megatron and MindFormers folders are written for several ranks");
  only(o.pipeline > 1 || o.virtual_stages > 1, megatron && !under_deepspeed, "--pipeline and --virtual",
       "only Megatron folders are written for several stages");
  only(!o.stage_layers.empty(), megatron && !under_deepspeed, "--stage-layers",
       "only Megatron folders are written for several stages");
  only(o.vocabulary_multiple > 0, megatron, "--vocab-multiple", "only Megatron folders have rows of padding");
  only(o.fused, mindformers, "--fused", "only MindFormers has these names");
  only(!flags.zero.empty() || o.universal, deepspeed, "--zero and --universal", "only DeepSpeed has these");
  only(o.distributed, megatron && o.optimizer, "--distributed-optimizer", "it is of --optimizer and Megatron");
  only(o.ranks > 1, deepspeed || (megatron && o.optimizer), "--ranks",
       "only checkpoints of runs of DeepSpeed and Megatron have data ranks");
  const bool peft = o.to == ConvertTarget::peft;
  only(!o.adapter.empty() || o.resize_vocabulary > 0, !peft, "--adapter and --resize-vocab", "an adapter is written as it is");
  only(!o.adapter.empty() || o.resize_vocabulary > 0, !deepspeed, "--adapter and --resize-vocab",
       "DeepSpeed goes on with the model that was trained");
  only(!o.upcycle.empty(), o.to == ConvertTarget::hf, "--upcycle",
       "only Hugging Face folders are written of a model with experts");
  only(o.optimizer, ravine || (megatron && !under_deepspeed), "--optimizer",
       "only checkpoints of Ravine and Megatron are written with moments");
  only(!o.adapter.empty() || o.resize_vocabulary > 0, !(megatron && o.optimizer), "--adapter and --resize-vocab",
       "Megatron goes on with the model that was trained");
  only(o.dtype.value_or(DType::f32) != DType::f32, !ravine, "--dtype", "checkpoints of training hold f32");
  while (o.input.size() > 1 && o.input.back() == '/') o.input.pop_back();
  o.input = resolve_run(o.input);
  const auto [weights, model_config] = resolve_weights(o.input, o.model_config);
  // Iterations of a run in Megatron's layout have no tokenizer; the model exported by the run has one.
  if (weights != o.input && has_tokenizer(o.input + "/model")) o.tokenizer = o.input + "/model";
  o.input = weights, o.model_config = model_config;
  refuse_run_without_weights(o.input, "--input");
  if (!o.adapter.empty()) o.adapter = resolve_adapter(o.adapter, "--adapter");
  o.missing_tokenizer_files = missing_tokenizer_files;
  o.rate = [](const Config& c, int64_t update) {
    return rates_of_update(c.schedule, c.optimizer.lr, c.train.steps, update).lr;
  };
  refuse_ids_without_rows(o);
  Log log;
  warn_of_mismatch(log, o.input, o.adapter);
  const ConvertReport report = show_conversion(o, log);
  if (o.dry_run) print_rows(report);
  log.line("{}{}, {}{}", o.dry_run ? "would write " : "", counted(report.rows.size(), "tensor"),
           human_bytes(static_cast<double>(report.bytes)), o.dry_run ? "" : fmt::format(" in {}", o.output));
  if (ravine && !o.dry_run) log.line("to go on: ravine train model.config={0}/config.json train.output={0} ...", o.output);
  return 0;
}

}  // namespace

Command merge_lora_command() {
  return command<MergeLoraFlags>(
      {.name = "merge-lora",
       .summary = "merge a LoRA adapter into its base model: W + scale B A, rounded once to the base's type",
       .example = "ravine merge-lora --model qwen2 --adapter runs/tune/adapter --output tuned",
       .alone = true,
       .lasting = true},
      "Data", run_merge_lora);
}

Command convert_command() {
  return command<ConvertFlags>(
      {.name = "convert",
       .summary = "convert weights between layouts: Hugging Face, Megatron, DeepSpeed, MindFormers, Ravine",
       .example = "ravine convert --input megatron-run --output my-llama --to hf",
       .about =
           "The output folder appears whole or not at all. Weights are not rounded unless --dtype asks for it, and pickles are never executed.",
       .alone = true,
       .lasting = true},
      "Data", run_convert);
}

}  // namespace ravine

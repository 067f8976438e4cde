// Rows of the checklist on ranks, data, special tokens and the runtime.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "checks/checklist.h"

namespace ravine {
namespace {

constexpr const char* kSums =
    "Sums over ranks have another order: small differences are expected, and none with it off on both sides.";

std::string of_parallel(const char* key) { return std::string("parallel_config.") + key; }

int64_t data_ranks(const Side& s) {
  const ParallelOptions& p = s.config.parallel;
  if (p.data > 0) return p.data;
  if (s.ranks > 0) return std::max<int64_t>(1, s.ranks / (p.tensor * p.pipeline));
  return s.program == Program::mindformers ? 1 : 0;
}

void add_parallel(Checklist& rows) {
  rows.begin_group("parallel");
  rows.add("data_parallel", kSums, [](const Side& s) -> Cell {
    const int64_t ranks = data_ranks(s);
    if (ranks == 0) return {};
    return {std::to_string(ranks), s.where("parallel.data", {of_parallel("data_parallel")})};
  });
  const auto count = [&](const char* name, int64_t ParallelOptions::*member, const char* option,
                         const std::vector<std::string>& keys) {
    rows.add(name, kSums, [&](const Side& s) {
      return Cell{std::to_string(s.config.parallel.*member), s.where(option, keys)};
    });
  };
  count("model_parallel", &ParallelOptions::tensor, "parallel.tensor",
        {"--tensor-model-parallel-size", of_parallel("model_parallel")});
  count("pipeline_stage", &ParallelOptions::pipeline, "parallel.pipeline",
        {"--pipeline-model-parallel-size", of_parallel("pipeline_stage")});
  count("expert_parallel", &ParallelOptions::expert, "parallel.expert",
        {"--expert-model-parallel-size", of_parallel("expert_parallel")});
  rows.add("use_seq_parallel", kSums, [](const Side& s) {
    return Cell{switch_text(s.config.parallel.sequence),
                s.where("parallel.sequence", {"--sequence-parallel", of_parallel("use_seq_parallel")})};
  });
  rows.add("enable_parallel_optimizer",
           "Programs exchange shards of states in other ways: the guide asks for off while they are compared.",
           [](const Side& s) {
             const int64_t ranks = data_ranks(s);
             // One rank keeps all states, whatever the stage is.
             const int64_t stage = ranks == 1 ? 0 : s.config.parallel.zero;
             return Cell{stage == 0 ? "off" : fmt::format("stage {}", stage),
                         s.where("parallel.zero", {"--use-distributed-optimizer", "--zero-stage", "zero_optimization.stage",
                                                   "parallel.enable_parallel_optimizer"})};
           });
  rows.add_summary("parallel", "Sums have another order, and programs exchange other parts: see the rows of single axes.");
  rows.add("micro_batch_interleave_num", "A step is cut into other parts: the guide asks for off while programs are compared.",
           [](const Side& s) {
             const Json& n = s.value("micro_batch_interleave_num");
             return Cell{n.is_number() ? n.dump() : "1", s.where("", {"micro_batch_interleave_num"})};
           });
  rows.add("recompute", "Activations are computed twice: equal numbers, unless random masks are drawn again.",
           [](const Side& s) {
             return Cell{std::string(name(s.config.train.recompute)),
                         s.where("train.recompute", {"--recompute-granularity", "--recompute-activations",
                                                     "recompute_config.recompute", "--gradient_checkpointing"}),
                         true};
           });
  rows.add("micro_batch_size", "Losses are means of other groups of sequences, and sums have another order.",
           [](const Side& s) {
             return Cell{std::to_string(s.config.train.micro_batch),
                         s.where("train.micro_batch", {"--micro-batch-size", "--per_device_train_batch_size",
                                                       "train_micro_batch_size_per_gpu", "runner_config.batch_size"})};
           });
}

// Returns the names of the sources without folders and endings, and "files of KIND" as the kind of all.
std::pair<std::string, std::string> sources_of(const Side& s) {
  std::vector<std::string> names;
  std::string kind;
  for (const DataSource& source : s.config.data.train) {
    std::filesystem::path path = source.path;
    if (path.filename().empty()) path = path.parent_path();
    kind = path.extension().string();
    std::string stem = path.extension() == ".json" || path.extension() == ".jsonl" || path.extension() == ".mindrecord" ||
                               path.extension() == ".parquet"
                           ? path.stem().string()
                           : path.filename().string();
    names.push_back(source.weight ? fmt::format("{} x {}", shortest_text(*source.weight), stem) : stem);
  }
  return {fmt::format("{}", fmt::join(names, ", ")), kind};
}

void add_data(Checklist& rows) {
  rows.begin_group("data");
  const std::vector<std::string> keys = {"--data-path",
                                         "--train-data-path",
                                         "--train_file",
                                         "--dataset_name",
                                         "train_dataset.data_loader.dataset_dir",
                                         "train_dataset.data_loader.dataset_files"};
  const bool same_kind = sources_of(rows.a()).second == sources_of(rows.b()).second;
  rows.add("data", "Steps learn from other samples. `ravine check data A B` finds the first that differs.", [&](const Side& s) {
    const auto [names, kind] = sources_of(s);
    return Cell{names, s.where("data.train", keys), !same_kind};
  });
  const bool one_program = rows.a().program == rows.b().program;
  rows.add("data_order",
           "Samples come in another order. Programs shuffle in other ways: `ravine check data A B` compares the streams.",
           [&](const Side& s) {
             const DataOptions& d = s.config.data;
             const bool megatron = d.order == SampleOrder::megatron || d.order == SampleOrder::megatron_2023;
             if (!d.shuffle && !megatron)
               return Cell{"as stored", s.where("data.shuffle", {"train_dataset.data_loader.shuffle", "--streaming"})};
             return Cell{fmt::format("{}", name(d.order)),
                         s.where("data.order", {"train_dataset.data_loader.shuffle", "--data-path"}), !one_program};
           });
  rows.add("seed", "Weights, order and dropout are drawn from other numbers.", [](const Side& s) {
    return Cell{std::to_string(s.config.train.seed), s.where("train.seed", {"--seed", "seed"})};
  });
  rows.add("label_shift", "The model learns to predict the token itself, or the one after the next.", [](const Side& s) {
    return Cell{s.config.data.labels ? "next token" : "next token, of the ids",
                s.where("data.labels", {"train_dataset.input_columns"}), true};
  });
  rows.add("attention_mask", "Tokens see other documents of their sequence.", [](const Side& s) {
    const DataOptions& d = s.config.data;
    return Cell{d.document_attention || d.reset_attention_mask ? "inside documents" : "causal",
                s.where(d.reset_attention_mask ? "data.reset_attention_mask" : "data.document_attention",
                        {"--reset-attention-mask", of_model("use_eod_attn_mask_compression"), "use_eod_reset"})};
  });
  rows.add("position_ids", "Positions restart at other tokens.", [](const Side& s) {
    return Cell{s.config.data.reset_position_ids ? "restart at documents" : "from 0 to the end",
                s.where("data.reset_position_ids", {"--reset-position-ids"})};
  });
  rows.add("eod_mask_loss", "Ends of documents are learned on one side alone.", [](const Side& s) {
    return Cell{switch_text(s.config.data.eod_mask_loss), s.where("data.eod_mask_loss", {"--eod-mask-loss"})};
  });
  rows.add("train_template", "Prompts have other words around them. `ravine check data` renders both.",
           [](const Side& s) -> Cell {
             if (!s.config.data.chat_template.empty()) return {s.config.data.chat_template, s.where("data.chat_template", {})};
             return {"of the tokenizer", s.where("data.chat_template", {}), true};
           });
  rows.add("tokenizer", "The same text has other ids.", [](const Side& s) -> Cell {
    const std::string& path = s.config.model.tokenizer.empty() ? s.config.model.path : s.config.model.tokenizer;
    if (path.empty()) return {};
    return {std::filesystem::path(path).filename().string(),
            s.where("model.tokenizer", {"--tokenizer-name-or-path", "--tokenizer-model", "--tokenizer_name"}), true};
  });
}

// Adds a row on a special id. name: its key in files of models. A side that neither sets it nor has a config.json with
// it does not tell.
void add_special(Checklist& rows, const char* row, const char* name, const char* effect) {
  rows.add(row, effect, [&](const Side& s) -> Cell {
    const std::string key = of_model(name);
    if (s.sets(key)) return {s.value(key).dump(), s.where("", {key})};
    if (!s.model.is_object()) return {};
    const auto found = s.model.find(name);
    const bool stored = found != s.model.end() && !found->is_null();
    if (stored) return {found->dump(), s.where("model.config", {}, name)};
    if (s.program == Program::mindformers) {
      const std::string_view id = name;
      return {id == "bos_token_id" ? "1" : id == "eos_token_id" ? "2" : "0", s.where("", {}), true};
    }
    return {};
  });
}

void add_runtime(Checklist& rows) {
  rows.begin_group("others");
  add_special(rows, "bos_id", "bos_token_id", "Sequences begin with another token.");
  add_special(rows, "eos_id", "eos_token_id", "Documents end with another token, and answers do not stop.");
  add_special(rows, "pad_id", "pad_token_id", "Padding is learned, or a real token is not.");
  rows.add("overflow_mode", "Saturated numbers hide an overflow on one side: losses stay finite and wrong.",
           [](const Side& s) -> Cell {
             for (const auto& [variable, off] :
                  {std::pair{"MS_ASCEND_CHECK_OVERFLOW_MODE", "SATURATION_MODE"}, {"INF_NAN_MODE_ENABLE", "0"}})
               if (const auto it = s.environment.find(variable); it != s.environment.end())
                 return {it->second == off ? "saturation" : "inf and nan", std::string(variable) + " of " + s.path};
             return {"inf and nan", s.where("", {})};
           });
  rows.add("graph_kernel_fusion", "A compiler joins operators, and rounds at other places.", [](const Side& s) {
    return Cell{switch_text(s.is_on("context.enable_graph_kernel")), s.where("", {"context.enable_graph_kernel"})};
  });
  rows.add("deterministic", "A run does not repeat itself: a difference may be noise. `ravine check baseline` measures it.",
           [](const Side& s) -> Cell {
             if (s.program == Program::ravine) return {"on", "always", true};
             for (const char* key : {"context.deterministic", "--use-deter-comp", "--deterministic-mode", "--full_determinism"})
               if (s.sets(key)) return {switch_text(s.is_on(key) || s.text(key) == "ON"), s.where("", {key})};
             for (const char* variable : {"HCCL_DETERMINISTIC", "NCCL_DETERMINISTIC"})
               if (const auto it = s.environment.find(variable); it != s.environment.end())
                 return {switch_text(it->second == "true" || it->second == "1"), std::string(variable) + " of " + s.path};
             return {"off", s.where("", {})};
           });
  rows.add("unmodified_model", "Code that stands beside the model may compute something else.", [](const Side& s) -> Cell {
    if (s.model.is_object() && s.model.contains("auto_map")) return {"own code", s.where("model.config", {}, "auto_map")};
    if (s.sets("register_path")) return {"own code", s.where("", {"register_path"})};
    if (!s.model.is_object()) return {};
    return {"the family's", s.where("model.config", {}, "model_type")};
  });
  rows.add("versions", "Versions of a program compute in other ways. No config states them.", [](const Side& s) -> Cell {
    if (s.sets("--transformers_version"))
      return {"Transformers " + s.value("--transformers_version").dump(), s.where("", {"--transformers_version"}), true};
    return {};
  });
  CheckRow rest{.name = "untranslated", .effect = "Keys that Ravine does not translate are not compared.", .advice = ""};
  const auto refused = [](const Side& s) {
    return RowValue{s.refused.empty() ? "none" : fmt::format("{}", fmt::join(s.refused, "; ")), s.path};
  };
  rest.a = refused(rows.a()), rest.b = refused(rows.b());
  if (rows.a().refused.empty() && rows.b().refused.empty()) rest.verdict = RowVerdict::equal;
  rows.add(std::move(rest));
}

}  // namespace

void add_other_rows(Checklist& rows) {
  add_parallel(rows);
  add_data(rows);
  add_runtime(rows);
}

}  // namespace ravine

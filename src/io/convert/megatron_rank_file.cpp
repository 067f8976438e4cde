#include "io/convert/megatron_rank_file.h"

#include <algorithm>

#include <fmt/ranges.h>

#include "io/convert/megatron_arguments.h"

namespace ravine {
namespace {

constexpr std::string_view kPositions = "language_model.embedding.position_embeddings.weight";

// Writes the arguments that Megatron's --use-checkpoint-args reads, and those that Ravine needs to read the folder
// again.
void put_arguments(TorchFields& w, const Geometry& g, const MegatronLayout& l, DType dtype, const Json& more) {
  TorchSave& out = w.out;
  const bool core = l.names == MegatronNames::mcore;
  const DecoderSpec& s = g.spec();
  out.begin_namespace();
  auto integer = [&](const char* key, int64_t v) { out.text(key), out.integer(v); };
  auto real = [&](const char* key, double v) { out.text(key), out.real(v); };
  auto boolean = [&](const char* key, bool v) { out.text(key), out.boolean(v); };
  auto text = [&](const char* key, const char* v) { out.text(key), out.text(v); };
  const Json network = network_arguments(g);
  for (const auto& [key, value] : network.items()) w.key(key), w.json(value);
  if (s.moe) {
    const MoeSpec& m = *s.moe;
    integer("num_experts", m.routing.experts), integer("moe_router_topk", m.routing.top_k);
    integer("moe_ffn_hidden_size", m.width), boolean("moe_grouped_gemm", l.experts == ExpertNames::grouped);
    boolean("moe_router_pre_softmax", !m.routing.normalise),
        text("moe_router_score_function", m.routing.scores == Routing::Scores::sigmoid ? "sigmoid" : "softmax");
    boolean("moe_router_enable_expert_bias", m.routing.correction);
    if (m.routing.scaling != 1) real("moe_router_topk_scaling_factor", m.routing.scaling);
    if (m.routing.groups > 1)
      integer("moe_router_num_groups", m.routing.groups), integer("moe_router_group_topk", m.routing.kept_groups);
    if (m.shared.width > 0)
      integer("moe_shared_expert_intermediate_size", m.shared.width), boolean("moe_shared_expert_gate", m.shared_gate);
    integer("expert_model_parallel_size", 1), integer("expert_tensor_parallel_size", l.tensor);
  }
  out.text("params_dtype"), out.type(dtype);
  boolean("fp16", dtype == DType::f16), boolean("bf16", dtype == DType::bf16);
  integer("make_vocab_size_divisible_by", l.vocabulary_multiple),
      integer("padded_vocab_size", padded_vocabulary(g.vocabulary, l));
  integer("true_vocab_size", g.vocabulary);
  integer("tensor_model_parallel_size", l.tensor), integer("pipeline_model_parallel_size", l.pipeline);
  out.text("virtual_pipeline_model_parallel_size");
  if (l.virtual_stages > 1)
    out.integer(l.virtual_stages);
  else
    out.none();
  out.text("num_layers_per_virtual_pipeline_stage");
  if (l.virtual_stages > 1)
    out.integer(g.layers / (l.pipeline * l.virtual_stages));
  else
    out.none();
  if (!l.stage_layers.empty()) text("num_layer_list", fmt::format("{}", fmt::join(l.stage_layers, ",")).c_str());
  boolean("use_mcore_models", core), boolean("bert_binary_head", true);
  for (const auto& [key, value] : more.items()) w.key(key), w.json(value);
  out.end();
}

void put_tensor(TorchFields& w, std::string_view key, const MegatronFile::Tensor& t, DType dtype) {
  w.key(key), w.tensor(t.elements, t.name.ends_with(".expert_bias") ? t.elements->dtype() : dtype);
}

void put_flat(TorchFields& w, const std::vector<MegatronFile::Tensor>& tensors, DType dtype) {
  w.out.begin_ordered_dict();
  for (const auto& t : tensors) put_tensor(w, t.name, t, dtype);
  w.out.end();
}

// Writes the nested dicts of the older format from dotted names: the rest after a group's prefix is a flat key.
void put_chunk(TorchFields& w, const std::vector<const MegatronFile::Tensor*>& tensors, bool core, DType dtype) {
  TorchSave& out = w.out;
  auto put = [&](std::string_view key, const MegatronFile::Tensor& t) { put_tensor(w, key, t, dtype); };
  if (core) {
    out.begin_ordered_dict();
    for (const auto* t : tensors) put(t->name, *t);
    out.end();
    return;
  }
  auto group = [&](const std::string& prefix, const std::vector<const char*>& dicts) {
    bool open = false;
    for (const auto* t : tensors) {
      if (!t->name.starts_with(prefix)) continue;
      if (!open)
        for (const char* d : dicts) out.text(d), out.begin_ordered_dict();
      open = true;
      put(std::string_view(t->name).substr(prefix.size()), *t);
    }
    if (open)
      for (size_t i = 0; i < dicts.size(); ++i) out.end();
  };
  out.begin_dict();
  out.text("language_model");
  out.begin_dict();
  const bool positions = std::any_of(tensors.begin(), tensors.end(), [](const auto* t) { return t->name == kPositions; });
  if (positions) {
    out.text("embedding"), out.begin_ordered_dict();
    group("language_model.embedding.word_embeddings.", {"word_embeddings"});
    group("language_model.embedding.position_embeddings.", {"position_embeddings"});
    out.end();
  } else {
    group("language_model.embedding.word_embeddings.", {"embedding", "word_embeddings"});
  }
  group("language_model.encoder.", {"encoder"});
  group("language_model.output_layer.", {"output_layer"});
  out.end();
  group("word_embeddings_for_head.", {"word_embeddings_for_head"});
  out.end();
}

}  // namespace

void put_model(TorchFields& out, const MegatronFile& f, const Geometry& g, const MegatronLayout& l, DType dtype,
               const Json& arguments) {
  out.key("args"), put_arguments(out, g, l, dtype, arguments);
  out.real("checkpoint_version", 3.0);
  out.number("iteration", arguments.at("iteration").get<int64_t>());
  if (l.deepspeed) {
    out.number("dp_world_size", 0), out.number("mp_world_size", l.tensor);
    out.key("module"), put_flat(out, f.tensors, dtype);
    return;
  }
  for (int64_t chunk = 0; chunk < l.virtual_stages; ++chunk) {
    std::vector<const MegatronFile::Tensor*> tensors;
    for (const auto& t : f.tensors)
      if (t.chunk == chunk) tensors.push_back(&t);
    out.key(l.virtual_stages > 1 ? fmt::format("model{}", chunk) : "model");
    put_chunk(out, tensors, l.names == MegatronNames::mcore, dtype);
  }
}

}  // namespace ravine

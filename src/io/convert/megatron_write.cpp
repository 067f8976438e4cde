#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "files/torch_save.h"
#include "io/convert/hf_folder.h"
#include "io/convert/megatron.h"
#include "io/convert/stream.h"

namespace ravine {
namespace {

constexpr std::string_view kPositions = "language_model.embedding.position_embeddings.weight";
constexpr int64_t kMultiple = 128;  // --make-vocab-size-divisible-by

int64_t divide(int64_t n, int64_t by, const char* what, const char* over) {
  if (n % by == 0) return n / by;
  throw UserError("layout does not fit", fmt::format("{} {}", by, over), fmt::format("they must divide the {} {}", n, what),
                  "choose another number");
}

// Builds the tensors of one tensor rank.
class Cutter {
 public:
  Cutter(const Weights& w, const Geometry& g, const MegatronLayout& l, int64_t rank) : w_(w), g_(g), l_(l), rank_(rank) {}

  ElementsPtr get(const std::string& name) const {
    auto it = w_.tensors.find(name);
    return it == w_.tensors.end() ? nullptr : it->second;
  }
  ElementsPtr rows(const ElementsPtr& e) const {
    const int64_t n = e->shape()[0] / l_.tensor;
    return l_.tensor == 1 ? e : stack_rows({{e, rank_ * n, n}}, fmt::format("rows of tensor rank {} of {}", rank_, l_.tensor));
  }
  ElementsPtr cols(const ElementsPtr& e) const {
    const int64_t n = e->shape()[1] / l_.tensor;
    return l_.tensor == 1 ? e : take_cols(e, rank_ * n, n, fmt::format("columns of tensor rank {} of {}", rank_, l_.tensor));
  }
  ElementsPtr vocabulary(const std::string& name) const {
    const ElementsPtr e = get(name);
    return rows(padded_rows(e, padded_vocabulary(e->shape()[0], l_.tensor)));
  }
  ElementsPtr qkv(const ElementsPtr& q, const ElementsPtr& k, const ElementsPtr& v) const {
    const int64_t groups = g_.kv_heads / l_.tensor, d = g_.head_size, per = g_.group() * d;
    std::vector<Rows> parts;
    for (int64_t i = rank_ * groups; i < (rank_ + 1) * groups; ++i) {
      parts.push_back({q, i * per, per});
      parts.push_back({k, i * d, d});
      parts.push_back({v, i * d, d});
    }
    return stack_rows(parts, fmt::format("q, k, v of {} groups in turn", groups));
  }
  ElementsPtr gate_up(const ElementsPtr& gate, const ElementsPtr& up) const {
    const int64_t n = gate->shape()[0] / l_.tensor;
    return stack_rows({{gate, rank_ * n, n}, {up, rank_ * n, n}}, "gate over up");
  }
  // The matrix of one expert of a stack.
  ElementsPtr expert(const ElementsPtr& stack, int64_t e) const {
    const int64_t rows = stack->shape()[1];
    return stack_rows({{reshaped(stack, {stack->shape()[0] * rows, stack->shape()[2]}), e * rows, rows}},
                      fmt::format("expert {} of {}", e, stack->shape()[0]));
  }
  ExpertNames experts() const { return l_.experts; }
  // A bias that only some of a joined tensor's parts have is zero in the others.
  ElementsPtr or_zeros(const std::string& name, int64_t n, DType dtype) const {
    if (ElementsPtr e = get(name)) return e;
    return in_memory(dtype, {n}, std::vector<std::byte>(static_cast<size_t>(n * size_of(dtype))));
  }

 private:
  const Weights& w_;
  const Geometry& g_;
  const MegatronLayout& l_;
  int64_t rank_;
};

// Router, experts and the shared MLP of a layer that has them, under the names of megatron-core.
template <class Put>
void add_sparse_mlp(const Cutter& c, const MoeSpec& moe, int64_t layer, const Put& put) {
  auto get = [&](const std::string& suffix) { return c.get(layer_name(layer, "mlp." + suffix)); };
  put("mlp.router.weight", get("gate.weight"));
  const ElementsPtr gate = get("experts.gate_proj.weight"), up = get("experts.up_proj.weight"),
                    down = get("experts.down_proj.weight");
  auto module = [&](const char* name, int64_t e) {
    return c.experts() == ExpertNames::grouped ? fmt::format("mlp.experts.{}.weight{}", name, e)
                                               : fmt::format("mlp.experts.local_experts.{}.{}.weight", e, name);
  };
  for (int64_t e = 0; e < moe.routing.experts; ++e) {
    put(module("linear_fc1", e), c.gate_up(c.expert(gate, e), c.expert(up, e)));
    put(module("linear_fc2", e), c.cols(c.expert(down, e)));
  }
  if (moe.shared.width == 0) return;
  const std::string shared = moe.shared_name;
  put("mlp.shared_experts.linear_fc1.weight", c.gate_up(get(shared + ".gate_proj.weight"), get(shared + ".up_proj.weight")));
  put("mlp.shared_experts.linear_fc2.weight", c.cols(get(shared + ".down_proj.weight")));
  put("mlp.shared_experts.gate_weight", get("shared_expert_gate.weight"));
}

void add_layer(std::vector<MegatronFile::Tensor>& out, const Cutter& c, const Geometry& g, bool core, int64_t chunk,
               int64_t layer, int64_t local) {
  const std::string prefix = fmt::format("{}.layers.{}.", core ? "decoder" : "language_model.encoder", local);
  auto put = [&](const std::string& core_name, const std::string& legacy, ElementsPtr e) {
    if (e) out.push_back({prefix + (core ? core_name : legacy), chunk, std::move(e)});
  };
  auto get = [&](const std::string& suffix) { return c.get(layer_name(layer, suffix)); };
  auto cut = [&](const char* suffix, auto method) {
    const ElementsPtr e = get(suffix);
    return e ? (c.*method)(e) : nullptr;
  };
  put("input_layernorm.weight", "input_norm.weight", get("input_layernorm.weight"));
  put("input_layernorm.bias", "input_norm.bias", get("input_layernorm.bias"));
  put("self_attention.linear_proj.weight", "self_attention.dense.weight", cut("self_attn.o_proj.weight", &Cutter::cols));
  put("self_attention.linear_proj.bias", "self_attention.dense.bias", get("self_attn.o_proj.bias"));
  put("self_attention.linear_qkv.weight", "self_attention.query_key_value.weight",
      c.qkv(get("self_attn.q_proj.weight"), get("self_attn.k_proj.weight"), get("self_attn.v_proj.weight")));
  ElementsPtr some;
  for (const char* s : {"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"})
    if (get(s)) some = get(s);
  if (some) {
    auto bias = [&](const char* s, int64_t heads) {
      return c.or_zeros(layer_name(layer, s), heads * g.head_size, some->dtype());
    };
    put("self_attention.linear_qkv.bias", "self_attention.query_key_value.bias",
        c.qkv(bias("self_attn.q_proj.bias", g.heads), bias("self_attn.k_proj.bias", g.kv_heads),
              bias("self_attn.v_proj.bias", g.kv_heads)));
  }
  put("self_attention.q_layernorm.weight", "", get("self_attn.q_norm.weight"));
  put("self_attention.k_layernorm.weight", "", get("self_attn.k_norm.weight"));
  put("pre_mlp_layernorm.weight", "post_attention_norm.weight", get("post_attention_layernorm.weight"));
  put("pre_mlp_layernorm.bias", "post_attention_norm.bias", get("post_attention_layernorm.bias"));
  if (g.spec().is_sparse(layer))
    return add_sparse_mlp(c, *g.spec().moe, layer, [&](const std::string& name, const ElementsPtr& e) { put(name, name, e); });
  for (const char* kind : {"weight", "bias"}) {
    const ElementsPtr gate = get(fmt::format("mlp.gate_proj.{}", kind)), up = get(fmt::format("mlp.up_proj.{}", kind));
    if (!up) continue;
    put(fmt::format("mlp.linear_fc1.{}", kind), fmt::format("mlp.dense_h_to_4h.{}", kind),
        gate ? c.gate_up(gate, up) : c.rows(up));
  }
  put("mlp.linear_fc2.weight", "mlp.dense_4h_to_h.weight", cut("mlp.down_proj.weight", &Cutter::cols));
  put("mlp.linear_fc2.bias", "mlp.dense_4h_to_h.bias", get("mlp.down_proj.bias"));
}

// What Megatron's --use-checkpoint-args takes over, and what this program needs to read the folder again.
void write_arguments(TorchSave& out, const Geometry& g, const MegatronLayout& l, DType dtype) {
  const bool core = l.names == MegatronNames::mcore;
  const DecoderSpec& s = g.spec();
  const bool layer_norm = s.norm.kind == NormSpec::layer, table = s.position_table, alibi = s.attention.alibi,
             rope = s.rope.has_value();
  const double base = rope ? s.rope->theta : 10000, eps = s.norm.eps;
  const int64_t bound = g.model->facts().max_positions, positions = bound > 0              ? bound
                                                                    : s.trained_length > 0 ? s.trained_length
                                                                                           : 2048;
  const bool qkv_bias = s.attention.qkv_bias;
  out.begin_namespace();
  auto integer = [&](const char* key, int64_t v) { out.text(key), out.integer(v); };
  auto real = [&](const char* key, double v) { out.text(key), out.real(v); };
  auto boolean = [&](const char* key, bool v) { out.text(key), out.boolean(v); };
  auto text = [&](const char* key, const char* v) { out.text(key), out.text(v); };
  integer("num_layers", g.layers), integer("hidden_size", g.hidden), integer("ffn_hidden_size", g.ffn);
  integer("num_attention_heads", g.heads), integer("kv_channels", g.head_size);
  boolean("group_query_attention", g.kv_heads != g.heads), integer("num_query_groups", g.kv_heads);
  integer("max_position_embeddings", positions), integer("seq_length", positions);
  text("position_embedding_type", alibi ? "alibi" : table ? "learned_absolute" : "rope");
  boolean("add_position_embedding", table), boolean("use_rotary_position_embeddings", rope);
  real("rotary_percent", rope ? s.rope->share : 1.0);
  out.text("rotary_base");
  if (base == std::floor(base))
    out.integer(static_cast<int64_t>(base));
  else
    out.real(base);
  text("normalization", layer_norm ? "LayerNorm" : "RMSNorm"), real("norm_epsilon", eps), real("layernorm_epsilon", eps),
      boolean("apply_layernorm_1p", false);
  boolean("add_bias_linear", s.mlp.bias), boolean("add_qkv_bias", qkv_bias);
  boolean("add_dense_bias", s.attention.out_bias);
  boolean("qk_layernorm", s.attention.norms == AttentionSpec::Norms::head), boolean("embed_layernorm", s.embedding_norm);
  boolean("lm_norm_weight", s.head.unit_rows);
  boolean("swiglu", g.gated), boolean("openai_gelu", s.mlp.act == Act::gelu_tanh);
  boolean("untie_embeddings_and_output_weights", !g.tied);
  if (s.moe) {
    const MoeSpec& m = *s.moe;
    integer("num_experts", m.routing.experts), integer("moe_router_topk", m.routing.top_k);
    integer("moe_ffn_hidden_size", m.width), boolean("moe_grouped_gemm", l.experts == ExpertNames::grouped);
    boolean("moe_router_pre_softmax", !m.routing.normalise), text("moe_router_score_function", "softmax");
    if (m.shared.width > 0)
      integer("moe_shared_expert_intermediate_size", m.shared.width), boolean("moe_shared_expert_gate", m.shared_gate);
    integer("expert_model_parallel_size", 1), integer("expert_tensor_parallel_size", l.tensor);
  }
  out.text("params_dtype"), out.type(dtype);
  boolean("fp16", dtype == DType::f16), boolean("bf16", dtype == DType::bf16);
  integer("make_vocab_size_divisible_by", kMultiple), integer("padded_vocab_size", padded_vocabulary(g.vocabulary, l.tensor));
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
  boolean("use_mcore_models", core), boolean("bert_binary_head", true);
  integer("iteration", 0), integer("consumed_train_samples", 0), integer("consumed_valid_samples", 0);
  out.end();
}

// The nested dicts of the older format, from dotted names: what is left of the last part of `path` is a flat key.
void write_model(TorchSave& out, const std::vector<const MegatronFile::Tensor*>& tensors, bool core, DType dtype,
                 std::vector<ElementsPtr>& order) {
  auto put = [&](std::string_view key, const MegatronFile::Tensor& t) {
    out.text(key);
    out.tensor(dtype, t.elements->shape());
    order.push_back(t.elements);
  };
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

int64_t padded_vocabulary(int64_t vocabulary, int64_t tensor) { return round_up(vocabulary, kMultiple * tensor); }

void refuse_for_megatron(const Geometry& g, const std::string& where) {
  const DecoderSpec& s = g.spec();
  std::string what;
  auto add = [&](bool is, const char* name) {
    if (is) what += (what.empty() ? "" : ", ") + std::string(name);
  };
  add(s.topology == Topology::post_norm || s.topology == Topology::sandwich, "norms behind attention and MLP");
  add(s.attention.latent.has_value(), "latent attention here");
  add(s.attention.norms == AttentionSpec::Norms::row, "norms over whole rows of q and k");
  add(s.norm.offset != 0, "norms that scale by 1 + weight");
  add(s.attention.cap != 0, "capped scores");
  add(s.head.cap != 0, "capped logits");
  add(s.embedding_scale != 1, "a scaled embedding");
  add(!s.mlps.empty(), "MLPs that differ from layer to layer");
  if (!what.empty())
    throw UserError(
        "layout cannot hold the model", where,
        fmt::format("Megatron-core's model has no {}: there are no names for the {} family", what, g.family),
        "stay with hf or ravine: `ravine train` goes on from either on any number of ranks, and --to hf is what Transformers reads");
}

void megatron_notes(const Geometry& g, const MegatronLayout& l, std::vector<std::string>& notes) {
  const DecoderSpec& s = g.spec();
  if (l.names == MegatronNames::legacy && s.rope && s.rope->theta != 10000)
    notes.push_back("Megatron of 2023 computes with a rope base of 10000 whatever args.rotary_base says");
  if (s.topology == Topology::parallel)
    notes.push_back(
        "Megatron computes attention and MLP one after the other, this model side by side: its own GPT model gives other logits");
  auto lost = [&](bool is, const char* what) {
    if (is) notes.push_back(fmt::format("the arguments do not carry {}; config.json beside them does", what));
  };
  lost(s.rope && s.rope->type != RopeSettings::plain, "the scaling of rotary positions");
  bool mixed = false;
  for (int64_t i = 0; s.moe && i < g.layers; ++i) mixed = mixed || !s.is_sparse(i);
  lost(mixed, "which layers have experts (--moe-layer-freq)");
  lost(s.windowed(), "the window of attention");
  lost(s.scale_by_layer, "the scale of scores by layer");
}

std::vector<MegatronFile> plan_megatron(const Weights& w, const Geometry& g, const MegatronLayout& l) {
  const bool core = l.names == MegatronNames::mcore;
  const DecoderSpec& s = g.spec();
  divide(g.kv_heads, l.tensor, "key/value heads", "tensor ranks");
  if (s.moe) divide(s.moe->width, l.tensor, "rows of an expert", "tensor ranks");
  if (s.moe && s.moe->shared.width > 0) divide(s.moe->shared.width, l.tensor, "rows of the shared expert", "tensor ranks");
  bool dense = false;
  for (int64_t i = 0; i < g.layers; ++i) dense = dense || !s.is_sparse(i);
  if (dense) divide(g.ffn, l.tensor, "rows of the MLP", "tensor ranks");
  const int64_t stages = l.pipeline * l.virtual_stages, per = divide(g.layers, stages, "layers", "stages (pipeline x virtual)");
  if (l.virtual_stages > 1 && l.pipeline == 1)
    throw UserError("layout does not fit", "--virtual", "virtual stages need several pipeline ranks",
                    "leave it out, or raise --pipeline");
  refuse_for_megatron(g, w.config_where);
  if (!core && s.moe)
    throw UserError("layout cannot hold the model", "megatron-legacy", "it has no experts", "use --to megatron-mcore");
  if (!core && s.attention.norms != AttentionSpec::Norms::none)
    throw UserError("layout cannot hold the model", "megatron-legacy", "it has no norms of q and k", "use --to megatron-mcore");
  if (l.pipeline > 1000 || l.tensor > 1000)
    throw UserError("layout does not fit", "--tensor, --pipeline", "at most 1000 ranks each", "choose another number");
  std::vector<MegatronFile> files;
  for (int64_t p = 0; p < l.pipeline; ++p)
    for (int64_t t = 0; t < l.tensor; ++t) {
      const Cutter c(w, g, l, t);
      MegatronFile f;
      f.path = fmt::format("release/mp_rank_{:02}{}/model_optim_rng.pt", t, l.pipeline > 1 ? fmt::format("_{:03}", p) : "");
      for (int64_t chunk = 0; chunk < l.virtual_stages; ++chunk) {
        const int64_t stage = chunk * l.pipeline + p;
        const bool first = stage == 0, last = stage == stages - 1;
        const std::string top = core ? "" : "language_model.";
        if (first) {
          f.tensors.push_back({top + "embedding.word_embeddings.weight", chunk, c.vocabulary("model.embed_tokens.weight")});
          for (const char* kind : {"weight", "bias"})
            if (const ElementsPtr e = c.get(fmt::format("model.embed_norm.{}", kind)))
              f.tensors.push_back({fmt::format("{}embedding.word_embeddings.norm.{}", top, kind), chunk, e});
          if (const ElementsPtr e = c.get("model.embed_positions.weight"))
            f.tensors.push_back({top + "embedding.position_embeddings.weight", chunk, e});
        }
        for (int64_t i = 0; i < per; ++i) add_layer(f.tensors, c, g, core, chunk, stage * per + i, i);
        if (!last) continue;
        for (const char* kind : {"weight", "bias"})
          if (const ElementsPtr e = c.get(fmt::format("model.norm.{}", kind)))
            f.tensors.push_back(
                {fmt::format("{}.{}", core ? "decoder.final_layernorm" : "language_model.encoder.final_norm", kind), chunk, e});
        if (!g.tied)
          f.tensors.push_back(
              {core ? "output_layer.weight" : "language_model.output_layer.weight", chunk, c.vocabulary("lm_head.weight")});
        else if (!first)  // the last stage keeps a copy of the tied table
          f.tensors.push_back({core ? "output_layer.weight" : "word_embeddings_for_head.weight", chunk,
                               c.vocabulary("model.embed_tokens.weight")});
      }
      files.push_back(std::move(f));
    }
  return files;
}

void write_megatron(TargetFolder& folder, const std::vector<MegatronFile>& files, const Weights& w, const Geometry& g,
                    const MegatronLayout& l, DType dtype, const std::function<void(int64_t)>& progress) {
  const bool core = l.names == MegatronNames::mcore;
  for (const MegatronFile& f : files) {
    if (folder.has(f.path)) {
      int64_t bytes = 0;
      for (const auto& t : f.tensors) bytes += t.elements->count() * size_of(dtype);
      progress(bytes);
      continue;
    }
    const std::string path = folder.path(f.path);
    create_folders(folder_of(path));
    TorchSave out(path, true);
    std::vector<ElementsPtr> order;
    out.begin_dict();
    out.text("args");
    write_arguments(out, g, l, dtype);
    out.text("checkpoint_version"), out.real(3.0);
    out.text("iteration"), out.integer(0);
    for (int64_t chunk = 0; chunk < l.virtual_stages; ++chunk) {
      std::vector<const MegatronFile::Tensor*> tensors;
      for (const auto& t : f.tensors)
        if (t.chunk == chunk) tensors.push_back(&t);
      out.text(l.virtual_stages > 1 ? fmt::format("model{}", chunk) : "model");
      write_model(out, tensors, core, dtype, order);
    }
    out.end();
    for (const ElementsPtr& e : order)
      stream(*e, dtype, [&](std::span<const std::byte> bytes) {
        out.write(bytes);
        progress(static_cast<int64_t>(bytes.size()));
      });
    out.commit();
  }
  std::vector<NamedElements> types;
  for (const auto& t : files[0].tensors) types.push_back({t.name, t.elements, dtype});
  write_config(folder, w, types);
  copy_beside(folder, w);
  write_file_atomic(folder.path("latest_checkpointed_iteration.txt"), "release");
}

}  // namespace ravine

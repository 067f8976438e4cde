#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/ranges.h>

#include "base/checked.h"
#include "io/convert/hf_folder.h"
#include "io/convert/megatron.h"
#include "io/convert/megatron_place.h"
#include "io/convert/megatron_rank_file.h"

namespace ravine {
namespace {

void divide(int64_t n, int64_t by, const char* what, const char* over) {
  if (n % by == 0) return;
  throw UserError("layout does not fit", fmt::format("{} {}", by, over), fmt::format("they must divide the {} {}", n, what),
                  "choose another number");
}

// Builds the tensors of one tensor rank.
class Cutter {
 public:
  Cutter(const Weights& w, const Geometry& g, const MegatronLayout& l, int64_t rank, bool moments)
      : w_(w), g_(g), l_(l), rank_(rank), moments_(moments) {}

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
    const int64_t all = padded_vocabulary(e->shape()[0], l_), more = all - e->shape()[0];
    if (!moments_ || more == 0) return rows(padded_rows(e, all));
    return rows(stack_rows({all_rows(e), all_rows(zeros(e->dtype(), {more, e->shape()[1]}))}, "rows of padding are zero"));
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
  // Returns the matrix of one expert of a stack.
  ElementsPtr expert(const ElementsPtr& stack, int64_t e) const {
    const int64_t rows = stack->shape()[1];
    return stack_rows({{reshaped(stack, {stack->shape()[0] * rows, stack->shape()[2]}), e * rows, rows}},
                      fmt::format("expert {} of {}", e, stack->shape()[0]));
  }
  ExpertNames experts() const { return l_.experts; }
  // Returns a bias, or zeros if this part of a joined tensor has none.
  ElementsPtr or_zeros(const std::string& name, int64_t n, DType dtype) const {
    if (ElementsPtr e = get(name)) return e;
    return in_memory(dtype, {n}, std::vector<std::byte>(static_cast<size_t>(n * size_of(dtype))));
  }

 private:
  const Weights& w_;
  const Geometry& g_;
  const MegatronLayout& l_;
  int64_t rank_;
  bool moments_;
};

// Adds router, experts and shared MLP of a layer with experts, under megatron-core's names.
template <class Put>
void add_sparse_mlp(const Cutter& c, const MoeSpec& moe, int64_t layer, const Put& put) {
  auto get = [&](const std::string& suffix) { return c.get(layer_name(layer, "mlp." + suffix)); };
  put("mlp.router.weight", get("gate.weight"));
  put("mlp.router.expert_bias", get("gate.e_score_correction_bias"));
  const ElementsPtr gate = get("experts.gate_proj.weight"), up = get("experts.up_proj.weight"),
                    down = get("experts.down_proj.weight");
  auto module = [&](const char* name, int64_t e) {
    return c.experts() == ExpertNames::grouped ? fmt::format("mlp.experts.{}.weight{}", name, e)
                                               : fmt::format("mlp.experts.local_experts.{}.{}.weight", e, name);
  };
  const auto first = [&](int64_t e) { put(module("linear_fc1", e), c.gate_up(c.expert(gate, e), c.expert(up, e))); };
  const auto second = [&](int64_t e) { put(module("linear_fc2", e), c.cols(c.expert(down, e))); };
  const int64_t experts = moe.routing.experts;
  if (c.experts() == ExpertNames::grouped) {
    for (int64_t e = 0; e < experts; ++e) first(e);
    for (int64_t e = 0; e < experts; ++e) second(e);
  } else {
    for (int64_t e = 0; e < experts; ++e) first(e), second(e);
  }
  if (moe.shared.width == 0) return;
  const std::string shared = moe.shared_name;
  put("mlp.shared_experts.gate_weight", get("shared_expert_gate.weight"));
  put("mlp.shared_experts.linear_fc1.weight", c.gate_up(get(shared + ".gate_proj.weight"), get(shared + ".up_proj.weight")));
  put("mlp.shared_experts.linear_fc2.weight", c.cols(get(shared + ".down_proj.weight")));
}

// Adds latent attention under megatron-core's names. Each tensor rank holds the matrices that produce the latents
// whole, as the layers of Transformer Engine do.
template <class Put>
void add_latents(const Cutter& c, int64_t layer, const Put& put) {
  auto get = [&](const char* suffix) { return c.get(layer_name(layer, fmt::format("self_attn.{}.weight", suffix))); };
  auto rows = [&](const char* suffix) {
    const ElementsPtr e = get(suffix);
    return e ? c.rows(e) : nullptr;
  };
  put("self_attention.linear_q_proj.weight", rows("q_proj"));
  put("self_attention.linear_q_down_proj.weight", get("q_a_proj"));
  put("self_attention.linear_q_up_proj.weight", rows("q_b_proj"));
  put("self_attention.linear_kv_down_proj.weight", get("kv_a_proj_with_mqa"));
  put("self_attention.linear_kv_up_proj.weight", rows("kv_b_proj"));
  put("self_attention.q_layernorm.weight", get("q_a_layernorm"));
  put("self_attention.kv_layernorm.weight", get("kv_a_layernorm"));
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
  const auto proj = [&] {
    put("self_attention.linear_proj.weight", "self_attention.dense.weight", cut("self_attn.o_proj.weight", &Cutter::cols));
    put("self_attention.linear_proj.bias", "self_attention.dense.bias", get("self_attn.o_proj.bias"));
  };
  if (core) proj();  // first in mcore, later in the form of 2023
  if (g.spec().attention.latent) {
    add_latents(c, layer, [&](const std::string& name, const ElementsPtr& e) { put(name, name, e); });
  } else {
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
  }
  if (!core) proj();
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

}  // namespace

int64_t padded_vocabulary(int64_t vocabulary, const MegatronLayout& l) {
  return round_up(vocabulary, l.vocabulary_multiple * l.tensor);
}

void refuse_for_megatron(const Geometry& g, const std::string& where) {
  const DecoderSpec& s = g.spec();
  std::string what;
  auto add = [&](bool is, const char* name) {
    if (is) what += (what.empty() ? "" : ", ") + std::string(name);
  };
  add(s.topology == Topology::post_norm || s.topology == Topology::sandwich, "norms behind attention and MLP");
  add(s.attention.latent && s.attention.latent->bias, "biases where latents are made");
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
  if (s.attention.latent && s.rope && !s.rope->interleaved)
    notes.push_back(
        "Megatron rotates neighbouring dims of latent keys as pairs, this model halves: its own gives other logits");
  if (s.moe && s.moe->routing.groups > 1) {
    const Routing& r = s.moe->routing;
    const int64_t theirs = r.top_k / r.kept_groups, ours = r.group_score == Routing::GroupScore::best ? 1 : 2;
    if (theirs != ours)
      notes.push_back(fmt::format(
          "Megatron scores a group of experts by its {} best, this model by {}: its own gives other logits", theirs, ours));
  }
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

void check_megatron_layout(const Geometry& g, const MegatronLayout& l, const std::string& where) {
  const bool core = l.names == MegatronNames::mcore;
  const DecoderSpec& s = g.spec();
  if (s.attention.latent)
    divide(g.heads, l.tensor, "heads", "tensor ranks");
  else
    divide(g.kv_heads, l.tensor, "key/value heads", "tensor ranks");
  if (s.moe) divide(s.moe->width, l.tensor, "rows of an expert", "tensor ranks");
  if (s.moe && s.moe->shared.width > 0) divide(s.moe->shared.width, l.tensor, "rows of the shared expert", "tensor ranks");
  bool dense = false;
  for (int64_t i = 0; i < g.layers; ++i) dense = dense || !s.is_sparse(i);
  if (dense) divide(g.ffn, l.tensor, "rows of the MLP", "tensor ranks");
  const std::vector<int64_t>& parts = l.stage_layers;
  if (parts.empty())
    divide(g.layers, l.pipeline * l.virtual_stages, "layers", "stages (pipeline x virtual)");
  else if (l.virtual_stages > 1 || static_cast<int64_t>(parts.size()) != l.pipeline ||
           *std::min_element(parts.begin(), parts.end()) < 1 || std::reduce(parts.begin(), parts.end()) != g.layers)
    throw UserError("layout does not fit", fmt::format("{} layers of stages", fmt::join(parts, ",")),
                    fmt::format("there is a number above 0 for each of {} stages without virtual ones, {} layers in all",
                                l.pipeline, g.layers),
                    "correct the list");
  if (l.virtual_stages > 1 && l.pipeline == 1)
    throw UserError("layout does not fit", "--virtual", "virtual stages need several pipeline ranks",
                    "leave it out, or raise --pipeline");
  refuse_for_megatron(g, where);
  if (!core && s.attention.latent)
    throw UserError("layout cannot hold the model", "megatron-legacy", "it has no latent attention", "use --to megatron-mcore");
  if (!core && s.moe)
    throw UserError("layout cannot hold the model", "megatron-legacy", "it has no experts", "use --to megatron-mcore");
  if (!core && s.attention.norms != AttentionSpec::Norms::none)
    throw UserError("layout cannot hold the model", "megatron-legacy", "it has no norms of q and k", "use --to megatron-mcore");
  if (l.pipeline > 1000 || l.tensor > 1000)
    throw UserError("layout does not fit", "--tensor, --pipeline", "at most 1000 ranks each", "choose another number");
}

std::vector<MegatronFile> plan_megatron(const Weights& w, const Geometry& g, const MegatronLayout& l, bool moments) {
  check_megatron_layout(g, l, w.config_where);
  const bool core = l.names == MegatronNames::mcore;
  const int64_t stages = l.pipeline * l.virtual_stages;
  std::vector<int64_t> layers = l.stage_layers, first_layer{0};
  if (layers.empty()) layers.assign(static_cast<size_t>(stages), g.layers / stages);
  for (const int64_t n : layers) first_layer.push_back(first_layer.back() + n);
  std::vector<MegatronFile> files;
  for (int64_t p = 0; p < l.pipeline; ++p)
    for (int64_t t = 0; t < l.tensor; ++t) {
      const Cutter c(w, g, l, t, moments);
      MegatronFile f;
      f.path = l.deepspeed ? fmt::format("{}mp_rank_{:02}_model_states.pt", l.subfolder, t)
                           : fmt::format("{}mp_rank_{:02}{}/model_optim_rng.pt", l.subfolder, t,
                                         l.pipeline > 1 ? fmt::format("_{:03}", p) : "");
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
        for (int64_t i = 0; i < layers[static_cast<size_t>(stage)]; ++i)
          add_layer(f.tensors, c, g, core, chunk, first_layer[static_cast<size_t>(stage)] + i, i);
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
  for (const MegatronFile& f : files) {
    if (folder.has(f.path)) {
      int64_t bytes = 0;
      for (const auto& t : f.tensors) bytes += t.elements->count() * size_of(dtype);
      progress(bytes);
      continue;
    }
    const std::string path = folder.path(f.path);
    create_folders(folder_of(path));
    TorchFields out(path, progress, true);
    out.out.begin_dict();
    put_model(out, f, g, l, dtype, {{"iteration", 0}, {"consumed_train_samples", 0}, {"consumed_valid_samples", 0}});
    out.out.end();
    out.commit();
  }
  std::vector<NamedElements> types;
  for (const auto& t : files[0].tensors) types.push_back({t.name, t.elements, dtype});
  write_config(folder, w, types);
  copy_companion_files(folder, w);
  write_file_atomic(folder.path(l.deepspeed ? "latest" : kMegatronTracker), kMegatronRelease);
}

}  // namespace ravine

// Llama 1, 2, 3.x (Touvron et al. 2023; Meta 2024): pre-norm blocks, rotary positions, grouped-query attention, gated MLP.
#include <deque>

#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "engine/ops/rms_norm.h"
#include "model/config_reader.h"
#include "model/families/families.h"
#include "model/layers/attention.h"
#include "model/layers/head.h"
#include "model/layers/mlp.h"

namespace ravine {
namespace {

struct LlamaConfig {
  AttentionSpec attention;
  int64_t width = 0;
  bool mlp_bias = false, tied = false;
  double eps = 1e-6;
  RopeSettings rope;
};

LlamaConfig read(const Json& config, const std::string& where, ModelFacts& f) {
  ConfigReader r(config, where);
  LlamaConfig l;
  AttentionSpec& a = l.attention;
  f.family = r.text("model_type", "llama");
  f.hidden = a.hidden = r.integer("hidden_size", 1, 1 << 20);
  f.layers = r.integer("num_hidden_layers", 1, 100000);
  f.heads = a.heads = r.integer("num_attention_heads", 1, 1 << 20);
  f.kv_heads = a.kv_heads = r.integer("num_key_value_heads", 1, 1 << 20, f.heads);
  if (f.heads % f.kv_heads) r.refuse("num_key_value_heads", fmt::format("it must divide num_attention_heads = {}", f.heads), "correct the field");
  if (!r.has("head_dim") && f.hidden % f.heads)
    r.refuse("hidden_size", fmt::format("it must be a multiple of num_attention_heads = {}, or head_dim must be given", f.heads), "correct the field");
  f.head_size = a.head_size = r.integer("head_dim", 2, 1 << 16, std::max<int64_t>(2, f.hidden / f.heads));
  if (f.head_size % 2) r.refuse("head_dim", "it must be even for rotary positions", "correct the field");
  f.vocabulary = r.integer("vocab_size", 1, 1 << 30);
  f.max_positions = r.integer("max_position_embeddings", 1, 1 << 30, 2048);
  l.width = r.integer("intermediate_size", 1, 1 << 24);
  l.eps = r.number("rms_norm_eps", 0, 1, 1e-6);
  a.qkv_bias = a.out_bias = r.boolean("attention_bias", false);
  l.mlp_bias = r.boolean("mlp_bias", false);
  l.tied = r.boolean("tie_word_embeddings", false);
  a.init_std = a.out_init_std = r.number("initializer_range", 0, 10, 0.02);
  l.rope = read_rope(r, f.head_size, f.max_positions);
  f.eos = r.ids("eos_token_id");
  if (auto id = r.ids("bos_token_id"); !id.empty()) f.bos = id[0];
  if (auto id = r.ids("pad_token_id"); !id.empty() && id[0] >= 0) f.pad = id[0];
  if (f.pad >= f.vocabulary) r.refuse("pad_token_id", fmt::format("it must be below vocab_size = {}", f.vocabulary), "correct the field");
  r.only("hidden_act", "silu", "Llama's MLP is gated by silu");
  r.only("attention_dropout", 0.0, "dropout of attention weights is not offered; train.dropout acts on the branches");
  r.only("quantization_config", nullptr, "weights must be f32, bf16 or f16");
  r.only("is_encoder_decoder", false, "Llama is a decoder");
  r.only("add_cross_attention", false, "Llama is a decoder");
  r.ignore({"architectures", "torch_dtype", "dtype", "transformers_version", "use_cache", "pretraining_tp", "_name_or_path", "auto_map", "id2label",
            "label2id", "max_sequence_length", "output_attentions", "output_hidden_states", "return_dict", "problem_type", "task_specific_params",
            "tokenizer_class", "name_or_path", "is_decoder", "chunk_size_feed_forward", "cross_attention_hidden_size", "tie_encoder_decoder",
            "finetuning_task", "prefix", "decoder_start_token_id", "sep_token_id", "torchscript", "use_bfloat16", "pruned_heads", "tf_legacy_loss"});
  r.finish();
  return l;
}

class Llama : public Model {
 public:
  Llama(const Json& config, const std::string& where) : spec_(read(config, where, facts_)), table_(spec_.rope) {
    config_ = config;
    double std = spec_.attention.init_std;
    Unit& embed = params_.unit("model.embed_tokens");
    Param* table = params_.add(embed, {"model.embed_tokens.weight", {facts_.vocabulary, facts_.hidden}, {{0, Axis::tensor}}, {Init::normal, std}, true, Use::table});
    blocks_.push_back({"model.embed_tokens", &embed, [table, pad = facts_.pad](Ctx& c, Flow) { return Flow{dropout(c, embedding(c, *table, pad)), {}}; }});

    for (int64_t i = 0; i < facts_.layers; ++i) {
      std::string name = fmt::format("model.layers.{}", i);
      Unit& unit = params_.unit(name);
      Layer& layer = layers_.emplace_back(params_, unit, name, static_cast<int>(i), spec_, table_);
      blocks_.push_back({name, &unit, [&layer](Ctx& c, Flow in) { return layer(c, std::move(in)); }});
    }

    Unit& head = params_.unit("lm_head");
    Param* norm = params_.add(head, norm_weight("model.norm"));
    Param weight{"lm_head.weight", {facts_.vocabulary, facts_.hidden}, {{0, Axis::tensor}}, {Init::normal, std}};
    if (spec_.tied) weight.tied = table;
    Param* out = params_.add(head, weight);
    blocks_.push_back({"", &head, [norm, out, eps = spec_.eps](Ctx& c, Flow in) { return output_head(c, std::move(in), *norm, eps, *out); }});
  }
  void prepare(int64_t positions, const Types& types, DeviceKind device) override { table_.prepare(positions, types.stat, device); }

 private:
  Param norm_weight(const std::string& name) { return {name + ".weight", {facts_.hidden}, {}, {Init::ones}, false, Use::vector}; }

  struct Layer {
    Layer(ParamSet& set, Unit& unit, const std::string& name, int index, const LlamaConfig& l, const RopeTable& table)
        : eps(l.eps),
          norm1(set.add(unit, {name + ".input_layernorm.weight", {l.attention.hidden}, {}, {Init::ones}, false, Use::vector})),
          attention(set, unit, name + ".self_attn", index, l.attention, table),
          norm2(set.add(unit, {name + ".post_attention_layernorm.weight", {l.attention.hidden}, {}, {Init::ones}, false, Use::vector})),
          mlp(set, unit, name + ".mlp", l.attention.hidden, l.width, l.mlp_bias, l.attention.init_std, l.attention.init_std) {}

    Flow operator()(Ctx& c, Flow in) const {
      auto [x, h] = norm(c, "input_layernorm", std::move(in), *norm1);
      Flow mid{std::move(x), branch(c, "self_attn", attention(c, h))};
      h = Tensor();
      auto [y, g] = norm(c, "post_attention_layernorm", std::move(mid), *norm2);
      return {std::move(y), branch(c, "mlp", mlp(c, g))};
    }
    Normed norm(Ctx& c, const char* name, Flow in, const Param& weight) const {
      Ctx::Scope scope(c, name);
      return rms_norm(c, std::move(in), weight, eps);
    }
    Tensor branch(Ctx& c, const char* name, Tensor t) const {
      Ctx::Scope scope(c, name);
      return dropout(c, std::move(t));
    }
    double eps;
    Param* norm1;
    Attention attention;
    Param* norm2;
    Mlp mlp;
  };

  LlamaConfig spec_;
  RopeTable table_;
  std::deque<Layer> layers_;
};

}  // namespace

std::unique_ptr<Model> make_llama(const Json& config, const std::string& where) { return std::make_unique<Llama>(config, where); }

}  // namespace ravine

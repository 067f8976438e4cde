#include "model/decoder.h"
#include "model/quantised.h"

namespace ravine {

void read_common(ConfigReader& r, ModelFacts& f) {
  f.family = r.text("model_type", "");
  f.eos = r.ids("eos_token_id");
  for (int64_t id : f.eos)
    if (id >= f.vocabulary)
      r.refuse("eos_token_id", fmt::format("{} is not below vocab_size = {}: such a model could never stop", id, f.vocabulary),
               "set it to the id of the tokenizer's eos");
  if (auto id = r.ids("bos_token_id"); !id.empty()) f.bos = id[0];
  if (auto id = r.ids("pad_token_id"); !id.empty() && id[0] >= 0) f.pad = id[0];
  if (f.pad >= f.vocabulary)
    r.refuse("pad_token_id", fmt::format("it must be below vocab_size = {}", f.vocabulary), "correct the field");
  if (const auto kept = quantised(r.config(), r.where()))
    r.refuse(kept->key, kept->what + " are not read: they must be f32, bf16 or f16", kept->fix);
  r.only("quantization_config", nullptr, "weights must be f32, bf16 or f16");
  r.only("is_encoder_decoder", false, "this family is a decoder");
  r.only("add_cross_attention", false, "this family is a decoder");
  r.ignore({"architectures",
            "torch_dtype",
            "dtype",
            "transformers_version",
            "use_cache",
            "pretraining_tp",
            "_name_or_path",
            "auto_map",
            "id2label",
            "label2id",
            "max_sequence_length",
            "output_attentions",
            "output_hidden_states",
            "return_dict",
            "problem_type",
            "task_specific_params",
            "tokenizer_class",
            "name_or_path",
            "is_decoder",
            "chunk_size_feed_forward",
            "cross_attention_hidden_size",
            "tie_encoder_decoder",
            "finetuning_task",
            "prefix",
            "decoder_start_token_id",
            "sep_token_id",
            "torchscript",
            "use_bfloat16",
            "pruned_heads",
            "tf_legacy_loss",
            "unk_token_id",
            "classifier_dropout",
            "gradient_checkpointing",
            "_from_model_config"});
  // Dropout is an option of the run, not of the model: train.dropout and train.attention_dropout. train/advice.cpp
  // reports a difference.
  r.ignore({"attention_dropout", "attn_pdrop", "hidden_dropout", "resid_pdrop", "embd_pdrop"});
  r.finish();
}

void read_vocabulary(ConfigReader& r, ModelFacts& f, DecoderSpec& s) {
  f.vocabulary = r.integer("vocab_size", 1, 1 << 30);
  double std = r.number("initializer_range", 0, 10, 0.02);
  s.attention.init_std = s.attention.out_init_std = s.mlp.init_std = s.mlp.out_init_std = std;
}

void set_padding(const ConfigReader& r, ModelFacts& f, int64_t id) {
  if (!r.has("pad_token_id") && !r.is_null("pad_token_id") && id < f.vocabulary) f.pad = id;
}

void read_llama_shape(ConfigReader& r, ModelFacts& f, DecoderSpec& s, const LlamaDefaults& absent) {
  AttentionSpec& a = s.attention;
  read_vocabulary(r, f, s);
  a.hidden = r.integer("hidden_size", 1, 1 << 20);
  f.layers = r.integer("num_hidden_layers", 1, 100000);
  a.heads = r.integer("num_attention_heads", 1, 1 << 20);
  a.kv_heads = r.integer("num_key_value_heads", 1, 1 << 20, a.heads);
  if (a.heads % a.kv_heads)
    r.refuse("num_key_value_heads", fmt::format("it must divide num_attention_heads = {}", a.heads), "correct the field");
  if (!r.has("head_dim") && a.hidden % a.heads)
    r.refuse("hidden_size",
             fmt::format("it must be a multiple of num_attention_heads = {}, or head_dim must be given", a.heads),
             "correct the field");
  a.head_size = r.integer("head_dim", 2, 1 << 16, std::max<int64_t>(2, a.hidden / a.heads));
  if (a.head_size % 2) r.refuse("head_dim", "it must be even for rotary positions", "correct the field");
  f.max_positions = r.integer("max_position_embeddings", 1, 1 << 30, absent.positions);
  s.mlp.width = r.integer("intermediate_size", 1, 1 << 24);
  s.norm = {NormSpec::rms, r.number("rms_norm_eps", 0, 1, absent.eps)};
  a.norm_eps = s.norm.eps;
  s.head.tied = r.boolean("tie_word_embeddings", absent.tied);
  if (absent.act) r.only("hidden_act", absent.act, fmt::format("the MLP of this family is gated by {}", absent.act));
}

void set_heads(ConfigReader& r, const std::string& key, int64_t heads, DecoderSpec& s) {
  AttentionSpec& a = s.attention;
  if (a.hidden % heads) r.refuse(key, fmt::format("it must divide the hidden size of {}", a.hidden), "correct the field");
  a.heads = a.kv_heads = heads;
  a.head_size = a.hidden / heads;
}

void read_layer_windows(ConfigReader& r, const ModelFacts& f, DecoderSpec& s) {
  bool on = r.boolean("use_sliding_window", false) && !r.is_null("sliding_window");
  int64_t window = r.integer("sliding_window", on ? 1 : 0, 1 << 30, 4096),
          from = r.integer("max_window_layers", 0, 1 << 20, 28);
  for (int64_t i = 0; i < f.layers; ++i) s.windows.push_back(on && i >= from ? window : 0);
  read_layer_types(r, on ? window : 0, "use_sliding_window and sliding_window", s);
}

void read_layer_types(ConfigReader& r, int64_t window, const std::string& needs, DecoderSpec& s) {
  const std::vector<std::string> types = r.texts("layer_types");
  if (types.empty()) return;
  if (types.size() != s.windows.size())
    r.refuse("layer_types", fmt::format("it must have one entry for each of {} layers", s.windows.size()), "correct the field");
  for (size_t i = 0; i < types.size(); ++i) {
    if (types[i] != "full_attention" && types[i] != "sliding_attention")
      r.refuse("layer_types", "entries must be full_attention or sliding_attention", "use a model with these");
    if (types[i] == "sliding_attention" && window == 0)
      r.refuse("layer_types", "sliding_attention needs " + needs, "complete the config");
    s.windows[i] = types[i] == "sliding_attention" ? window : 0;
  }
}

void read_experts(ConfigReader& r, DecoderSpec& s, const ExpertDefaults& absent) {
  MoeSpec& m = *s.moe;
  m.routing.experts = r.any_integer({"num_experts", "num_local_experts"}, 1, 4096, absent.experts);
  m.routing.top_k = r.integer("num_experts_per_tok", 1, 64, absent.top_k);
  if (const std::string fault = routing_fault(m.routing); !fault.empty())
    r.refuse("num_experts_per_tok", fault, "correct the field");
  m.init_std = s.mlp.init_std, m.out_init_std = s.mlp.out_init_std;
  // As in Transformers: the loss is added only if the logits of routers are returned.
  m.losses.balance_coef = r.number("router_aux_loss_coef", 0, 1e6, 0.001);
  m.losses.balance = r.boolean("output_router_logits", false) ? LoadBalance::aux : LoadBalance::none;
}

void read_sparse_layers(ConfigReader& r, const ModelFacts& f, DecoderSpec& s) {
  const int64_t step = r.integer("decoder_sparse_step", 1, 1 << 20, 1);
  s.sparse.assign(static_cast<size_t>(f.layers), false);
  for (int64_t i = step - 1; i < f.layers; i += step) s.sparse[static_cast<size_t>(i)] = true;
  for (int64_t i : r.ids("mlp_only_layers"))
    if (i >= 0 && i < f.layers) s.sparse[static_cast<size_t>(i)] = false;
}

}  // namespace ravine

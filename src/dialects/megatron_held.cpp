#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "dialects/megatron_held.h"

namespace ravine {
namespace {

// size: weights of another one are none of this network. number: it changes what weights compute. form: tensors tell.
enum class Part : uint8_t { size, number, form };

struct HeldFlag {
  const char *key, *argument;
  Part part;
  Json means = nullptr;  // what a switch says; null: the flag has a value
};

const std::vector<HeldFlag>& held_flags() {
  static const std::vector<HeldFlag> all = {
      {"--num-layers", "num_layers", Part::size},
      {"--encoder-num-layers", "num_layers", Part::size},
      {"--hidden-size", "hidden_size", Part::size},
      {"--ffn-hidden-size", "ffn_hidden_size", Part::size},
      {"--num-attention-heads", "num_attention_heads", Part::size},
      {"--num-query-groups", "num_query_groups", Part::size},
      {"--kv-channels", "kv_channels", Part::size},
      {"--position-embedding-type", "position_embedding_type", Part::size},
      {"--use-rotary-position-embeddings", "position_embedding_type", Part::size, "rope"},
      {"--max-position-embeddings", "max_position_embeddings", Part::form},
      {"--rotary-base", "rotary_base", Part::number},
      {"--rotary-percent", "rotary_percent", Part::number},
      {"--norm-epsilon", "norm_epsilon", Part::number},
      {"--layernorm-epsilon", "norm_epsilon", Part::number},
      {"--moe-router-topk", "moe_router_topk", Part::number},
      {"--num-experts", "num_experts", Part::size},
      {"--moe-intermediate-size", "moe_ffn_hidden_size", Part::form},
      {"--rope-scaling-type", "rope_scaling_type", Part::form},
      {"--rope-scaling-factor", "rope_scaling_factor", Part::form},
      {"--rotary-seq-len-interpolation-factor", "rope_scaling_factor", Part::form},
      {"--sliding-window", "sliding_window", Part::form},
      {"--normalization", "normalization", Part::form},
      {"--swiglu", "swiglu", Part::form, true},
      {"--add-bias-linear", "add_bias_linear", Part::form, true},
      {"--disable-bias-linear", "add_bias_linear", Part::form, false},
      {"--add-qkv-bias", "add_qkv_bias", Part::form, true},
      {"--add-dense-bias", "add_dense_bias", Part::form, true},
      {"--embed-layernorm", "embed_layernorm", Part::form, true},
      {"--lm-norm-weight", "lm_norm_weight", Part::form, true},
      {"--qk-layernorm", "qk_layernorm", Part::form, true},
      {"--multi-head-latent-attention", "multi_latent_attention", Part::form, true},
      {"--q-lora-rank", "q_lora_rank", Part::form},
      {"--kv-lora-rank", "kv_lora_rank", Part::form},
      {"--v-head-dim", "v_head_dim", Part::form},
      {"--qk-rope-head-dim", "qk_pos_emb_head_dim", Part::form},
      {"--qk-nope-head-dim", "qk_head_dim", Part::form},
      {"--untie-embeddings-and-output-weights", "untie_embeddings_and_output_weights", Part::form, true},
      {"--no-untie-embeddings-and-output-weights", "untie_embeddings_and_output_weights", Part::form, false},
  };
  return all;
}

bool equal(const Json& a, const Json& b) {
  if (!a.is_number() || !b.is_number()) return a == b;
  const double x = a.get<double>(), y = b.get<double>();
  return std::abs(x - y) <= 1e-9 * std::max(std::abs(x), std::abs(y));
}

// Returns the value of a flag; null if the flag is not given or does not apply to the stored network.
Json said_by(const Translation& t, const HeldFlag& flag, const Json& stored) {
  if (!t.has(flag.key)) return Json();
  const std::string_view key = flag.key;
  if (!flag.means.is_null()) return t.is_on(flag.key) ? flag.means : Json();
  if (key == "--num-query-groups" && !t.is_on("--group-query-attention")) return Json();
  const bool latent = stored.value("multi_latent_attention", Json()) == Json(true);
  if (latent && (key == "--num-query-groups" || key == "--kv-channels")) return Json();
  // Rotary positions and ALiBi have no table that ends.
  if (key == "--max-position-embeddings" && stored.value("position_embedding_type", Json()) != Json("learned_absolute"))
    return Json();
  if (key == "--position-embedding-type" && t.is_on("--use-rotary-position-embeddings")) return Json();
  if (key == "--position-embedding-type" && t.text(flag.key) == "absolute") return "learned_absolute";
  return t.value(flag.key);
}

// True if a flag that is not among held_flags() is no news beside a model. Flags of padding and of drawn weights have
// no part in it, and the number of groups is held. Numbers of rows agree if the model's table has as many.
bool agrees_with_model(const Translation& t, const std::string& key, const Json& stored) {
  if (key == "--make-vocab-size-divisible-by" || key == "--init-method-std" || key == "--group-query-attention") return true;
  const Json rows = stored.value("vocabulary", Json());
  if (!rows.is_number_integer()) return false;
  if (key == "--vocab-size") return t.whole(key) <= rows.get<int64_t>();  // the rest is padding
  return (key == "--padded-vocab-size" || key == "--pad-vocab-size-to") && t.whole(key) == rows.get<int64_t>();
}

// Explains the flags of a network that is taken from the files of a model.
void say_whose_network(Translation& t, bool own, const Json& stored) {
  const char* reason = "the model in --load says it";
  for (const ExplainedKey& line : t.lines()) {
    const auto held =
        std::find_if(held_flags().begin(), held_flags().end(), [&](const HeldFlag& f) { return line.key == f.key; });
    const bool network = line.option == "model.config" || line.reason == kModelSaysIt;
    if ((line.status != KeyStatus::used && line.status != KeyStatus::inert) || (!network && held == held_flags().end()))
      continue;
    if (held == held_flags().end()) {
      if (agrees_with_model(t, line.key, stored))
        t.agrees(line.key, reason);
      else if (line.status == KeyStatus::used)
        t.becomes(line.key, KeyStatus::inert, reason);
    } else if (!own) {
      if (line.status == KeyStatus::used)
        t.becomes(line.key, KeyStatus::used, "held against the model in --load");
      else if (!stored.empty())
        t.agrees(line.key, line.reason);
    } else {
      const Json said = said_by(t, *held, stored);
      const auto was = stored.find(held->argument);
      if (was != stored.end() && !said.is_null() && equal(said, *was))
        t.agrees(line.key, reason);
      else
        t.becomes(line.key, KeyStatus::inert, reason);
    }
  }
}

}  // namespace

void hold_megatron_network(Translation& t, const MegatronJob& job, const std::string& folder, LoadedAs as) {
  const bool own = t.is_on("--use-checkpoint-args");
  const Json stored = job.network ? job.network(folder) : Json::object();
  if (as == LoadedAs::model) say_whose_network(t, own, stored.value("arguments", Json::object()));
  if (own && as == LoadedAs::model) return;
  const auto arguments = stored.find("arguments");
  if (arguments == stored.end() || arguments->empty()) return;
  const std::string where = stored.value("where", folder);
  for (const HeldFlag& flag : held_flags()) {
    const auto was = arguments->find(flag.argument);
    if (was == arguments->end()) continue;
    const Json now = said_by(t, flag, *arguments);
    if (now.is_null() || equal(now, *was) || (flag.part == Part::form && as == LoadedAs::weights)) continue;
    const std::string shown =
        flag.means.is_null() ? fmt::format("{} is {}", flag.key, now.dump()) : fmt::format("{} is given", flag.key);
    const std::string what = fmt::format("{}, and {} of {} is {}", shown, flag.argument, where, was->dump());
    const bool text_fits = flag.means.is_null() && !was->is_boolean();
    const std::string fix = text_fits ? fmt::format("write {} {}, or load other weights", flag.key,
                                                    was->is_string() ? was->get<std::string>() : was->dump())
                                      : "leave it out, or load other weights";
    if (as == LoadedAs::model)
      t.refuse(flag.key, what, "a model that is loaded has its own network", fix);
    else if (flag.part == Part::size || own)
      t.refuse(flag.key, what, "weights are those of one network, and Megatron refuses such too", fix);
    else
      t.notice(what + ": the flag counts, in Megatron too");
  }
}

}  // namespace ravine

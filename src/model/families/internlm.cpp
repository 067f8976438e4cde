// InternLM (Shanghai AI Laboratory 2023): Llama with biases on q, k, v and o.
#include "model/decoder.h"
#include "model/families/families.h"

namespace ravine {
namespace {

// Reads `rotary`, which later revisions write: {"base": 10000, "type": "dynamic"}, dynamic NTK. The default of
// scaling_factor is 1.
RopeSettings read_rotary(ConfigReader& r, const ModelFacts& f, int64_t head_size) {
  RopeSettings rope = read_rope(r, head_size, f.max_positions);
  if (const Json* o = r.object("rotary")) {
    ConfigReader in(*o, r.where() + ", rotary");
    rope.theta = in.number("base", 1e-3, 1e12, rope.theta);
    std::string type = in.text("type", "origin");
    if (type != "origin" && type != "dynamic")
      in.refuse("type", "it must be origin or dynamic", "use a model with one of these");
    const double factor = in.number("scaling_factor", 1e-3, 1e6, 1);
    if (type == "dynamic") rope.type = RopeSettings::dynamic, rope.factor = factor;
    in.finish();
  }
  return rope;
}

}  // namespace

std::unique_ptr<Model> make_internlm(const Json& config, const std::string& where) {
  ConfigReader r(config, where);
  ModelFacts f;
  DecoderSpec s;
  read_llama_shape(r, f, s);
  s.attention.qkv_bias = s.attention.out_bias = r.boolean("bias", true);
  s.rope = read_rotary(r, f, s.attention.head_size);
  read_common(r, f);
  s.names.architecture = "InternLMForCausalLM";
  s.names.mindformers = CheckpointNames::MindFormers::llama;
  s.names.constants = {"rotary_emb.inv_freq"};
  return make_decoder(config, f, std::move(s));
}

}  // namespace ravine

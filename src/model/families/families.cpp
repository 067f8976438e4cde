#include "model/families/families.h"

namespace ravine {

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      {"llama", make_llama},     {"mistral", make_mistral},         {"qwen2", make_qwen2},
      {"qwen3", make_qwen3},     {"baichuan", make_baichuan},       {"bloom", make_bloom},
      {"phi3", make_phi3},       {"internlm", make_internlm},       {"aquila", make_aquila},
      {"gpt2", make_gpt2},       {"gpt_neox", make_gpt_neox},       {"olmo2", make_olmo2},
      {"gemma2", make_gemma2},   {"deepseek_v2", make_deepseek_v2}, {"deepseek_v3", make_deepseek_v3},
      {"mixtral", make_mixtral}, {"qwen2_moe", make_qwen2_moe},     {"qwen3_moe", make_qwen3_moe},
  };
  return table;
}

}  // namespace ravine

#include "model/families/families.h"

namespace ravine {

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      {"llama", make_llama}, {"mistral", make_mistral},   {"qwen2", make_qwen2},       {"qwen3", make_qwen3}, {"baichuan", make_baichuan},
      {"bloom", make_bloom}, {"internlm", make_internlm}, {"aquila", make_aquila},     {"gpt2", make_gpt2},   {"gpt_neox", make_gpt_neox},
  };
  return table;
}

}  // namespace ravine

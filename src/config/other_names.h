// What other programs call what Ravine has: for messages that say where it is here. Translating whole command lines is another matter.
#pragma once
#include <string>

namespace ravine {

// "here it is optimizer.lr", for a flag (with or without dashes) or key of Transformers, Megatron, DeepSpeed or llama.cpp; "" if not known.
std::string other_name_advice(std::string word);

// "f16" for "fp16", "bf16" for "bfloat16", ..; "" if it is no such name.
std::string other_type_name(const std::string& word);

}  // namespace ravine

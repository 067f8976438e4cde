// The table of families. A new family is a file in this folder, a declaration below and a line in families.cpp.
#pragma once
#include <memory>
#include <vector>

#include "model/model.h"

namespace ravine {

struct Family {
  const char* model_type;
  std::unique_ptr<Model> (*make)(const Json& config, const std::string& where);
};

const std::vector<Family>& families();

std::unique_ptr<Model> make_llama(const Json& config, const std::string& where);
std::unique_ptr<Model> make_mistral(const Json& config, const std::string& where);
std::unique_ptr<Model> make_qwen2(const Json& config, const std::string& where);
std::unique_ptr<Model> make_qwen3(const Json& config, const std::string& where);
std::unique_ptr<Model> make_baichuan(const Json& config, const std::string& where);
std::unique_ptr<Model> make_bloom(const Json& config, const std::string& where);
std::unique_ptr<Model> make_internlm(const Json& config, const std::string& where);
std::unique_ptr<Model> make_aquila(const Json& config, const std::string& where);
std::unique_ptr<Model> make_gpt2(const Json& config, const std::string& where);
std::unique_ptr<Model> make_gpt_neox(const Json& config, const std::string& where);
std::unique_ptr<Model> make_phi3(const Json& config, const std::string& where);
std::unique_ptr<Model> make_gemma2(const Json& config, const std::string& where);
std::unique_ptr<Model> make_deepseek_v2(const Json& config, const std::string& where);
std::unique_ptr<Model> make_deepseek_v3(const Json& config, const std::string& where);
std::unique_ptr<Model> make_mixtral(const Json& config, const std::string& where);
std::unique_ptr<Model> make_qwen2_moe(const Json& config, const std::string& where);
std::unique_ptr<Model> make_qwen3_moe(const Json& config, const std::string& where);
std::unique_ptr<Model> make_olmo2(const Json& config, const std::string& where);

}  // namespace ravine

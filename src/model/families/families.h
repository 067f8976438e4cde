// The table of families. A new family is a file here and a line in families.cpp.
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

}  // namespace ravine

// The contents of one rank of a Megatron checkpoint.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "files/torch_file.h"
#include "io/convert/elements.h"

namespace ravine {

struct MegatronRank {
  struct Tensor {
    std::string name;  // name in the file, nested dicts joined with '.'
    ElementsPtr elements;
  };
  std::shared_ptr<const TorchFile> file;
  std::vector<std::vector<Tensor>> chunks;  // one per virtual stage, tensors in the order of the file
};

}  // namespace ravine

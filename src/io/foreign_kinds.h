// Models and checkpoints that are known by the names of their files and are not read.
#pragma once
#include <optional>
#include <string>

namespace ravine {

struct ForeignKind {
  std::string what;  // "an ONNX model"
  std::string fix;   // how its owner gets to something that is read
};

// What a file or folder is where it holds nothing that is read: GGUF, ONNX, MLX, TensorFlow, Flax, original Llama files, chunks of
// FSDP or torch.distributed. Nothing where it is none of them, or where readable weights lie beside.
std::optional<ForeignKind> foreign_kind(const std::string& path);

}  // namespace ravine

// Recognizes models and checkpoints of formats that Ravine does not read, by their file names.
#pragma once
#include <optional>
#include <string>

namespace ravine {

// A format that Ravine does not read; the result of foreign_kind.
struct ForeignKind {
  std::string what;  // "an ONNX model"
  std::string fix;   // how to get a readable form
};

// Returns the format of a file or folder that Ravine cannot read: GGUF, ONNX, MLX, TensorFlow, Flax, original Llama
// files, chunks of FSDP or torch.distributed. Returns nothing for other paths and for a folder that also holds readable
// weights.
std::optional<ForeignKind> foreign_kind(const std::string& path);

}  // namespace ravine

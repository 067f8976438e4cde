// Any bytes as model.safetensors.index.json, with one good shard a.safetensors, give a UserError, or every tensor in
// the index exists. Both readers of an index are tried: the reader of weights, and the reader of `diff` and `info`.
#include "base/error.h"
#include "files/safetensors.h"
#include "files/tensor_set.h"
#include "io/huggingface.h"
#include "model/model.h"
#include "scratch.h"

namespace {
const Scratch& folder_with_shard() {
  static const Scratch scratch;
  static const bool made = [] {
    const std::byte zeros[64] = {};
    ravine::save_safetensors(scratch.folder() + "/a.safetensors",
                             {{"model.norm.weight", ravine::DType::f32, {4}, std::span(zeros).first(16)},
                              {"lm_head.weight", ravine::DType::f32, {2, 4}, std::span(zeros).first(32)}});
    return true;
  }();
  (void)made;
  return scratch;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  static const std::unique_ptr<Model> model = make_model(Json{{"model_type", "llama"},
                                                              {"hidden_size", 4},
                                                              {"intermediate_size", 4},
                                                              {"num_hidden_layers", 1},
                                                              {"num_attention_heads", 1},
                                                              {"vocab_size", 2}},
                                                         "fuzz");
  const Scratch& scratch = folder_with_shard();
  scratch.write("model.safetensors.index.json", text_of(data, size));
  try {
    check_weights(scratch.folder(), *model);
    std::abort();  // the shard lacks most of the model
  } catch (const UserError&) {
  }
  try {
    const TensorSet set(scratch.folder());
    for (const auto& [name, placed] : set.tensors())
      if (placed.bytes().size() != static_cast<size_t>(placed.info->shape.count()) * 4) std::abort();
  } catch (const UserError&) {
  }
  return 0;
}

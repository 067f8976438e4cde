// Tensors of other programs' dumps: what these say of them, and their files of one tensor.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "files/npy.h"
#include "files/safetensors.h"
#include "probe/dump_log.h"

namespace ravine {

struct ForeignTensor {
  DType dtype = DType::f32;
  Shape shape;
  TensorFigures figures;  // not of a trace's tensors, which are read when they are wanted
  StoredPart stored;      // in the folder of the dump; empty where the dump has figures alone
};

// "torch.float32", "mindspore.bfloat16", "Float32", "<class 'float'>"; none where we have no such type.
std::optional<DType> foreign_dtype(std::string_view text);
// At most five dims: more are one. Sizes that are none are a UserError.
Shape foreign_shape(const std::vector<int64_t>& sizes, const std::string& where);

// What a dump's figures tell (TensorFigures::rough). None known: `digest`, a checksum of another kind, stands alone.
struct KnownFigures {
  std::optional<double> min, max, mean, l2;
  std::string digest;
};
TensorFigures rough_figures(int64_t count, const KnownFigures& known);
// Of tensors side by side, or one after another.
TensorFigures joined_figures(std::span<const TensorFigures> parts);

// A name from a dump as a file in its folder. One that leads out of it ("..", from the root) is a UserError.
std::string name_inside(const std::string& name, const std::string& where);

// Files of a dump's tensors, by ending: .safetensors (of many), .npy, .pt (torch.save of one tensor; its pickle is read, never
// executed). The file read last stays open, since neighbours lie together. Whatever is wrong with one is a UserError.
class StoredTensors {
 public:
  explicit StoredTensors(std::string folder) : folder_(std::move(folder)) {}
  // Valid until the next call. Pickles of what is no tensor, and arrays of objects, are refused.
  std::span<const std::byte> bytes(const StoredPart& part, DType* dtype = nullptr, Shape* shape = nullptr);
  // With its figures and place. `said`: what the dump's log says of its shape.
  ForeignTensor read(const std::string& file, const std::optional<Shape>& said = {});

 private:
  std::string folder_, open_;
  std::unique_ptr<SafetensorsReader> reader_;
  NpyArray array_;
};

}  // namespace ravine

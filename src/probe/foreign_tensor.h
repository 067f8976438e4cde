// Tensors in dumps of other programs: their types, shapes, figures and files.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "files/npy.h"
#include "files/safetensors.h"
#include "probe/dump_log.h"

namespace ravine {

// A tensor of another program's dump.
struct ForeignTensor {
  DType dtype = DType::f32;
  Shape shape;
  TensorFigures figures;  // unset for tensors of a trace, which are read when needed
  StoredPart stored;      // in the folder of the dump; empty if the dump has figures only
};

// Returns the type of "torch.float32", "mindspore.bfloat16", "Float32", "<class 'float'>"; empty if Ravine has no such
// type.
std::optional<DType> foreign_dtype(std::string_view text);
// Returns a shape of at most five dims; more dims are joined to one. Invalid sizes are a UserError.
Shape foreign_shape(const std::vector<int64_t>& sizes, const std::string& where);

// Figures in a dump (TensorFigures::rough). If none is known, `digest`, another kind of checksum, is used alone.
struct KnownFigures {
  std::optional<double> min, max, mean, l2;
  std::string digest;
};
TensorFigures rough_figures(int64_t count, const KnownFigures& known);
// Returns the figures of joined tensors.
TensorFigures joined_figures(std::span<const TensorFigures> parts);

// Returns a file name of a dump. A name that leads out of its folder ("..", absolute) is a UserError.
std::string name_inside(const std::string& name, const std::string& where);

// Reads tensor files by their extension: .safetensors (many tensors), .npy, .pt (torch.save of one tensor; the pickle
// is parsed, never executed). The last file stays open, because neighbouring tensors share a file. A mistake in a file
// is a UserError.
class StoredTensors {
 public:
  explicit StoredTensors(std::string folder) : folder_(std::move(folder)) {}
  // Returns the bytes of a tensor, valid until the next call. Pickles without a tensor and arrays of objects are
  // UserErrors.
  std::span<const std::byte> bytes(const StoredPart& part, DType* dtype = nullptr, Shape* shape = nullptr);
  // Returns a tensor with its figures and file. `said`: the shape in the log of the dump.
  ForeignTensor read(const std::string& file, const std::optional<Shape>& said = {});

 private:
  std::string folder_, open_;
  std::unique_ptr<SafetensorsReader> reader_;
  NpyArray array_;
};

}  // namespace ravine

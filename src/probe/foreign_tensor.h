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

// A tensor in another program's dump: its type, shape and figures, and its file.
struct ForeignTensor {
  DType dtype = DType::f32;
  Shape shape;
  TensorFigures figures;  // unset for tensors of a trace, which are read when needed
  StoredPart stored;      // its file in the folder of the dump; empty if the dump has figures only
};

// Returns Ravine's type for the name of a type in another program: "torch.float32", "mindspore.bfloat16", "Float32",
// "<class 'float'>". Empty if Ravine does not have this type.
std::optional<DType> foreign_dtype(std::string_view text);
// Returns the shape with these sizes; more than five dims become a single dim with their product. Invalid sizes are a
// UserError that names `where`.
Shape foreign_shape(const std::vector<int64_t>& sizes, const std::string& where);

// The figures of a tensor that another program's dump has. digest: that program's own checksum, used if none of the
// others is known.
struct KnownFigures {
  std::optional<double> min, max, mean, l2;
  std::string digest;
};
// Returns the rough figures (TensorFigures::rough) of a tensor with `count` elements, from the figures that are known.
TensorFigures rough_figures(int64_t count, const KnownFigures& known);
// Returns the rough figures of a tensor that is concatenated from parts with these figures.
TensorFigures joined_figures(std::span<const TensorFigures> parts);

// Checks a file name from another program's dump and returns it. A name that leads out of the dump's folder ("..",
// absolute) is a UserError that names `where`.
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
  // Reads the tensor in a file, and returns it with its figures and file. declared_shape: the shape that the log of the
  // dump names; another number of elements in the file is a UserError. Empty: not known.
  ForeignTensor read(const std::string& file, const std::optional<Shape>& declared_shape = {});

 private:
  std::string folder_, open_;
  std::unique_ptr<SafetensorsReader> reader_;
  NpyArray array_;
};

}  // namespace ravine

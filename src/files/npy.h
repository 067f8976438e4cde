// NumPy's .npy files. Source: numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"
#include "files/atomic.h"

namespace ravine {

// Writes an array as a .npy file of version 1.0, little-endian, C order. The file appears completely or not at all;
// `check` is called before an existing file is replaced (AtomicFile). bf16, which NumPy lacks, is an Error: convert it
// first.
void write_npy(const std::string& path, DType dtype, const Shape& shape, std::span<const std::byte> bytes,
               const MayReplace& check = {});
// Writes an array as a .npy file, for an element type that only NumPy has: `code` is NumPy's name of it, e.g. "<u4",
// and `width` the bytes of an element.
void write_npy(const std::string& path, std::string_view code, int64_t width, const Shape& shape,
               std::span<const std::byte> bytes, const MayReplace& check = {});
std::string npy_header(std::string_view code, const Shape& shape);  // the bytes before the data, as NumPy writes them

struct NpyArray {
  DType dtype = DType::f32;
  Shape shape;
  std::vector<std::byte> bytes;
};

// Reads a .npy file of version 1 to 3. UserErrors name the file: big-endian, Fortran order, objects, structures, more
// than five dimensions, damaged or truncated data.
NpyArray read_npy(const std::string& path);
NpyArray read_npy_header(const std::string& path);  // reads dtype and shape; `bytes` stays empty
NpyArray parse_npy(std::span<const std::byte> file,
                   const std::string& where);  // parses a .npy file in memory; `where` names it in errors

}  // namespace ravine

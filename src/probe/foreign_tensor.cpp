#include "probe/foreign_tensor.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "files/checksum.h"
#include "files/torch_file.h"

namespace ravine {
namespace {

NpyArray read_torch_tensor(const std::string& path) {
  const TorchFile file(path);
  const Pickle::Ref root = file.pickle().root();
  if (!file.is_tensor(root))
    throw UserError("no tensor", path, fmt::format("a dump's file holds one, this {}", file.pickle().describe(root)),
                    "record the dump again");
  const TorchTensor t = file.tensor(root, path);
  NpyArray out{.dtype = t.dtype, .shape = t.shape, .bytes = {}};
  out.bytes.resize(static_cast<size_t>(t.bytes()));
  file.read(t, 0, out.bytes);
  return out;
}

}  // namespace

std::optional<DType> foreign_dtype(std::string_view text) {
  if (text == "<class 'float'>") return DType::f64;
  if (text == "<class 'int'>") return DType::i64;
  if (text == "<class 'bool'>") return DType::boolean;
  if (const size_t dot = text.rfind('.'); dot != std::string_view::npos) text.remove_prefix(dot + 1);
  std::string small(text);
  std::transform(small.begin(), small.end(), small.begin(), [](unsigned char c) { return std::tolower(c); });
  static constexpr std::pair<std::string_view, DType> table[] = {{"int64", DType::i64}, {"int32", DType::i32},
                                                                 {"int16", DType::i16}, {"int8", DType::i8},
                                                                 {"uint8", DType::u8},  {"bool", DType::boolean}};
  for (const auto& [key, type] : table)
    if (small == key) return type;
  return parse_dtype(small);
}

Shape foreign_shape(const std::vector<int64_t>& sizes, const std::string& where) {
  Shape shape;
  int64_t count = 1;
  for (const int64_t s : sizes) {
    if (s < 0 || __builtin_mul_overflow(count, s, &count) || count >= int64_t{1} << 56)
      throw UserError("no shape", where, "sizes are 0 or more, and memory could hold them", "record the dump again");
    if (sizes.size() <= 5) shape.push_back(s);
  }
  if (sizes.size() > 5) shape.push_back(count);
  return shape;
}

TensorFigures rough_figures(int64_t count, const KnownFigures& known) {
  TensorFigures f{.count = count, .rough = true};
  f.has_statistics = known.min && known.max;
  f.min = known.min.value_or(0), f.max = known.max.value_or(0), f.mean = known.mean.value_or(0), f.l2 = known.l2.value_or(0);
  f.abs_max = std::max(std::abs(f.min), std::abs(f.max));
  const bool finite = std::isfinite(f.min) && std::isfinite(f.max) && std::isfinite(f.mean) && std::isfinite(f.l2);
  f.finite = finite ? count : 0;
  if (!finite) (std::isnan(f.min) || std::isnan(f.max) || std::isnan(f.mean) ? f.nan : f.plus_inf) = count;
  if (f.has_statistics && f.min == 0 && f.max == 0) f.zero = count;
  f.no_mean = !known.mean, f.no_l2 = !known.l2;
  if (f.no_l2 && finite) f.l2 = std::max(f.abs_max, std::abs(f.mean) * std::sqrt(static_cast<double>(count)));
  const std::string all = fmt::format("{} {:a} {:a} {:a} {:a} {}", count, f.min, f.max, f.mean, f.l2, known.digest);
  f.order_free = f.positional = checksum_of(std::as_bytes(std::span(all)));
  return f;
}

TensorFigures joined_figures(std::span<const TensorFigures> parts) {
  if (parts.size() == 1) return parts.front();
  KnownFigures all;
  int64_t count = 0;
  double sum = 0, squares = 0;
  bool known = true, mean = true, l2 = true;
  for (const TensorFigures& f : parts) {
    known &= f.has_statistics, mean &= !f.no_mean, l2 &= !f.no_l2;
    all.min = std::min(all.min.value_or(f.min), f.min), all.max = std::max(all.max.value_or(f.max), f.max);
    count += f.count, sum += f.mean * static_cast<double>(f.count), squares += f.l2 * f.l2;
    all.digest += fmt::format("{:x} ", f.positional);
  }
  if (known && mean) all.mean = sum / static_cast<double>(std::max<int64_t>(1, count));
  if (known && l2) all.l2 = std::sqrt(squares);
  if (!known) all.min = all.max = {};
  return rough_figures(count, all);
}

std::string name_inside(const std::string& name, const std::string& where) {
  if (name.empty() || name.starts_with('/') || ("/" + name + "/").find("/../") != std::string::npos ||
      name.find('\0') != std::string::npos)
    throw UserError(fmt::format("a file outside of the dump: '{}'", printable(name)), where,
                    "files of a dump lie in its own folder", "record the dump again, and do not change its files");
  return name;
}

std::span<const std::byte> StoredTensors::bytes(const StoredPart& part, DType* dtype, Shape* shape) {
  const std::string path = folder_ + "/" + part.file;
  const bool many = !part.file.ends_with(".npy") && !part.file.ends_with(".pt");
  if (open_ != part.file) {
    open_.clear(), reader_.reset(), array_ = {};
    if (many)
      reader_ = std::make_unique<SafetensorsReader>(path);
    else
      array_ = part.file.ends_with(".npy") ? read_npy(path) : read_torch_tensor(path);
    open_ = part.file;
  }
  if (!many) {
    if (dtype) *dtype = array_.dtype;
    if (shape) *shape = array_.shape;
    return array_.bytes;
  }
  const TensorInfo& t = reader_->tensor(part.stored);
  if (dtype) *dtype = t.dtype;
  if (shape) *shape = t.shape;
  return reader_->bytes(t);
}

ForeignTensor StoredTensors::read(const std::string& file, const std::optional<Shape>& declared_shape) {
  ForeignTensor out;
  out.stored = {file, file};
  const auto data = bytes(out.stored, &out.dtype, &out.shape);
  if (declared_shape && declared_shape->count() != out.shape.count())
    throw UserError(fmt::format("it is {}", out.shape.text()), folder_ + "/" + file,
                    fmt::format("the dump says that it is {}", declared_shape->text()), "record the dump again");
  out.figures = figures_of(view_of(const_cast<std::byte*>(data.data()), out.dtype, out.shape), true);
  return out;
}

}  // namespace ravine

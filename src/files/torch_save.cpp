#include "files/torch_save.h"

#include <bit>
#include <filesystem>

namespace ravine {
namespace {

std::string_view torch_name(DType t) {
  switch (t) {
    case DType::f64:
      return "float64";
    case DType::f32:
      return "float32";
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    case DType::i64:
      return "int64";
    case DType::i32:
      return "int32";
    case DType::i16:
      return "int16";
    case DType::i8:
      return "int8";
    case DType::u8:
      return "uint8";
    case DType::boolean:
      return "bool";
  }
  return "";
}

std::string_view storage_class(DType t) {
  switch (t) {
    case DType::f64:
      return "DoubleStorage";
    case DType::f32:
      return "FloatStorage";
    case DType::bf16:
      return "BFloat16Storage";
    case DType::f16:
      return "HalfStorage";
    case DType::i64:
      return "LongStorage";
    case DType::i32:
      return "IntStorage";
    case DType::i16:
      return "ShortStorage";
    case DType::i8:
      return "CharStorage";
    case DType::u8:
      return "ByteStorage";
    case DType::boolean:
      return "BoolStorage";
  }
  return "";
}

}  // namespace

TorchSave::TorchSave(const std::string& path, bool straight)
    : zip_(path, 0xffffffff, straight), top_(std::filesystem::path(path).stem().string()) {
  op(0x80), op(2);
}

void TorchSave::global(std::string_view module, std::string_view name) {
  op('c');
  pickle_.append(module).append("\n").append(name).append("\n");
}
void TorchSave::begin_dict() {
  op('}'), op('(');
  ends_.push_back("u");
}
void TorchSave::begin_ordered_dict() {
  global("collections", "OrderedDict");
  op(')'), op('R'), op('(');
  ends_.push_back("u");
}
void TorchSave::begin_namespace() { begin_object("argparse", "Namespace"); }
void TorchSave::begin_object(std::string_view module, std::string_view type) {
  global(module, type);
  op(')'), op(0x81), op('}'), op('(');
  ends_.push_back("ub");
}
void TorchSave::begin_list() {
  op(']'), op('(');
  ends_.push_back("e");
}
void TorchSave::begin_tuple() {
  op('(');
  ends_.push_back("t");
}
void TorchSave::end() {
  require(!ends_.empty(), "TorchSave::end: no container is open");
  pickle_ += ends_.back();
  ends_.pop_back();
}
void TorchSave::text(std::string_view s) {
  op('X');
  for (int i = 0; i < 4; ++i) op(static_cast<unsigned char>(s.size() >> (8 * i)));
  pickle_.append(s);
}
void TorchSave::integer(int64_t v) {
  const bool small = v >= INT32_MIN && v <= INT32_MAX;
  op(small ? 'J' : 0x8a);
  if (!small) op(8);
  for (int i = 0; i < (small ? 4 : 8); ++i) op(static_cast<unsigned char>(static_cast<uint64_t>(v) >> (8 * i)));
}
void TorchSave::real(double v) {
  op('G');
  const auto bits = std::bit_cast<uint64_t>(v);
  for (int i = 7; i >= 0; --i) op(static_cast<unsigned char>(bits >> (8 * i)));
}
void TorchSave::boolean(bool v) { op(v ? 0x88 : 0x89); }
void TorchSave::none() { op('N'); }
void TorchSave::type(DType t) { global("torch", torch_name(t)); }

void TorchSave::size(const Shape& shape) {
  global("torch", "Size");
  op('('), op('(');
  for (int64_t s : shape) integer(s);
  op('t'), op('t'), op('R');
}

size_t TorchSave::tensor(DType dtype, const Shape& shape) {
  tensor_in(sizes_.size(), dtype, shape);
  sizes_.push_back(shape.count() * size_of(dtype));
  return sizes_.size() - 1;
}

void TorchSave::tensor_in(size_t storage, DType dtype, const Shape& shape) {
  global("torch._utils", "_rebuild_tensor_v2");
  op('('), op('(');
  text("storage");
  global("torch", storage_class(dtype));
  text(std::to_string(storage));
  text("cpu");
  integer(shape.count());
  op('t'), op('Q');
  integer(0);
  op('(');
  for (int64_t s : shape) integer(s);
  op('t'), op('(');
  for (int d = 0; d < shape.rank(); ++d) {
    int64_t stride = 1;
    for (int i = d + 1; i < shape.rank(); ++i) stride *= std::max<int64_t>(shape[i], 1);
    integer(stride);
  }
  op('t'), boolean(false);
  global("collections", "OrderedDict");
  op(')'), op('R'), op('t'), op('R');
}

void TorchSave::start_data() {
  if (data_) return;
  require(ends_.empty(), "TorchSave: {} containers are open", ends_.size());
  op('.');
  zip_.add(top_ + "/data.pkl", pickle_);
  zip_.add(top_ + "/byteorder", "little");
  data_ = true;
  next_member();
}

// Begins members until one is not empty.
void TorchSave::next_member() {
  while (current_ < sizes_.size() && left_ == 0) {
    zip_.begin(fmt::format("{}/data/{}", top_, current_), sizes_[current_]);
    left_ = sizes_[current_++];
  }
}

void TorchSave::write(std::span<const std::byte> bytes) {
  start_data();
  require(static_cast<int64_t>(bytes.size()) <= left_, "TorchSave::write: {} bytes of the tensor are left, got {}", left_,
          bytes.size());
  zip_.write(bytes);
  left_ -= static_cast<int64_t>(bytes.size());
  next_member();
}

void TorchSave::commit() {
  start_data();
  require(left_ == 0 && current_ == sizes_.size(), "TorchSave::commit: tensors are incomplete");
  zip_.add(top_ + "/version", "3\n");
  zip_.commit();
}

}  // namespace ravine

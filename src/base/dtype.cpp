#include "base/dtype.h"

#include <array>

namespace ravine {
namespace {
struct Row {
  std::string_view name, file, python;
  int64_t size;
};
constexpr std::array<Row, 10> kRows{{{"f64", "F64", "float64", 8},
                                     {"f32", "F32", "float32", 4},
                                     {"bf16", "BF16", "bfloat16", 2},
                                     {"f16", "F16", "float16", 2},
                                     {"i64", "I64", "int64", 8},
                                     {"i32", "I32", "int32", 4},
                                     {"i16", "I16", "int16", 2},
                                     {"i8", "I8", "int8", 1},
                                     {"u8", "U8", "uint8", 1},
                                     {"bool", "BOOL", "boolean", 1}}};
}  // namespace

int64_t size_of(DType t) { return kRows[static_cast<size_t>(t)].size; }
std::string_view name(DType t) { return kRows[static_cast<size_t>(t)].name; }
std::string_view file_name(DType t) { return kRows[static_cast<size_t>(t)].file; }

std::optional<DType> parse_dtype(std::string_view text) {
  for (size_t i = 0; i < kRows.size(); ++i)
    if (text == kRows[i].name || text == kRows[i].file || text == kRows[i].python) return static_cast<DType>(i);
  return std::nullopt;
}

bool is_float(DType t) { return t == DType::f64 || t == DType::f32 || t == DType::bf16 || t == DType::f16; }

double epsilon(DType t) {
  switch (t) {
    case DType::f64:
      return 0x1p-52;
    case DType::f32:
      return 0x1p-23;
    case DType::bf16:
      return 0x1p-7;
    case DType::f16:
      return 0x1p-10;
    default:
      fail("epsilon: {} is not a floating type", name(t));
  }
}
}  // namespace ravine

// Element types, with their names in options and logs ("f32") and in safetensors files ("F32").
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/half.h"

namespace ravine {

enum class DType : uint8_t { f64, f32, bf16, f16, i64, i32, i16, i8, u8, boolean };

int64_t size_of(DType t);             // bytes of one element
std::string_view name(DType t);       // "f32"
std::string_view file_name(DType t);  // "F32": the name in safetensors
// Returns the element type with this name: Ravine's ("f32"), safetensors' ("F32") or Python's (float32, bfloat16,
// int64, ..). Returns nothing for any other text.
std::optional<DType> parse_dtype(std::string_view text);
bool is_float(DType t);
double epsilon(DType t);  // distance from 1 to the next larger number (2^-23 for f32); Error if not a floating type

template <class T>
constexpr DType dtype_of();
template <>
constexpr DType dtype_of<double>() {
  return DType::f64;
}
template <>
constexpr DType dtype_of<float>() {
  return DType::f32;
}
template <>
constexpr DType dtype_of<bf16>() {
  return DType::bf16;
}
template <>
constexpr DType dtype_of<f16>() {
  return DType::f16;
}
template <>
constexpr DType dtype_of<int64_t>() {
  return DType::i64;
}
template <>
constexpr DType dtype_of<int32_t>() {
  return DType::i32;
}
template <>
constexpr DType dtype_of<int16_t>() {
  return DType::i16;
}
template <>
constexpr DType dtype_of<int8_t>() {
  return DType::i8;
}
template <>
constexpr DType dtype_of<uint8_t>() {
  return DType::u8;
}

// Calls f with a zero of the C++ type of a floating dtype:
//   visit_float(t, [&](auto zero) { using T = decltype(zero); ... });
// Any other dtype is an Error.
template <class F>
decltype(auto) visit_float(DType t, F&& f) {
  switch (t) {
    case DType::f64:
      return f(double{});
    case DType::f32:
      return f(float{});
    case DType::bf16:
      return f(bf16{});
    case DType::f16:
      return f(f16{});
    default:
      fail("visit_float: {} is not a floating type", name(t));
  }
}

}  // namespace ravine

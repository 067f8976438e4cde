#include "train/state_norms.h"

#include <bit>
#include <cmath>

#include "base/json.h"
#include "files/convert.h"
#include "runs/run_state.h"

namespace ravine {
namespace {

// Returns the sum of squares of a tensor. Host work: one pass over the elements.
double squares_of(const TensorView& v) {
  constexpr int64_t kPiece = 4096;
  std::vector<double> piece(kPiece);
  double sum = 0;
  const int64_t bytes = size_of(v.dtype);
  for (int64_t at = 0; at < v.count(); at += kPiece) {
    const int64_t n = std::min(kPiece, v.count() - at);
    convert(v.dtype, static_cast<const std::byte*>(v.data) + at * bytes, DType::f64, piece.data(), n);
    for (int64_t i = 0; i < n; ++i) sum += piece[static_cast<size_t>(i)] * piece[static_cast<size_t>(i)];
  }
  return sum;
}

}  // namespace

std::map<std::string, double> state_squares(StepEngine& engine, const std::string& kind) {
  Json mine = Json::array();  // bits of doubles, since JSON has no infinity
  for (const StateTensor& t : state_of(engine).tensors)
    if (!t.own && is_float(t.view.dtype) && t.name.starts_with(kind))
      mine.push_back({t.name, std::bit_cast<uint64_t>(squares_of(t.view))});
  std::map<std::string, double> all;
  for (const std::string& text : gather_texts(engine.ranks().all(), mine.dump()))
    for (const Json& row : Json::parse(text)) all[row[0].get<std::string>()] += std::bit_cast<double>(row[1].get<uint64_t>());
  return all;
}

double weight_norm(StepEngine& engine) {
  double squares = 0;
  for (const auto& [name, of_one] : state_squares(engine, "weights/")) squares += of_one;
  return std::sqrt(squares);
}

}  // namespace ravine

#include "data/fixed_batches.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "base/text.h"
#include "model/vocabulary.h"

namespace ravine {

namespace {

template <class T>
void widen(const std::byte* from, std::vector<int64_t>& into) {
  for (size_t i = 0; i < into.size(); ++i) {
    T v;
    std::memcpy(&v, from + i * sizeof(T), sizeof(T));
    into[i] = static_cast<int64_t>(v);  // NOLINT(bugprone-signed-char-misuse): a number
  }
}

bool is_integer(DType t) { return !is_float(t); }

}  // namespace

std::vector<TokenSpan> parts_by_position(std::span<const int32_t> positions, int32_t begin, int32_t length) {
  std::vector<TokenSpan> parts;
  for (int32_t c = begin; c < begin + length; ++c) {
    const auto at = static_cast<size_t>(c);
    if (c == begin || positions[at] != positions[at - 1] + 1) parts.push_back({c, 0});
    ++parts.back().length;
  }
  return parts;
}

FixedBatches::FixedBatches(const std::string& path, int64_t vocabulary, int64_t positions)
    : file_(std::make_unique<SafetensorsReader>(path)) {
  static const std::vector<std::string> names = {"input_ids", "labels", "next_labels", "attention_mask", "position_ids"};
  for (const auto& t : file_->tensors()) {
    auto where = fmt::format("{}: {}", path, printable(t.name));
    if (std::find(names.begin(), names.end(), t.name) == names.end()) {
      auto near = nearest(t.name, names);
      if (is_float(t.dtype) && near.empty())
        throw UserError("weights, not data", where, fmt::format("a fixed batch file holds ids: {}", fmt::join(names, ", ")),
                        "name texts, records or token files; a model is model.path, its folder");
      throw UserError("unknown tensor in a fixed batch file", where, fmt::format("it may hold {}", fmt::join(names, ", ")),
                      near.empty() ? "remove it" : fmt::format("did you mean '{}'?", near));
    }
    if (!is_integer(t.dtype))
      throw UserError("wrong type", where, fmt::format("it must hold integers, not {}", name(t.dtype)),
                      "write it as int32 or int64");
  }
  ids_ = &file_->tensor("input_ids");
  labels_ = file_->find("labels");
  next_labels_ = file_->find("next_labels");
  mask_ = file_->find("attention_mask");
  positions_ = file_->find("position_ids");
  if (ids_->shape.rank() != 2)
    throw UserError("wrong shape", path + ": input_ids", fmt::format("it must be [rows, columns], not {}", ids_->shape.text()),
                    "reshape it");
  rows_ = ids_->shape[0];
  columns_ = ids_->shape[1];
  if (rows_ == 0 || columns_ == 0)
    throw UserError("empty data", path + ": input_ids", fmt::format("it has the shape {}", ids_->shape.text()),
                    "give at least one row and column");
  if (labels_ && next_labels_)
    throw UserError("labels given twice", path, "a file holds labels or next_labels", "remove one of them");
  if (!next_labels_ && columns_ < 2)
    throw UserError("no predictions", path + ": input_ids", "one column predicts nothing",
                    "give at least two columns, or next_labels");
  for (const TensorInfo* t : {labels_, next_labels_, mask_, positions_})
    if (t && !(t->shape == ids_->shape))
      throw UserError("wrong shape", fmt::format("{}: {}", path, t->name),
                      fmt::format("it is {}, input_ids are {}", t->shape.text(), ids_->shape.text()), "make them equal");
  check(ids_, 0, vocabulary - 1, false);
  check(labels_, 0, vocabulary - 1, true);
  check(next_labels_, 0, vocabulary - 1, true);
  constexpr int64_t kMostPositions = 1 << 24;  // tables of rotary angles have a row for each position
  check(positions_, 0, (positions > 0 ? positions : kMostPositions) - 1, false);
  check(mask_, 0, 1, false);
  check_mask();
  check_learns();
}

std::vector<int64_t> FixedBatches::row(const TensorInfo* tensor, int64_t row) const {
  std::vector<int64_t> v(static_cast<size_t>(columns_));
  const std::byte* from = file_->bytes(*tensor).data() + row * columns_ * size_of(tensor->dtype);
  switch (tensor->dtype) {
    case DType::i64:
      widen<int64_t>(from, v);
      break;
    case DType::i32:
      widen<int32_t>(from, v);
      break;
    case DType::i16:
      widen<int16_t>(from, v);
      break;
    case DType::i8:
      widen<int8_t>(from, v);
      break;
    default:
      widen<uint8_t>(from, v);
  }
  return v;
}

void FixedBatches::check(const TensorInfo* tensor, int64_t low, int64_t high, bool may_ignore) const {
  if (!tensor) return;
  for (int64_t r = 0; r < rows_; ++r) {
    auto v = row(tensor, r);
    for (size_t c = 0; c < v.size(); ++c)
      if ((v[c] < low || v[c] > high) && !(may_ignore && v[c] == kIgnored))
        throw UserError(fmt::format("{} is out of range", v[c]),
                        fmt::format("{}: {}, row {}, column {}", file_->path(), tensor->name, r, c),
                        fmt::format("{} to {}{}", low, high, may_ignore ? ", or -100 where nothing counts" : ""),
                        tensor == mask_ || tensor == positions_ ? "correct the file" : more_rows_advice(v[c]));
  }
}

void FixedBatches::check_mask() const {
  if (!mask_) return;
  for (int64_t r = 0; r < rows_; ++r) {
    auto m = row(mask_, r);
    auto first = std::find(m.begin(), m.end(), 1), gap = std::find(first, m.end(), 0), again = std::find(gap, m.end(), 1);
    if (again != m.end())
      throw UserError("attention mask with a gap",
                      fmt::format("{}: attention_mask, row {}, column {}", file_->path(), r, again - m.begin()),
                      "the 1s of a row must be adjacent", "pad on the left or on the right only");
  }
}

void FixedBatches::check_learns() const {
  bool token = false;
  for (int64_t r = 0; r < rows_; ++r) {
    const Sample s = sample(r);
    token = token || !s.segments.empty();
    if (std::any_of(s.labels.begin(), s.labels.end(), [](int32_t l) { return l != kIgnored; })) return;
  }
  const TensorInfo* why = !token ? mask_ : labels_ ? labels_ : next_labels_ ? next_labels_ : mask_;
  throw UserError("nothing to learn", fmt::format("{}: {}", file_->path(), why ? why->name : "input_ids"),
                  token ? "no row has a label to learn: all are -100 or masked" : "the mask has no 1 in any row",
                  "correct the file");
}

int64_t FixedBatches::joined_row() const {
  for (int64_t r = 0; positions_ && mask_ && r < rows_; ++r) {
    const Sample s = sample(r);
    for (const TokenSpan& seg : s.segments)
      if (parts_by_position(s.positions, seg.begin, seg.length).size() > 1) return r;
  }
  return -1;
}

Sample FixedBatches::sample(int64_t r) const {
  require(r >= 0 && r < rows_, "fixed batches: row is 0 to {}, got {}", rows_ - 1, r);
  auto T = static_cast<size_t>(columns_);
  auto narrow_row = [&](const TensorInfo* t) {
    auto v = row(t, r);
    return std::vector<int32_t>(v.begin(), v.end());
  };
  Sample s;
  s.ids = narrow_row(ids_);
  if (positions_) {
    s.positions = narrow_row(positions_);
  } else {
    s.positions.resize(T);
    std::iota(s.positions.begin(), s.positions.end(), 0);
  }
  size_t begin = 0, end = T;
  if (mask_) {
    auto m = row(mask_, r);
    begin = static_cast<size_t>(std::find(m.begin(), m.end(), 1) - m.begin());
    end = static_cast<size_t>(std::find(m.begin() + static_cast<ptrdiff_t>(begin), m.end(), 0) - m.begin());
  }
  if (positions_ && !mask_)
    s.segments = parts_by_position(s.positions, 0, static_cast<int32_t>(T));
  else if (begin < end)
    s.segments = {{static_cast<int32_t>(begin), static_cast<int32_t>(end - begin)}};
  if (next_labels_) {
    s.labels = narrow_row(next_labels_);
  } else {
    auto own = labels_ ? narrow_row(labels_) : s.ids;
    if (!labels_) std::fill(own.begin() + static_cast<ptrdiff_t>(end), own.end(), kIgnored);
    s.labels.assign(own.begin() + 1, own.end());
    s.labels.push_back(kIgnored);
  }
  for (size_t c = 0; c < T; ++c)
    if (c < begin || c >= end) s.labels[c] = kIgnored;
  return s;
}

}  // namespace ravine

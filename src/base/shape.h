// The sizes of a tensor, at most five dimensions, outermost first. A negative index counts from the end.
#pragma once
#include <array>
#include <initializer_list>
#include <string>

#include "base/checked.h"

namespace ravine {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> sizes) {
    for (int64_t s : sizes) push_back(s);
  }
  void push_back(int64_t s) {
    require(rank_ < 5, "shape: more than 5 dims");
    require(s >= 0, "shape: size {} is negative", s);
    sizes_[rank_++] = s;
  }
  int rank() const { return rank_; }
  int64_t operator[](int i) const { return sizes_[i < 0 ? i + rank_ : i]; }
  int64_t& operator[](int i) { return sizes_[i < 0 ? i + rank_ : i]; }
  int64_t count() const {
    int64_t n = 1;
    for (int64_t s : *this) n = mul_checked(n, s);
    return n;
  }
  const int64_t* begin() const { return sizes_.data(); }
  const int64_t* end() const { return sizes_.data() + rank_; }
  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (int i = 0; i < a.rank_; ++i)
      if (a.sizes_[i] != b.sizes_[i]) return false;
    return true;
  }
  std::string text() const {  // "[2, 3]"
    std::string s = "[";
    for (int i = 0; i < rank_; ++i) s += (i ? ", " : "") + std::to_string(sizes_[i]);
    return s + "]";
  }

 private:
  std::array<int64_t, 5> sizes_{};
  int rank_ = 0;
};

}  // namespace ravine

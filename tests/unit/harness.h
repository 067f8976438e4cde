// Tests of kernels: random tensors, a run of cpu against ref, and bounds that follow from the inputs.
//
// A bound is the a-priori error of the computation in f32, in any order (Higham, Accuracy and Stability of Numerical
// Algorithms, chapter 3). The error of a value after K roundings is at most gamma(K) = K u / (1 - K u) times the sum of
// the magnitudes of its terms, with u = 2^-24. ref has the same inputs and f64 outputs. So one rounding to the type of
// the output is added.
#pragma once
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <list>
#include <map>
#include <string>
#include <vector>

#include "base/parallel.h"
#include "base/philox.h"
#include "kernels/kernels.h"

namespace ravine {

inline constexpr double kU32 = 0x1p-24;
inline double gamma_of(double roundings, double u) { return roundings * u / (1 - roundings * u); }
inline double gamma32(double roundings) { return gamma_of(roundings, kU32); }
inline double unit(DType t) { return epsilon(t) / 2; }  // of rounding to nearest
inline double smallest(DType t) {                       // half the smallest subnormal number: what underflow may lose
  return t == DType::f16 ? 0x1p-25 : t == DType::bf16 ? 0x1p-134 : t == DType::f32 ? 0x1p-150 : 0;
}
// Roundings in exp, log, sqrt, / of a vector library: these promise at most 4 ulp = 8 u.
inline constexpr double kFunction = 8;

// The same numbers on every machine: element i of the tensor `key` is uniform in (-scale, scale).
inline double random_value(uint64_t key, int64_t i, double scale = 1) {
  uint32_t word = philox(key, {static_cast<uint32_t>(i), static_cast<uint32_t>(i >> 32), 0, 0})[0];
  return scale * (2 * uniform24(word) - 1 + 0x1p-24);
}

inline double get(const TensorView& v, int64_t row, int64_t col) {
  switch (v.dtype) {
    case DType::i32:
      return v.row<int32_t>(row)[col];
    case DType::i64:
      return static_cast<double>(v.row<int64_t>(row)[col]);
    case DType::f64:
      return v.row<double>(row)[col];
    case DType::f32:
      return v.row<float>(row)[col];
    case DType::bf16:
      return static_cast<float>(v.row<bf16>(row)[col]);
    case DType::f16:
      return static_cast<float>(v.row<f16>(row)[col]);
    default:
      fail("get: no values of {}", name(v.dtype));
  }
}

inline void put(const TensorView& v, int64_t row, int64_t col, double x) {
  switch (v.dtype) {
    case DType::i32:
      v.row<int32_t>(row)[col] = static_cast<int32_t>(x);
      break;
    case DType::i64:
      v.row<int64_t>(row)[col] = static_cast<int64_t>(x);
      break;
    case DType::f64:
      v.row<double>(row)[col] = x;
      break;
    case DType::f32:
      v.row<float>(row)[col] = static_cast<float>(x);
      break;
    case DType::bf16:
      v.row<bf16>(row)[col] = bf16(static_cast<float>(x));
      break;
    case DType::f16:
      v.row<f16>(row)[col] = f16(static_cast<float>(x));
      break;
    default:
      fail("put: no values of {}", name(v.dtype));
  }
}

inline std::vector<double> values(const TensorView& v) {
  std::vector<double> out;
  for (int64_t i = 0; i < v.rows(); ++i)
    for (int64_t j = 0; j < v.cols(); ++j) out.push_back(get(v, i, j));
  return out;
}

inline void set_values(const TensorView& v, const std::vector<double>& x) {
  for (int64_t i = 0; i < v.rows(); ++i)
    for (int64_t j = 0; j < v.cols(); ++j) put(v, i, j, x[i * v.cols() + j]);
}

// Memory of one tensor: rows `gap` elements further apart than needed, with a fence before, between and after them.
class Buffer {
 public:
  Buffer(DType t, Shape shape, int64_t gap = 0) : view_(view_of(nullptr, t, shape)) {
    if (view_.rows() > 1) view_.stride = view_.cols() + gap;
    int64_t elements = std::max<int64_t>(1, view_.rows()) * (view_.cols() + gap);
    bytes_.assign(kFence + elements * size_of(t) + kFence, kPaint);
    view_.data = bytes_.data() + kFence;
    for (int64_t i = 0; i < view_.rows(); ++i)  // an output that nobody writes shows as NaN
      std::memset(view_.as<char>() + i * view_.stride * size_of(t), 0xff, view_.cols() * size_of(t));
  }
  const TensorView& view() const { return view_; }
  operator TensorView() const { return view_; }
  Buffer& random(uint64_t key, double scale = 1, double offset = 0) {
    int64_t n = 0;
    for (int64_t i = 0; i < view_.rows(); ++i)
      for (int64_t j = 0; j < view_.cols(); ++j, ++n) put(view_, i, j, random_value(key, n, scale) + offset);
    return *this;
  }
  Buffer& set(const std::vector<double>& x) { return set_values(view_, x), *this; }
  // True if nothing outside the rows changed.
  bool intact() const {
    std::vector<unsigned char> copy = bytes_;
    for (int64_t i = 0; i < view_.rows(); ++i)
      std::memset(copy.data() + kFence + i * view_.stride * size_of(view_.dtype), kPaint, view_.cols() * size_of(view_.dtype));
    for (unsigned char c : copy)
      if (c != kPaint) return false;
    return true;
  }

 private:
  static constexpr int64_t kFence = 64;
  static constexpr unsigned char kPaint = 0x5a;
  TensorView view_;
  std::vector<unsigned char> bytes_;
};

// Buffers of one case; they keep their place.
class Case {
 public:
  Buffer& input(uint64_t key, DType t, Shape shape, int64_t gap = 0, double scale = 1) {
    return buffers_.emplace_back(t, shape, gap).random(key, scale);
  }
  Buffer& output(DType t, Shape shape, int64_t gap = 0) { return buffers_.emplace_back(t, shape, gap); }
  Buffer& integers(DType t, const std::vector<int64_t>& x) {
    return buffers_.emplace_back(t, Shape{static_cast<int64_t>(x.size())}).set(std::vector<double>(x.begin(), x.end()));
  }
  Buffer& doubles(const std::vector<double>& x) {
    return buffers_.emplace_back(DType::f64, Shape{static_cast<int64_t>(x.size())}).set(x);
  }
  void expect_intact() const {
    for (const Buffer& b : buffers_) EXPECT_TRUE(b.intact()) << "written outside a tensor of " << b.view().shape.text();
  }

 private:
  std::list<Buffer> buffers_;
};

// Runs an entry with its workspace, full of garbage and fenced.
template <class Args>
void run_kernel(const Kernels& table, const Args& args) {
  const Kernel<Args>& kernel = table.of<Args>();
  int64_t bytes = kernel.workspace ? kernel.workspace(args, thread_count()) : 0;
  std::vector<unsigned char> memory(bytes + 2 * kAlignment + 64, 0xff);
  auto address = reinterpret_cast<uintptr_t>(memory.data());
  unsigned char* workspace =
      memory.data() + (round_up(static_cast<int64_t>(address), kAlignment) - static_cast<int64_t>(address));
  kernel.run(args, workspace);
  for (unsigned char* p = workspace + bytes; p < memory.data() + memory.size(); ++p)
    ASSERT_EQ(*p, 0xff) << Args::name << ": written " << p - workspace - bytes << " bytes past the workspace of " << bytes;
}

inline std::vector<unsigned char> raw(const TensorView& v) {
  std::vector<unsigned char> out;
  int64_t size = size_of(v.dtype);
  for (int64_t i = 0; i < v.rows(); ++i) {
    const auto* p = v.as<unsigned char>() + i * v.stride * size;
    out.insert(out.end(), p, p + v.cols() * size);
  }
  return out;
}

inline void set_raw(const TensorView& v, const std::vector<unsigned char>& bytes) {
  int64_t size = size_of(v.dtype);
  for (int64_t i = 0; i < v.rows(); ++i)
    std::memcpy(v.as<unsigned char>() + i * v.stride * size, bytes.data() + i * v.cols() * size, v.cols() * size);
}

struct ThreadCount {  // for a scope
  explicit ThreadCount(int n) : before(thread_count()) { set_thread_count(n); }
  ~ThreadCount() { set_thread_count(before); }
  int before;
};

// An output: what cpu wrote and what ref computed in f64.
struct Output {
  std::vector<double> got, want;
  DType dtype = DType::f32;
  int64_t cols = 0;
};
using Outputs = std::map<std::string, Output>;

// Runs ref with f64 outputs, which start with the old values of updated tensors. With `absolute`, every floating input
// is replaced by its absolute values: an op that is a sum of products then returns the sum of their magnitudes.
template <class Args>
std::map<std::string, std::vector<double>> run_ref(Args args, bool absolute = false) {
  std::list<Buffer> buffers;
  std::map<std::string, TensorView> outputs;
  args.each([&](const char* what, const TensorView& v, Access access) {
    if (v.absent() || (access == Access::read && !(absolute && is_float(v.dtype)))) return;
    Buffer& b = buffers.emplace_back(DType::f64, v.shape);
    if (access != Access::write) b.set(values(v));
    if (absolute && access != Access::write)
      for (int64_t i = 0; i < v.rows(); ++i)
        for (int64_t j = 0; j < v.cols(); ++j) put(b, i, j, std::fabs(get(b, i, j)));
    const_cast<TensorView&>(v) = b;
    if (access != Access::read) outputs[what] = b;
  });
  ref_kernels().of<Args>().run(args, nullptr);
  std::map<std::string, std::vector<double>> result;
  for (auto& [what, v] : outputs) result[what] = values(v);
  return result;
}

template <class Args>
bool cpu_has() {
  return cpu_kernels().of<Args>().run != nullptr;
}

#define SKIP_WITHOUT(Args) \
  if (!cpu_has<Args>()) GTEST_SKIP() << "cpu has no " << Args::name << ": the op runs unfused"

// Runs cpu with 1, 2 and 3 threads from the same start, and expects the same bits each time. Returns the outputs of cpu
// and ref.
template <class Args>
Outputs run_both(const Args& args, const Kernels& cpu = cpu_kernels()) {
  auto want = run_ref(args);
  std::vector<std::pair<TensorView, std::vector<unsigned char>>> start;
  args.each([&](const char*, const TensorView& v, Access access) {
    if (!v.absent() && access != Access::read) start.emplace_back(v, raw(v));
  });
  std::map<std::string, std::vector<unsigned char>> first;
  Outputs result;
  for (int threads : {1, 2, 3}) {
    ThreadCount scope(threads);
    for (auto& [v, bytes] : start) set_raw(v, bytes);
    run_kernel(cpu, args);
    args.each([&](const char* what, const TensorView& v, Access access) {
      if (v.absent() || access == Access::read) return;
      if (threads == 1) first[what] = raw(v);
      EXPECT_TRUE(raw(v) == first[what]) << Args::name << ": " << what << " differs between 1 and " << threads << " threads";
      result[what] = {values(v), want[what], v.dtype, v.cols()};
    });
  }
  for (auto& [v, bytes] : start) set_raw(v, bytes);
  return result;
}

// error(i): bound on the f32 computation of element i. To it comes the rounding to the type of the output.
inline void expect_close(const Output& o, const std::function<double(int64_t)>& error, const std::string& what) {
  ASSERT_EQ(o.got.size(), o.want.size()) << what;
  int64_t wrong = 0, worst = -1;
  double worst_ratio = 1;
  for (size_t i = 0; i < o.got.size(); ++i) {
    double e = error(static_cast<int64_t>(i)), bound = e + unit(o.dtype) * (std::fabs(o.want[i]) + e) + smallest(o.dtype);
    double difference = o.got[i] == o.want[i] ? 0 : std::fabs(o.got[i] - o.want[i]);
    if (difference <= bound) continue;
    ++wrong;
    double ratio = std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference / bound;
    if (worst < 0 || ratio > worst_ratio) worst_ratio = ratio, worst = static_cast<int64_t>(i);
  }
  EXPECT_EQ(wrong, 0) << what << " (" << name(o.dtype) << "): " << wrong << " of " << o.got.size()
                      << " beyond the bound, worst at [" << (worst < 0 ? 0 : worst / o.cols) << ", "
                      << (worst < 0 ? 0 : worst % o.cols) << "]: cpu " << (worst < 0 ? 0 : o.got[worst]) << ", ref "
                      << (worst < 0 ? 0 : o.want[worst]) << ", " << worst_ratio << " times the bound";
}

// Expects the bits of ref, rounded to the type of the output.
inline void expect_equal(const Output& o, const std::string& what) {
  Buffer rounded(o.dtype, {static_cast<int64_t>(o.want.size())});
  rounded.set(o.want);
  EXPECT_EQ(o.got, values(rounded)) << what << " (" << name(o.dtype) << ")";
}

inline std::string text_of(DType t) { return std::string(name(t)); }
inline constexpr DType kFloats[] = {DType::f32, DType::bf16, DType::f16};

}  // namespace ravine

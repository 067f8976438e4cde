// The inner loops of a strip: kRows rows by kVectors vectors of the output in registers, one step of the sum at a time.
// Included inside a namespace, once per instruction set, after strip.h. Op is the arithmetic: a vector type V of kLanes
// sums in f32, and one step. A step adds the product of 32 bits of a and 32 bits of b.

#define RAVINE_STRIP_INLINE inline __attribute__((always_inline))

// Prefetches the memory in Strip::fetch, one line per call.
class Fetcher {
 public:
  explicit RAVINE_STRIP_INLINE Fetcher(const Strip& s) : fetch_(s.fetch), end_(s.fetch + Strip::kFetches) {}
  RAVINE_STRIP_INLINE void line() {
    if (at_ >= row_end_) {
      while (fetch_ < end_ && row_ == fetch_->rows) row_ = 0, ++fetch_;
      if (fetch_ == end_) return;
      at_ = static_cast<const char*>(fetch_->at) + row_ * fetch_->pitch, row_end_ = at_ + fetch_->width, ++row_;
    }
    __builtin_prefetch(at_, 0, 2);
    at_ += 64;
  }

 private:
  const Fetch *fetch_, *end_;
  int64_t row_ = 0;
  const char *at_ = nullptr, *row_end_ = nullptr;
};

// Adds one step of the sum (one k) to a block of sums. kStep: distance of steps in a. 1 if rows are `row` apart, else
// the number of rows side by side.
template <class Op, int kRows, int kVectors, int64_t kStep>
RAVINE_STRIP_INLINE void strip_step(typename Op::V (&sum)[kRows][kVectors], const float* a, int64_t row, const float* b) {
  typename Op::V w[kVectors];
#pragma GCC unroll 4
  for (int j = 0; j < kVectors; ++j) w[j] = Op::load(b + j * Op::kLanes);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const typename Op::V x = Op::all(a + (kStep == 1 ? r * row : r));
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) sum[r][j] = Op::add_product(sum[r][j], x, w[j]);
  }
}

// Computes the block of a strip with rows [i, i + kRows) and the columns of b from `col` on.
template <class Op, int kRows, int kVectors, int64_t kStep>
RAVINE_STRIP_INLINE void strip_block(const Strip& s, int64_t i, int64_t col, Fetcher& fetcher) {
  typename Op::V sum[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j)
      sum[r][j] = s.accumulate ? Op::load(s.c + (i + r) * s.ldc + col + j * Op::kLanes) : Op::zero();
  const float *a = s.a + i * s.a_row, *b = s.b + col;
  const int64_t row = s.a_row;
  int64_t k = s.depth;
  for (; k >= 4; k -= 4) {
    strip_step<Op, kRows, kVectors, kStep>(sum, a, row, b);
    strip_step<Op, kRows, kVectors, kStep>(sum, a + kStep, row, b + kStripCols);
    fetcher.line();
    strip_step<Op, kRows, kVectors, kStep>(sum, a + 2 * kStep, row, b + 2 * kStripCols);
    strip_step<Op, kRows, kVectors, kStep>(sum, a + 3 * kStep, row, b + 3 * kStripCols);
    fetcher.line();
    a += 4 * kStep, b += 4 * kStripCols;
  }
  for (; k > 0; --k) {
    strip_step<Op, kRows, kVectors, kStep>(sum, a, row, b);
    a += kStep, b += kStripCols;
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) Op::store(sum[r][j], s.c + (i + r) * s.ldc + col + j * Op::kLanes);
}

template <class Op, int kRows, int kVectors, int64_t kStep>
void strip_rows(const Strip& s, int64_t i, Fetcher& fetcher) {
  constexpr int64_t kWidth = kVectors * Op::kLanes;
  int64_t col = 0;
  for (; col + kWidth <= s.cols; col += kWidth) strip_block<Op, kRows, kVectors, kStep>(s, i, col, fetcher);
  for (; col < s.cols; col += Op::kLanes) strip_block<Op, kRows, 1, kStep>(s, i, col, fetcher);
}

template <class Op, int kVectors, int64_t kStep>
void strip_of(const Strip& s) {
  Fetcher fetcher(s);
  int64_t i = 0;
  for (; i + kStripStep <= s.rows; i += kStripStep) strip_rows<Op, kStripStep, kVectors, kStep>(s, i, fetcher);
  if (s.rows - i == 5) strip_rows<Op, 5, kVectors, kStep>(s, i, fetcher);
  if (s.rows - i == 4) strip_rows<Op, 4, kVectors, kStep>(s, i, fetcher);
  if (s.rows - i == 3) strip_rows<Op, 3, kVectors, kStep>(s, i, fetcher);
  if (s.rows - i == 2) strip_rows<Op, 2, kVectors, kStep>(s, i, fetcher);
  if (s.rows - i == 1) strip_rows<Op, 1, kVectors, kStep>(s, i, fetcher);
}

template <class Op, int kVectors>
void strip_any(const Strip& s) {
  return s.a_sixes ? strip_of<Op, kVectors, kStripStep>(s) : strip_of<Op, kVectors, 1>(s);
}

#undef RAVINE_STRIP_INLINE

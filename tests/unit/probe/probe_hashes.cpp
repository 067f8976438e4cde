// Tests of the parts of equality checks, on calls made by hand: checksums of outputs, a reordered sum, and the work of
// a step.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "plan/work.h"
#include "probe/determinism.h"
#include "probe/op_hashes.h"
#include "probe/reorder.h"

namespace ravine {
namespace test_probe_hashes {

struct Call {
  int64_t step = 1, micro = 0;
  Phase phase = Phase::forward;
  const char* path = "model.layers.0";
  const char* op = "matmul";
  int64_t ordinal = 0;
  double flops = 0;
};

TensorView row_of(std::vector<float>& v) { return view_of(v.data(), DType::f32, {static_cast<int64_t>(v.size())}); }

TensorView matrix_of(std::vector<float>& v, int64_t rows, int64_t cols) {
  TensorView t = view_of(v.data(), DType::f32, {rows, cols});
  t.stride = static_cast<int64_t>(v.size()) / rows;
  return t;
}

void make(Observer& o, const Call& c, const std::vector<NamedView>& tensors) {
  o.after({.step = c.step,
           .micro = c.micro,
           .phase = c.phase,
           .path = c.path,
           .op = c.op,
           .ordinal = c.ordinal,
           .tensors = tensors,
           .flops = c.flops});
}

void write(Observer& o, const Call& c, float x, const char* tensor = "out", Access access = Access::write) {
  std::vector<float> v{x, 1, 2};
  make(o, c, {{tensor, row_of(v), access}});
}

TEST(OpHashes, MatchCallsByAllThatNamesThem) {
  OpHashes first;
  write(first, {}, 1);
  write(first, {.ordinal = 1}, 2);
  write(first, {.micro = 1}, 3);
  write(first, {.phase = Phase::backward}, 4, "dx");
  write(first, {.phase = Phase::recompute}, 99);  // repeats the forward pass; what counts is what that gave
  write(first, {.path = "head"}, 5, "w", Access::update);
  write(first, {.step = 2}, 6);
  write(first, {.op = "add"}, 7);
  EXPECT_EQ(first.seen(), 8);
  OpHashes same(&first);
  write(same, {.step = 2}, 6);
  write(same, {}, 1);
  write(same, {.ordinal = 1}, 2);
  write(same, {.micro = 1}, 3);
  write(same, {.phase = Phase::backward}, 4, "dx");
  write(same, {.phase = Phase::recompute}, 1);
  write(same, {.path = "head"}, 5, "w", Access::update);
  write(same, {.op = "add"}, 7);
  write(same, {.step = 3}, 6);  // only this run makes these: passed over
  write(same, {.path = "elsewhere"}, 6);
  write(same, {}, 9, "another");
  write(same, {}, 9, "out", Access::read);  // what is read was written by somebody else
  EXPECT_EQ(same.compared(), 8);
  EXPECT_EQ(same.difference().step, 0) << same.difference().path;
}

TEST(OpHashes, NameTheFirstThatDiffers) {
  OpHashes first;
  write(first, {.step = 3, .micro = 1, .path = "model.layers.1"}, 1);
  write(first, {.step = 3, .micro = 2, .path = "head"}, 2);
  for (const Phase phase : {Phase::forward, Phase::recompute}) {
    OpHashes other(&first);
    write(other, {.step = 3, .micro = 1, .phase = phase, .path = "model.layers.1"}, 1.5F);
    write(other, {.step = 3, .micro = 2, .path = "head"}, 2.5F);
    const OpHashes::Difference& d = other.difference();
    EXPECT_EQ(d.step, 3);
    EXPECT_EQ(d.micro, 2) << "counted from 1";
    EXPECT_EQ(d.op, "matmul");
    EXPECT_EQ(d.path, "model.layers.1");
    EXPECT_EQ(d.phase, phase == Phase::forward ? "forward" : "recompute");
    EXPECT_EQ(d.tensor, "out");
    EXPECT_EQ(other.compared(), 1) << "nothing is looked at behind it";
  }
}

TEST(OpHashes, ChecksumsAreOfElementsRowAfterRow) {
  std::vector<float> close{1, 2, 3, 4, 5, 6}, wide{1, 2, 3, -7, 4, 5, 6, -8}, moved{1, 2, 4, 3, 5, 6}, last{1, 2, 3, 4, 5, 7};
  EXPECT_EQ(checksum_of_view(matrix_of(close, 2, 3)), checksum_of_view(matrix_of(wide, 2, 3)))
      << "what lies between rows is not of the tensor";
  EXPECT_NE(checksum_of_view(matrix_of(close, 2, 3)), checksum_of_view(matrix_of(moved, 2, 3)));
  EXPECT_NE(checksum_of_view(matrix_of(close, 2, 3)), checksum_of_view(matrix_of(last, 2, 3)));
  wide[7] = 100, wide[3] = 100;
  EXPECT_EQ(checksum_of_view(matrix_of(close, 2, 3)), checksum_of_view(matrix_of(wide, 2, 3)));
}

TEST(CompareRuns, NamesTheFirstStepThatDiffersInWhateverIsCompared) {
  const RunBits run{.losses = {5, 4, 3}, .norms = {1, 2, 3}, .state = {{"weights/a", 1}, {"weights/b", 2}}};
  const OpHashes none;
  EXPECT_TRUE(compare_runs("again", run, run, none).equal());
  for (size_t step = 0; step < 3; ++step) {
    RunBits loss = run, norm = run;
    loss.losses[step] += 1e-12, norm.norms[step] += 1e-12;
    const DeterminismCase a = compare_runs("loss", run, loss, none), b = compare_runs("norm", run, norm, none);
    EXPECT_FALSE(a.losses || b.norms || a.equal() || b.equal());
    EXPECT_TRUE(a.norms && a.state && b.losses && b.state);
    EXPECT_EQ(a.step, static_cast<int64_t>(step) + 1);
    EXPECT_EQ(b.step, static_cast<int64_t>(step) + 1);
  }
  RunBits both = run, state = run, zero = run, signed_zero = run;
  both.norms[2] = 7, both.losses[1] = 7;
  EXPECT_EQ(compare_runs("both", run, both, none).step, 2) << "the first of all";
  state.state[1].second = 3;
  const DeterminismCase c = compare_runs("state", run, state, none);
  EXPECT_FALSE(c.state || c.equal());
  EXPECT_TRUE(c.losses && c.norms);
  EXPECT_EQ(c.tensor, "weights/b");
  EXPECT_EQ(c.step, 3) << "the weights are looked at behind the last step";
  zero.norms[1] = 0, signed_zero.norms[1] = -0.0;
  EXPECT_FALSE(compare_runs("sign", zero, signed_zero, none).norms) << "bits are compared, not values";
}

TEST(ReorderSum, ChangesOneElementOfOneProductOfThePath) {
  // of the second row the sum is 0 forwards, 1 backwards
  std::vector<float> a{3, 4, 5, 1, 1e8F, -1e8F}, b{1, 1, 1, 1, 1, 1};
  std::vector<float> out, bias{0, 0};
  auto run = [&](Observer& o, const char* path, const char* op, Phase phase, bool with_bias) {
    out = {12, 12, 0, 0};
    std::vector<NamedView> tensors{{"a", matrix_of(a, 2, 3), Access::read},
                                   {"b", matrix_of(b, 2, 3), Access::read},
                                   {"out", matrix_of(out, 2, 2), Access::write}};
    if (with_bias) tensors.push_back({"bias", row_of(bias), Access::read});
    make(o, {.phase = phase, .path = path, .op = op}, tensors);
  };
  const std::vector<float> untouched{12, 12, 0, 0};
  ReorderSum sum("*.up");
  run(sum, "a.down", "matmul", Phase::forward, false);
  run(sum, "a.up", "matmul_dx", Phase::forward, false);
  run(sum, "a.up", "matmul", Phase::recompute, false);
  run(sum, "a.up", "matmul", Phase::forward, true);
  EXPECT_EQ(out, untouched);
  EXPECT_FALSE(sum.met());
  run(sum, "a.up", "matmul", Phase::forward, false);
  EXPECT_EQ(out, (std::vector<float>{12, 12, 1, 0}));
  EXPECT_TRUE(sum.met());
  EXPECT_TRUE(sum.done());
  run(sum, "a.up", "matmul", Phase::forward, false);
  EXPECT_EQ(out, untouched) << "once in the whole run";
  ReorderSum none("*.up");
  a = {1, 2, 3, 4, 5, 6};
  run(none, "a.up", "matmul", Phase::forward, false);
  EXPECT_TRUE(none.met());
}

TEST(WorkCount, OneMicroBatchALaterOneForEachOtherAndTheUpdate) {
  WorkCount work;
  auto call = [&](int64_t micro, Phase phase, double flops, double bytes) {
    work.after({.micro = micro, .phase = phase, .op = "matmul", .flops = flops, .bytes = bytes});
  };
  call(0, Phase::forward, 1000, 100);  // 1000 FLOPs take 10 s, 100 bytes 1 s
  call(0, Phase::backward, 50, 200);   // 2 s
  call(1, Phase::forward, 300, 100);   // 3 s
  call(2, Phase::forward, 1e9, 100);   // as the second: not counted
  call(0, Phase::update, 700, 200);    // 7 s
  call(0, Phase::forward, 0, 100);     // 1 s
  EXPECT_DOUBLE_EQ(work.seconds(100, 100, 1), 10 + 2 + 1 + 7);
  EXPECT_DOUBLE_EQ(work.seconds(100, 100, 5), 10 + 2 + 1 + 4 * 3 + 7);
}

}  // namespace test_probe_hashes
}  // namespace ravine

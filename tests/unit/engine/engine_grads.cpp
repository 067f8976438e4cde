// Gradients of activations: the first writer of a column range overwrites, later writers add. Reading a gradient that
// was never written is an Error.
#include "engine/grads.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ravine {
namespace test_engine_grads {

struct Here {
  Tensor make(int64_t columns) { return Tensor::make(arena, {2, columns}, DType::f64, MemoryKind::activations); }
  HeapArena arena;
  Grads grads{arena};
};

TEST(Grads, TheFirstWriterOverwritesLaterOnesAdd) {
  Here h;
  Tensor x = h.make(4);
  bool accumulate = true;
  EXPECT_FALSE(h.grads.has(x.ref()));
  EXPECT_THROW(h.grads.get(x.ref()), Error);
  Tensor first = h.grads.add_to(x.ref(), accumulate);
  EXPECT_FALSE(accumulate);
  Tensor second = h.grads.add_to(x.ref(), accumulate);
  EXPECT_TRUE(accumulate);
  EXPECT_EQ(first.view().data, second.view().data);
  EXPECT_EQ(h.grads.get(x.ref()).view().data, first.view().data);
  h.grads.drop(x.ref());
  EXPECT_TRUE(h.grads.empty());
  h.grads.add_to(x.ref(), accumulate);
  EXPECT_FALSE(accumulate) << "a gradient that was dropped begins anew";
}

TEST(Grads, SlicesOfColumnsAreWrittenEachOnItsOwn) {
  Here h;
  Tensor qkv = h.make(6);
  Tensor q = qkv.columns(0, 2), k = qkv.columns(2, 2), v = qkv.columns(4, 2);
  bool accumulate = true;
  Tensor dq = h.grads.add_to(q.ref(), accumulate);
  EXPECT_FALSE(accumulate);
  h.grads.add_to(v.ref(), accumulate);
  EXPECT_FALSE(accumulate) << "q was written, v was not";
  EXPECT_THROW(h.grads.get(qkv.ref()), Error) << "k is missing";
  EXPECT_THROW(h.grads.get(k.ref()), Error);
  EXPECT_EQ(h.grads.get(q.ref()).view().data, dq.view().data);
  h.grads.add_to(k.ref(), accumulate);
  Tensor whole = h.grads.get(qkv.ref());
  EXPECT_EQ(whole.cols(), 6);
  EXPECT_EQ(h.grads.get(v.ref()).view().data, whole.view().row<double>(0) + 4);
  EXPECT_EQ(h.grads.get(v.ref()).view().stride, 6);
}

TEST(Grads, TakingAndPutting) {
  Here h;
  Tensor x = h.make(2), g = h.make(2);
  void* memory = g.view().data;
  h.grads.put(x.ref(), g);
  EXPECT_THROW(h.grads.put(x.ref(), h.make(2)), Error) << "there is one already";
  EXPECT_THROW(h.grads.put(h.make(2).columns(0, 1).ref(), g), Error) << "whole tensors only";
  g = Tensor();
  Tensor taken = h.grads.take(x.ref());
  EXPECT_EQ(taken.view().data, memory);
  EXPECT_TRUE(taken.unique()) << "the memory may be written over";
  EXPECT_FALSE(h.grads.has(x.ref()));
}

TEST(Grads, RenamingMovesAGradient) {
  Here h;
  Tensor a = h.make(2), b = h.make(2), c = h.make(2);
  bool accumulate = false;
  void* memory = h.grads.add_to(a.ref(), accumulate).view().data;
  h.grads.rename(a.ref(), b.ref());
  EXPECT_FALSE(h.grads.has(a.ref()));
  EXPECT_EQ(h.grads.get(b.ref()).view().data, memory);
  h.grads.rename(c.ref(), a.ref());  // b has no gradient: nothing happens
  EXPECT_FALSE(h.grads.has(a.ref()));
  h.grads.rename(b.ref(), b.ref());
  EXPECT_TRUE(h.grads.has(b.ref()));
  EXPECT_TRUE(h.grads.only({a.ref(), b.ref()}));
  EXPECT_FALSE(h.grads.only({a.ref()}));
}

TEST(Tensors, IdentityOfSlicesAndNewNames) {
  Here h;
  Tensor x = h.make(4);
  EXPECT_TRUE(x.ref().whole() && x.unique());
  Tensor part = x.columns(1, 2), inner = part.columns(1, 1);
  EXPECT_EQ(part.ref().id, x.ref().id);
  EXPECT_FALSE(part.ref().whole());
  EXPECT_EQ(inner.ref().column, 2);
  EXPECT_EQ(inner.view().data, x.view().row<double>(0) + 2);
  EXPECT_THROW(x.columns(3, 2), Error);
  Tensor other = x.renamed();
  EXPECT_NE(other.ref().id, x.ref().id);
  EXPECT_EQ(other.view().data, x.view().data);
  EXPECT_FALSE(x.unique());
}

}  // namespace test_engine_grads
}  // namespace ravine

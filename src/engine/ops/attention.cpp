#include "engine/ops/attention.h"

#include "base/philox.h"

namespace ravine {
namespace {

// The unfused definition: one segment and head at a time. Probabilities are computed again in the backward pass.
struct Unfused {
  Ctx& c;
  const AttentionShape& at;

  template <class F>
  void each(F&& f) const {
    for (const Segment& s : at.segments)
      for (int64_t h = 0; h < at.heads; ++h) f(s, h, h / (at.heads / at.kv_heads));
  }
  // The part of head `head` and a segment: of q, of out, of k, of v, or of their gradients.
  TensorView queries(const TensorView& t, const Segment& s, int64_t head) const {
    return t.row_range(s.q_begin, s.q_count).columns(head * at.head_size, at.head_size);
  }
  TensorView results(const TensorView& t, const Segment& s, int64_t head) const {
    return t.row_range(s.q_begin, s.q_count).columns(head * at.values(), at.values());
  }
  TensorView keys(const TensorView& t, const Segment& s, int64_t head) const {
    return t.row_range(s.k_begin, s.k_count).columns(head * at.head_size, at.head_size);
  }
  TensorView values(const TensorView& t, const Segment& s, int64_t head) const {
    return t.row_range(s.k_begin, s.k_count).columns(head * at.values(), at.values());
  }
  struct Probabilities {
    Tensor scores, probs, dropped;  // scores: capped, if there is a cap; dropped: the factor of v, after dropout
  };
  Probabilities probabilities(const TensorView& q, const TensorView& k, const Segment& s, int64_t head) const {
    Probabilities p{c.empty({q.rows(), k.rows()}, c.types().stat), c.empty({q.rows(), k.rows()}, q.dtype), {}};
    c.call(Matmul{.a = q, .b = k, .out = p.scores.view(), .trans_b = true});
    if (at.cap != 0) c.call(SoftCapForward{.x = p.scores.view(), .y = p.scores.view(), .cap = at.cap, .scale = at.scale});
    c.call(SoftmaxForward{.scores = p.scores.view(),
                          .probs = p.probs.view(),
                          .scale = at.cap != 0 ? 1 : at.scale,
                          .causal = at.causal,
                          .window = at.window,
                          .slope = at.slopes.empty() ? 0.0 : at.slopes[static_cast<size_t>(head)]});
    if (at.cap == 0) p.scores = Tensor();
    p.dropped = p.probs;
    if (at.dropout.p != 0) {
      p.dropped = c.empty({q.rows(), k.rows()}, q.dtype);
      drop(p.probs.view(), s, head, p.dropped.view());
    }
    return p;
  }
  void drop(const TensorView& from, const Segment& s, int64_t head, const TensorView& to) const {
    const AttentionDropout& d = at.dropout;
    c.call(Dropout{.x = from,
                   .positions = elements(d.token_index, s.q_begin, s.q_count),
                   .sequences = elements(d.sequences, s.q_begin, s.q_count),
                   .out = to,
                   .p = d.p,
                   .key = d.head_key(head),
                   .step = d.step});
  }
  static TensorView elements(TensorView v, int64_t begin, int64_t count) {
    if (v.data) v.data = static_cast<std::byte*>(v.data) + begin * size_of(v.dtype);
    v.shape = {count};
    return v;
  }
  void forward(const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& out) const {
    c.call(Fill{out, 0});
    each([&](const Segment& s, int64_t head, int64_t kv) {
      Tensor p = probabilities(queries(q, s, head), keys(k, s, kv), s, head).dropped;
      c.call(Matmul{.a = p.view(), .b = values(v, s, kv), .out = results(out, s, head)});
    });
  }
  void backward(const TensorView& dout, const TensorView& q, const TensorView& k, const TensorView& v, const TensorView& dq,
                const TensorView& dk, const TensorView& dv) const {
    Tensor wide_k = c.empty({k.rows(), k.cols()}, c.types().stat), wide_v = c.empty({v.rows(), v.cols()}, c.types().stat);
    for (const TensorView& t : {dq, wide_k.view(), wide_v.view()}) c.call(Fill{t, 0});
    each([&](const Segment& s, int64_t head, int64_t kv) {
      auto [scores, p, dropped] = probabilities(queries(q, s, head), keys(k, s, kv), s, head);
      Tensor dp = c.empty({p.rows(), p.cols()}, c.types().stat), ds = c.empty({p.rows(), p.cols()}, q.dtype);
      c.call(Matmul{.a = dropped.view(),
                    .b = results(dout, s, head),
                    .out = values(wide_v.view(), s, kv),
                    .trans_a = true,
                    .accumulate = true});
      c.call(Matmul{.a = results(dout, s, head), .b = values(v, s, kv), .out = dp.view(), .trans_b = true});
      if (at.dropout.p != 0) drop(dp.view(), s, head, dp.view());
      if (at.cap != 0) {
        c.call(SoftmaxBackward{.probs = p.view(), .dprobs = dp.view(), .dscores = dp.view()});
        c.call(SoftCapBackward{.y = scores.view(), .dy = dp.view(), .dx = ds.view(), .cap = at.cap, .scale = at.scale});
      } else {
        c.call(SoftmaxBackward{.probs = p.view(), .dprobs = dp.view(), .dscores = ds.view(), .scale = at.scale});
      }
      c.call(Matmul{.a = ds.view(), .b = keys(k, s, kv), .out = queries(dq, s, head)});
      c.call(Matmul{
          .a = ds.view(), .b = queries(q, s, head), .out = keys(wide_k.view(), s, kv), .trans_a = true, .accumulate = true});
    });
    c.call(Cast{wide_k.view(), dk});
    c.call(Cast{wide_v.view(), dv});
  }
};

// Sets what depends on the batch: segments, places, sequences and step.
void fill_in(Ctx& c, AttentionShape& at) {
  at.segments = c.batch().segments;
  at.dropout.token_index = c.batch().token_index, at.dropout.sequences = c.batch().sequences, at.dropout.step = c.batch().step;
}

}  // namespace

Tensor attention(Ctx& c, const Tensor& q, const Tensor& k, const Tensor& v, AttentionShape at) {
  if (c.attention_dropout() != 0)
    at.dropout = {.p = c.attention_dropout(),
                  .key = philox_key(c.seed(), c.path() + ".attention_dropout"),
                  .first_head = c.group(Axis::tensor).rank() * at.heads,
                  .token_index = {},
                  .sequences = {}};
  fill_in(c, at);
  bool fused = c.has<AttentionForward>() && c.has<AttentionBackward>() && c.fused("attention");
  Tensor out = c.empty({q.rows(), at.heads * at.values()}, c.types().compute), lse;
  if (fused) {
    const bool wide = c.types().compute == DType::f32;  // the reason is in kernels/attention.h
    if (c.recording()) lse = c.empty({at.heads, q.rows()}, wide ? DType::f64 : c.types().stat);
    c.call(AttentionForward{.q = q.view(), .k = k.view(), .v = v.view(), .out = out.view(), .lse = lse.view(), .at = at});
  } else {
    Unfused{c, at}.forward(q.view(), k.view(), v.view(), out.view());
  }
  if (!c.recording()) return out;

  Saved sq = c.save(q), sk = c.save(k), sv = c.save(v), sout, slse;
  if (fused) sout = c.save(out), slse = c.save(lse);
  c.record("attention", {out.ref()}, [=, qr = q.ref(), kr = k.ref(), vr = v.ref(), outr = out.ref()](Ctx& c) {
    AttentionShape shape = at;
    fill_in(c, shape);
    bool a = false, b = false, d = false;
    Tensor dout = c.grads().get(outr);
    Tensor dq = c.grads().add_to(qr, a), dk = c.grads().add_to(kr, b), dv = c.grads().add_to(vr, d);
    require(!a && !b && !d, "attention: q, k and v must be used by attention only");
    Tensor q = sq.get(c), k = sk.get(c), v = sv.get(c);
    if (fused)
      c.call(AttentionBackward{.dout = dout.view(),
                               .q = q.view(),
                               .k = k.view(),
                               .v = v.view(),
                               .out = sout.get(c).view(),
                               .lse = slse.get(c).view(),
                               .dq = dq.view(),
                               .dk = dk.view(),
                               .dv = dv.view(),
                               .at = shape});
    else
      Unfused{c, shape}.backward(dout.view(), q.view(), k.view(), v.view(), dq.view(), dk.view(), dv.view());
  });
  return out;
}

Tensor attention_cached(Ctx& c, const Tensor& q, const TensorView& k, const TensorView& v, const AttentionShape& at) {
  Tensor out = c.empty({q.rows(), at.heads * at.values()}, c.types().compute);
  if (c.has<AttentionForward>() && c.fused("attention"))
    c.call(AttentionForward{.q = q.view(), .k = k, .v = v, .out = out.view(), .at = at});
  else
    Unfused{c, at}.forward(q.view(), k, v, out.view());
  return out;
}

}  // namespace ravine

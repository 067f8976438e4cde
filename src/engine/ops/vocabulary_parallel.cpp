#include "engine/ops/vocabulary_parallel.h"

#include <algorithm>
#include <limits>

#include "engine/ops/collectives.h"
#include "engine/ops/head_product.h"
#include "engine/ops/lora_products.h"
#include "engine/ops/soft_cap.h"
#include "engine/ops/tensor_parallel.h"
#include "engine/ops/unit_rows.h"

namespace ravine {
namespace {

// The rows of the table on this rank. The last ranks may have fewer rows than the others, or none: the rest is padding.
struct Rows {
  int64_t begin = 0, count = 0, padded = 0, whole = 0;
};

Rows rows_of_rank(Ctx& c, const Param& p) {
  const Group& group = c.group(Axis::tensor);
  Rows r;
  r.whole = p.shape[0];
  r.padded = ceil_div(r.whole, group.size());
  r.begin = r.padded * group.rank();
  r.count = std::clamp<int64_t>(r.whole - r.begin, 0, r.padded);
  return r;
}

constexpr int64_t kChunk = 1024;  // tokens

// An adapter's part of the local logits: h B^T, h [N, r] of all tokens. dh, db: gradients; absent without a backward
// pass.
struct AdapterPart {
  TensorView h, b, dh, db;
  bool accumulate = false;  // add into db
};

struct Head {
  Ctx& c;
  const Param& weight;
  TensorView table;             // local rows as the products read them
  double cap;                   // of the logits; 0: none
  const LoraAdapters* adapter;  // null: none
  AdapterPart adapter_part = {};
  Rows here = rows_of_rank(c, weight);

  // Tokens [begin, begin + n). dx and dweight are absent without a backward pass. losses: f64 [N], 0 where another rank
  // has the label.
  void chunk(const TensorView& x, int64_t begin, int64_t n, const TensorView& losses, const TensorView& row_weights,
             const TensorView& dx, const TensorView& dweight, bool accumulate) {
    const Group& group = c.group(Axis::tensor);
    Tensor sums = c.empty({group.size(), n}, DType::f64), mine = c.empty({n}, DType::f64);
    const TensorView rows = x.row_range(begin, n), of_rows = losses.columns(begin, n);
    if (here.count == 0) {                                               // this rank has only padding
      c.call(Fill{mine.view(), std::numeric_limits<double>::lowest()});  // finite, and its exp is 0
      group.all_gather(mine.view().data, sums.view().data, mine.view().bytes()).wait();
      c.call(Fill{of_rows, 0});
      if (!dx.absent()) c.call(Fill{dx.row_range(begin, n), 0});
      if (!adapter_part.dh.absent()) c.call(Fill{adapter_part.dh.row_range(begin, n), 0});
      return;
    }
    const TensorView w = table.row_range(0, here.count);
    Tensor y = c.empty({n, here.count}, c.types().stat);
    c.call(Matmul{.a = rows, .b = w, .out = y.view(), .trans_b = true});
    const TensorView h = adapter_part.h.absent() ? TensorView{} : adapter_part.h.row_range(begin, n);
    const TensorView b = adapter_part.h.absent() ? TensorView{} : adapter_part.b.row_range(0, here.count);
    if (!h.absent()) c.call(Matmul{.a = h, .b = b, .out = y.view(), .trans_b = true, .accumulate = true});
    soft_cap(c, y.view(), cap);
    c.call(LogSumExp{.logits = y.view(), .out = mine.view()});
    group.all_gather(mine.view().data, sums.view().data, mine.view().bytes()).wait();
    const bool backward = !dx.absent() || !dweight.absent();
    Tensor dy =
        // the slope of the cap is computed from capped logits
        cap == 0 || !backward ? y : c.empty({n, here.count}, y.dtype());
    c.call(CrossEntropy{.logits = y.view(),
                        .labels = c.batch().labels.columns(begin, n),
                        .losses = of_rows,
                        .dlogits = backward ? dy.view() : TensorView{},
                        .grad_scale = c.batch().grad_scale,
                        .sums = sums.view(),
                        .first = here.begin,
                        .whole = here.whole,
                        .row_weights = row_weights.absent() ? row_weights : row_weights.columns(begin, n)});
    if (!backward) return;
    if (cap != 0) c.call(SoftCapBackward{.y = y.view(), .dy = dy.view(), .dx = dy.view(), .cap = cap});
    Tensor narrow = dy;
    if (x.dtype != dy.dtype()) {
      narrow = c.empty({n, here.count}, x.dtype);
      c.call(Cast{dy.view(), narrow.view()});
    }
    if (!dx.absent()) c.call(Matmul{.a = narrow.view(), .b = w, .out = dx.row_range(begin, n)});
    if (!adapter_part.dh.absent()) c.call(Matmul{.a = narrow.view(), .b = b, .out = adapter_part.dh.row_range(begin, n)});
    auto add_rows = [&](const TensorView& factor, const TensorView& out, bool more) {
      if (!out.absent())
        c.call(Matmul{.a = narrow.view(),
                      .b = factor,
                      .out = out.row_range(0, here.count),
                      .trans_a = true,
                      .accumulate = more || begin > 0,
                      .tokens_reduced = true});
    };
    add_rows(rows, dweight, accumulate);
    add_rows(h, adapter_part.db, adapter_part.accumulate);
  }

  // part, dpart: the local tokens.
  void run(const TensorView& part, const TensorView& dpart, const TensorView& dweight, bool accumulate) {
    if (c.sequence_parallel()) {
      Tensor x = gather_tokens(c, part), dx = dpart.absent() ? Tensor() : c.empty({x.rows(), x.cols()}, x.dtype());
      run_whole(x.view(), dx.view(), dweight, accumulate);
      if (dx) reduce_scatter(c, c.group(Axis::tensor), dx.view(), dpart);
      return;
    }
    run_whole(part, dpart, dweight, accumulate);
    if (!dpart.absent()) all_reduce(c, c.group(Axis::tensor), dpart);
  }

  // A and its input are equal on all tensor ranks, B is cut: each rank has a part of the gradient of A.
  void run_whole(const TensorView& x, const TensorView& dx, const TensorView& dweight, bool accumulate) {
    if (!adapter) return run_all(x, dx, dweight, accumulate);
    const LoraProducts products(*adapter, c.store(), {}, Split::columns);
    const Param& b = *adapter->ups.at(0).b;
    const Tensor h = products.down(c, x), dh = dx.absent() ? Tensor() : c.empty({h.rows(), h.cols()}, h.dtype());
    adapter_part = {.h = h.view(), .b = c.store().value(b), .dh = dh.view(), .db = {}};
    if (dh) adapter_part.db = c.grad_store().add_to_grad(b, adapter_part.accumulate);
    run_all(x, dx, dweight, accumulate);
    if (!dh) return;
    products.scale(c, dh.view());
    products.add_dx(c, dh.view(), dx, true);
    products.add_da(c, LoraProducts::whole(c, dh).view(), x);
  }

  void run_all(const TensorView& x, const TensorView& dx, const TensorView& dweight, bool accumulate) {
    auto clear_padding = [&](const TensorView& v, bool more) {
      if (!v.absent() && !more && here.count < v.rows()) c.call(Fill{v.row_range(here.count, v.rows() - here.count), 0});
    };
    clear_padding(dweight, accumulate);
    clear_padding(adapter_part.db, adapter_part.accumulate);
    const SequenceLoss* of_sequences = c.batch().sequence_loss;
    const bool backward = !dx.absent() || !dweight.absent();
    Tensor losses = c.empty({x.rows()}, DType::f64), weights;
    if (of_sequences) {
      pass(x, losses.view(), {}, {}, {}, false);
      share(losses.view());
      if (backward) weights = c.empty({x.rows()}, DType::f64);
      of_sequences->weigh(c, losses.view(), weights.view());
      if (!backward) return;
    }
    pass(x, losses.view(), weights.view(), dx, dweight, accumulate);
    if (!of_sequences) c.add_sum(StepSum::loss, losses.view());
  }

  // Host work: makes the losses of all labels complete on every rank; each label's loss is on one rank, and 0 on the
  // others.
  void share(const TensorView& losses) {
    const Group& group = c.group(Axis::tensor);
    const int64_t n = losses.count();
    Tensor all = c.empty({group.size(), n}, DType::f64);
    group.all_gather(losses.data, all.view().data, losses.bytes()).wait();
    if (!losses.data) return;
    for (int64_t i = 0; i < n; ++i) {
      losses.as<double>()[i] = 0;
      for (int64_t r = 0; r < group.size(); ++r) losses.as<double>()[i] += all.view().row<double>(r)[i];
    }
  }

  void pass(const TensorView& x, const TensorView& losses, const TensorView& row_weights, const TensorView& dx,
            const TensorView& dweight, bool accumulate) {
    for (int64_t begin = 0; begin < x.rows(); begin += kChunk)
      chunk(x, begin, std::min(kChunk, x.rows() - begin), losses, row_weights, dx, dweight, accumulate);
  }
};

}  // namespace

Tensor embedding_parallel(Ctx& c, const Param& table, int64_t padding_id, double scale) {
  const Rows here = rows_of_rank(c, table);
  Tensor x = c.empty({c.batch().tokens, table.shape[1]}, c.types().residual);
  c.call(EmbeddingForward{.ids = c.batch().ids,
                          .weight = c.store().master(table).row_range(0, here.count),
                          .out = x.view(),
                          .scale = scale,
                          .first = here.begin,
                          .whole = here.whole});
  if (c.sequence_parallel())
    x = scatter_tokens(c, x.view());
  else
    all_reduce(c, c.group(Axis::tensor), x.view());
  c.record("embedding", {x.ref()}, {}, [&table, here, padding_id, scale, xr = x.ref()](Ctx& c) {
    bool accumulate = false;
    TensorView dweight = c.grad_store().add_to_grad(table, accumulate);
    if (dweight.absent()) return;
    Tensor dx = c.grads().get(xr);
    if (c.sequence_parallel()) dx = gather_tokens(c, dx.view());
    c.call(EmbeddingBackward{.ids = c.batch().ids,
                             .dout = dx.view(),
                             .dweight = dweight,
                             .padding_id = padding_id,
                             .accumulate = accumulate,
                             .scale = scale,
                             .first = here.begin,
                             .whole = here.whole});
  });
  return x;
}

void loss_head_parallel(Ctx& c, const Tensor& x, const LinearParams& head, bool unit, double cap) {
  const Param& weight = *head.weights[0];
  const LoraAdapters* adapter = head.adapters;
  auto run = [&weight, adapter, unit, cap](Ctx& c, const TensorView& x, const TensorView& dx, const TensorView& dweight,
                                           bool accumulate) {
    if (!unit) return Head{c, weight, c.store().value(weight), cap, adapter}.run(x, dx, dweight, accumulate);
    Tensor w = unit_rows(c, weight), dw;
    if (!dweight.absent()) dw = c.empty({w.rows(), w.cols()}, dweight.dtype);
    Head{c, weight, w.view(), cap, adapter}.run(x, dx, dw.view(), false);
    w = Tensor();
    if (dw) c.call(UnitRowsBackward{.dout = dw.view(), .x = c.store().master(weight), .dx = dweight, .accumulate = accumulate});
  };
  if (!c.recording()) return run(c, x.view(), {}, {}, false);
  c.record("loss_head", {}, [saved = c.save(x), &weight, run, xr = x.ref()](Ctx& c) {
    bool accumulate = false, more = false;
    TensorView dweight = c.grad_store().add_to_grad(weight, accumulate);
    Tensor dx = c.grads().add_to(xr, more);
    require(!more, "loss_head: its input must be used by it only");
    run(c, saved.get(c).view(), dx.view(), dweight, accumulate);
  });
}

Tensor logits_parallel(Ctx& c, const Tensor& part, const LinearParams& head, bool unit, double cap) {
  const Param& weight = *head.weights[0];
  require(!c.sequence_parallel() || c.batch().logit_rows.absent(),
          "logits: of some rows only, while tensor ranks have a part of the tokens each");
  Tensor x = c.sequence_parallel() ? gather_tokens(c, part.view()) : part;
  const Group& group = c.group(Axis::tensor);
  Rows here = rows_of_rank(c, weight);
  int64_t n = x.rows(), v = weight.shape[0];
  Tensor out = c.empty({n, v}, c.types().stat);
  const Tensor mine = head_product(c, x.view(), head, unit, cap);
  require(mine.cols() == here.padded, "logits: {} columns of a rank that has {}", mine.cols(), here.padded);
  Tensor all = c.empty({group.size(), n * here.padded}, c.types().stat, MemoryKind::workspace);
  group.all_gather(mine.view().data, all.view().data, mine.view().bytes()).wait();
  for (int r = 0; r < group.size(); ++r) {
    int64_t begin = r * here.padded, count = std::clamp<int64_t>(v - begin, 0, here.padded);
    if (count == 0) continue;
    TensorView from = all.view().row_range(r, 1);
    from.shape = {n, here.padded};
    from.stride = here.padded;
    c.call(Cast{from.columns(0, count), out.view().columns(begin, count)});
  }
  return out;
}

}  // namespace ravine

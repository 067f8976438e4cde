#include "engine/ops/vocabulary_parallel.h"

#include <algorithm>
#include <cmath>

#include "engine/ops/collectives.h"
#include "engine/ops/linear.h"
#include "engine/ops/tensor_parallel.h"

namespace ravine {
namespace {

// Rows of the table that this rank has. The last ranks may have fewer than the others, or none: the rest of theirs is padding.
struct Rows {
  int64_t begin = 0, count = 0, padded = 0;
  bool has(int32_t id) const { return id >= begin && id < begin + count; }
};

Rows rows_of_rank(Ctx& c, const Param& p) {
  const Group& group = c.group(Axis::tensor);
  Rows r;
  r.padded = ceil_div(p.shape[0], group.size());
  r.begin = r.padded * group.rank();
  r.count = std::clamp<int64_t>(p.shape[0] - r.begin, 0, r.padded);
  return r;
}

// ids of my rows, counted from the first; others become 0. On meta nothing is there to change.
Tensor local_ids(Ctx& c, const Rows& here) {
  Tensor local = c.empty({c.batch().tokens}, DType::i32, MemoryKind::workspace);
  const int32_t* ids = c.batch().ids.as<int32_t>();
  if (int32_t* to = local.view().as<int32_t>())
    for (int64_t n = 0; n < c.batch().tokens; ++n) to[n] = here.has(ids[n]) ? static_cast<int32_t>(ids[n] - here.begin) : 0;
  return local;
}

void clear_foreign_rows(Ctx& c, const Rows& here, const TensorView& x) {
  const int32_t* ids = c.batch().ids.as<int32_t>();
  for (int64_t n = 0, end; x.data && n < x.rows(); n = end) {
    for (end = n; end < x.rows() && !here.has(ids[end]);) ++end;
    if (end > n)
      c.call(Fill{x.row_range(n, end - n), 0});
    else
      ++end;
  }
}

constexpr int64_t kChunk = 1024;  // tokens

// log(sum of exp) of finite numbers and -inf.
double log_add(double a, double b) {
  double top = std::max(a, b);
  return top == -INFINITY ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
}

struct Head {
  Ctx& c;
  const Param& weight;
  TensorView table;  // my rows as the products read them
  double cap;        // of my logits; 0: none
  Rows here = rows_of_rank(c, weight);
  ExactSum loss;

  // Tokens [begin, begin + n). dx and dweight are absent without backward.
  void chunk(const TensorView& x, int64_t begin, int64_t n, const TensorView& dx, const TensorView& dweight, bool accumulate) {
    const Group& group = c.group(Axis::tensor);
    int64_t w = here.count, v = w + 1;
    TensorView rows = x.row_range(begin, n);
    Tensor y = c.empty({n, v}, c.types().stat), losses = c.empty({n}, DType::f64),
           labels = c.empty({n}, DType::i32, MemoryKind::workspace);
    const int32_t* given = c.batch().labels.as<int32_t>();
    int32_t* to = labels.view().as<int32_t>();
    // The logsumexp of my logits, from the loss of label 0.
    Tensor all = c.empty({group.size(), n}, DType::f64, MemoryKind::workspace);
    double* sums = all.view().as<double>();
    double* mine = sums ? sums + group.rank() * n : nullptr;
    if (w > 0) {
      c.call(Matmul{.a = rows, .b = table.row_range(0, w), .out = y.view().columns(0, w), .trans_b = true});
      soft_cap(c, y.view().columns(0, w), cap);
      if (to) std::fill_n(to, n, 0);
      c.call(CrossEntropy{.logits = y.view().columns(0, w), .labels = labels.view(), .losses = losses.view()});
    }
    if (mine)
      for (int64_t i = 0; i < n; ++i) mine[i] = w == 0 ? -INFINITY : losses.view().as<double>()[i] + at(y.view(), i, 0);
    group.all_gather(mine, sums, n * 8).wait();
    if (sums) {
      for (int64_t i = 0; i < n; ++i) {
        double others = -INFINITY;
        for (int r = 0; r < group.size(); ++r)
          if (r != group.rank()) others = log_add(others, sums[r * n + i]);
        put(y.view(), i, w, std::max(others, -1e30));
        int32_t label = given[begin + i];
        to[i] = label < 0 ? label : here.has(label) ? static_cast<int32_t>(label - here.begin) : static_cast<int32_t>(w);
      }
    }
    bool backward = !dx.absent() || !dweight.absent();
    Tensor dy = cap == 0 || !backward ? y : c.empty({n, v}, y.dtype());  // the slope of the cap is taken from capped logits
    c.call(CrossEntropy{.logits = y.view(),
                        .labels = labels.view(),
                        .losses = losses.view(),
                        .dlogits = backward ? dy.view() : TensorView{},
                        .grad_scale = c.batch().grad_scale});
    if (sums)
      for (int64_t i = 0; i < n; ++i)
        if (to[i] >= 0 && to[i] < w) loss.add(losses.view().as<double>()[i]);
    if (!backward) return;
    if (cap != 0 && w > 0)
      c.call(SoftCapBackward{
          .y = y.view().columns(0, w), .dy = dy.view().columns(0, w), .dx = dy.view().columns(0, w), .cap = cap});
    Tensor narrow = dy;
    if (x.dtype != dy.dtype()) {
      narrow = c.empty({n, v}, x.dtype);
      c.call(Cast{dy.view(), narrow.view()});
    }
    TensorView d = narrow.view().columns(0, w);
    if (w == 0) {
      if (!dx.absent()) c.call(Fill{dx.row_range(begin, n), 0});
      return;
    }
    if (!dx.absent()) c.call(Matmul{.a = d, .b = table.row_range(0, w), .out = dx.row_range(begin, n)});
    if (!dweight.absent())
      c.call(Matmul{.a = d,
                    .b = rows,
                    .out = dweight.row_range(0, w),
                    .trans_a = true,
                    .accumulate = accumulate || begin > 0,
                    .tokens_reduced = true});
  }

  static double at(const TensorView& y, int64_t row, int64_t col) {
    return y.dtype == DType::f64 ? y.row<double>(row)[col] : y.row<float>(row)[col];
  }
  static void put(const TensorView& y, int64_t row, int64_t col, double value) {
    if (y.dtype == DType::f64)
      y.row<double>(row)[col] = value;
    else
      y.row<float>(row)[col] = static_cast<float>(value);
  }

  // x, dx: the tokens that are here.
  void run(const TensorView& part, const TensorView& dpart, const TensorView& dweight, bool accumulate) {
    if (c.sequence_parallel()) {
      Tensor x = gather_tokens(c, part), dx = dpart.absent() ? Tensor() : c.empty({x.rows(), x.cols()}, x.dtype());
      run_all(x.view(), dx.view(), dweight, accumulate);
      if (dx) reduce_scatter(c, c.group(Axis::tensor), dx.view(), dpart);
      return;
    }
    run_all(part, dpart, dweight, accumulate);
    if (!dpart.absent()) all_reduce(c, c.group(Axis::tensor), dpart);
  }

  void run_all(const TensorView& x, const TensorView& dx, const TensorView& dweight, bool accumulate) {
    if (!dweight.absent() && !accumulate && here.count < dweight.rows())
      c.call(Fill{dweight.row_range(here.count, dweight.rows() - here.count), 0});  // padding
    for (int64_t begin = 0; begin < x.rows(); begin += kChunk)
      chunk(x, begin, std::min(kChunk, x.rows() - begin), dx, dweight, accumulate);
    c.side(Side::loss, loss);
  }
};

}  // namespace

Tensor embedding_parallel(Ctx& c, const Param& table, int64_t padding_id, double scale) {
  Rows here = rows_of_rank(c, table);
  Tensor x = c.empty({c.batch().tokens, table.shape[1]}, c.types().residual);
  {
    Tensor local = local_ids(c, here);
    c.call(EmbeddingForward{.ids = local.view(), .weight = c.store().master(table), .out = x.view(), .scale = scale});
  }
  clear_foreign_rows(c, here, x.view());
  if (c.sequence_parallel())
    x = scatter_tokens(c, x.view());
  else
    all_reduce(c, c.group(Axis::tensor), x.view());
  int64_t padding = padding_id >= here.begin && padding_id < here.begin + here.count ? padding_id - here.begin : -1;
  c.record("embedding", {x.ref()}, {}, [&table, here, padding, scale, xr = x.ref()](Ctx& c) {
    bool accumulate = false;
    TensorView dweight = c.grad_store().add_to_grad(table, accumulate);
    if (dweight.absent()) return;
    Tensor dx = c.grads().get(xr), mine, local = local_ids(c, here);
    if (c.sequence_parallel()) {
      mine = gather_tokens(c, dx.view());
    } else {
      mine = c.empty(xr.shape, xr.dtype);
      c.call(Cast{dx.view(), mine.view()});
    }
    clear_foreign_rows(c, here, mine.view());
    c.call(EmbeddingBackward{.ids = local.view(),
                             .dout = mine.view(),
                             .dweight = dweight,
                             .padding_id = padding,
                             .accumulate = accumulate,
                             .scale = scale});
  });
  return x;
}

void loss_head_parallel(Ctx& c, const Tensor& x, const Param& weight, bool unit, double cap) {
  auto run = [&weight, unit, cap](Ctx& c, const TensorView& x, const TensorView& dx, const TensorView& dweight,
                                  bool accumulate) {
    if (!unit) return Head{c, weight, c.store().value(weight), cap}.run(x, dx, dweight, accumulate);
    Tensor w = unit_rows(c, weight), dw;
    if (!dweight.absent()) dw = c.empty({w.rows(), w.cols()}, dweight.dtype);
    Head{c, weight, w.view(), cap}.run(x, dx, dw.view(), false);
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

Tensor logits_parallel(Ctx& c, const Tensor& part, const Param& weight, bool unit, double cap) {
  require(!c.sequence_parallel() || c.batch().logit_rows.absent(),
          "logits: of some rows only, while tensor ranks have a part of the tokens each");
  Tensor x = c.sequence_parallel() ? gather_tokens(c, part.view()) : part;
  Tensor unit_weight = unit ? unit_rows(c, weight) : Tensor();
  const Group& group = c.group(Axis::tensor);
  Rows here = rows_of_rank(c, weight);
  int64_t n = x.rows(), v = weight.shape[0];
  Tensor out = c.empty({n, v}, c.types().stat);
  Tensor mine = c.empty({n, here.padded}, c.types().stat, MemoryKind::workspace);
  c.call(Matmul{.a = x.view(), .b = unit ? unit_weight.view() : c.store().value(weight), .out = mine.view(), .trans_b = true});
  soft_cap(c, mine.view(), cap);
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

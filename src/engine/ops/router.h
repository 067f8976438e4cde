// Which experts serve which tokens (Shazeer et al. 2017), and the losses that keep them busy alike.
#pragma once
#include "engine/ctx.h"

namespace ravine {

// Losses of a router beside that of the labels; what a micro batch adds to the loss of the step is their mean over all micro
// batches of the step. Formulas: router_load.h.
struct RouterLosses {
  // aux: pooled_balance; seq_aux: grouped_balance by sequence; global_aux: global_balance. bias is no loss.
  LoadBalance balance = LoadBalance::none;
  double balance_coef = 0, z_coef = 0;
  bool any() const { return balances() || z_coef != 0; }
  bool pools() const { return balances() && balance == LoadBalance::aux; }  // all layers together
  bool balances() const {
    return balance_coef != 0 &&
           (balance == LoadBalance::aux || balance == LoadBalance::seq_aux || balance == LoadBalance::global_aux);
  }
};
// Of a micro batch: that of balance before its coefficient, and both with theirs.
double balance_loss(const RouterLosses& losses, const RouterLoads& loads);
double router_loss(const RouterLosses& losses, const RouterLoads& loads);

// Rows of experts (kernels/moe.h), R of them: routed_rows(routing, N).
struct Routes {
  Tensor slots, tokens, offsets;  // i32 [N,K], [R], [E+1]
  Tensor weights;                 // [R,1], in the type of statistics
  // Of rows that came from other ranks (ops/expert_ranks.h): how many from each, one rank's behind the other's, and the most
  // that one sends. `offsets` are then [S,E/S+1], from the first row of each; there are neither slots nor tokens. Empty: the
  // rows are this rank's own.
  std::vector<int64_t> sources{};
  int64_t most_of_source = 0;
};

// x W^T in the type of statistics, from masters, whatever the type of compute: logits of a router [N,E], of a gate [N,1].
Tensor wide_linear(Ctx& c, const Tensor& x, const Param& weight);

// Chooses by logits, which are the same on all tensor ranks and whose gradients these sum. Of a batch with labels what the router
// did goes sideways under `layer` (Ctx::add_sum), and its losses join the gradient of the logits: of pooled ones, when all layers
// have run. correction: null where the routing has none.
Routes route(Ctx& c, const Tensor& logits, const Param* correction, const Routing& routing, const RouterLosses& losses,
             int64_t layer);

}  // namespace ravine

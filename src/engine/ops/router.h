// The router: it chooses the experts of each token (Shazeer et al. 2017). Also: the losses that balance the load of the
// experts.
#pragma once
#include "engine/ctx.h"

namespace ravine {

// The settings of the losses of a router (load balance, z loss), which are added to the loss of the labels. The loss of
// the step gets their mean over all micro batches of the step. The formulas are in router_load.h.
struct RouterLosses {
  // The balance loss to compute. aux: pooled_balance; seq_aux: grouped_balance by sequence; global_aux: global_balance;
  // bias: no loss.
  LoadBalance balance = LoadBalance::none;
  double balance_coef = 0, z_coef = 0;
  bool any() const { return balances() || z_coef != 0; }
  bool pools() const { return balances() && balance == LoadBalance::aux; }  // sums over all layers together
  bool balances() const {
    return balance_coef != 0 &&
           (balance == LoadBalance::aux || balance == LoadBalance::seq_aux || balance == LoadBalance::global_aux);
  }
};
// Return the losses of the routers in a micro batch. balance_loss: the balance loss without its coefficient.
// router_loss: balance loss and z loss with their coefficients.
double balance_loss(const RouterLosses& losses, const RouterLoads& loads);
double router_loss(const RouterLosses& losses, const RouterLoads& loads);

// The rows that experts compute, and the token of each (kernels/moe.h): R = routed_rows(routing, N) rows. The result of
// route().
struct Routes {
  Tensor slots, tokens, offsets;  // i32 [N,K], [R], [E+1]
  Tensor weights;                 // [R,1], in the type of statistics
  // sources: for rows received from other ranks (ops/expert_ranks.h), the number of rows from each rank, in order of
  // ranks. most_of_source: the largest number that one rank may send. `offsets` is then [S,E/S+1], counted from the
  // first row of each rank; slots and tokens are empty. Empty: the rows are this rank's own.
  std::vector<int64_t> sources{};
  int64_t most_of_source = 0;
};

// Runs a linear layer in the type of statistics with the master weight: returns x W^T, the logits of a router [N,E], or
// of a gate [N,1].
Tensor wide_linear(Ctx& c, const Tensor& x, const Param& weight);

// Chooses the experts of each token by the router's logits [N,E], which are equal on all tensor ranks. Gradients of the
// logits are summed over these ranks. If the batch has labels, the statistics are stored under `layer`
// (Ctx::add_router), and the losses add to the gradient of the logits. Pooled losses need the statistics of all layers,
// so they are computed in the backward pass. correction: null if the routing has no correction bias.
Routes route(Ctx& c, const Tensor& logits, const Param* correction, const Routing& routing, const RouterLosses& losses,
             int64_t layer);

}  // namespace ravine

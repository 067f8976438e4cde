// The section moe of a run's options: how experts share the work.
#pragma once
#include <optional>

#include "config/bounds.h"
#include "config/moe_choices.h"
#include "config/option.h"

namespace ravine {

// Over what config.json says of a model's experts; none of it counts for a model without.
struct MoeOptions {
  LoadBalance load_balance = LoadBalance::stored;
  std::optional<double> aux_loss, z_loss;
  double bias_update_rate = 1e-3;
  double capacity_factor = 0;
  Drop drop = Drop::none;
  bool pad_to_capacity = false;
  RouterType router_dtype = RouterType::f32;
  SharedGate shared_gate = SharedGate::stored;
  template <class V>
  void each(V&& v) {
    v("load_balance", load_balance,
      "what keeps the load of experts even: stored (what config.json says), none, aux (E sum f P over all layers and tokens of a micro batch, as Transformers has it), seq_aux (the same within each sequence and layer, divided by the choices of a token, as DeepSeek-V2 has it), global_aux (in each layer, with f of all data ranks and all micro batches of the step so far, as Megatron has it), bias (no loss: the correction of each router moves against its loads, as DeepSeek-V3 has it)",
      fixed());
    v("aux_loss", aux_loss, "what the loss of moe.load_balance counts beside that of labels; stored: what config.json says",
      between(0, 1e6) & no_value("stored") & may_change());
    v("z_loss", z_loss,
      "what the mean square of logsumexp of a router's logits counts beside them; stored: what config.json says",
      between(0, 1e6) & no_value("stored") & may_change());
    v("bias_update_rate", bias_update_rate,
      "after each update a correction grows by this for an expert with fewer choices than the mean, and falls by it for one with more",
      between(0, 1e6) & may_change());
    v("capacity_factor", capacity_factor,
      "an expert takes at most this many times its even share of the choices of a micro batch (moe.drop says which); 0: all that choose it",
      between(0, 1e6) & fixed());
    v("drop", drop,
      "which choices an expert leaves out that has more than its capacity: none may be left out; those of later tokens (position); second and later choices first (rank); those of least weight (probs)",
      fixed());
    v("pad_to_capacity", pad_to_capacity, "every expert computes as many rows as its capacity, zeros behind those it has",
      fixed());
    v("router_dtype", router_dtype, "in which type routers compute, whatever precision.compute is (f64 under f64)", fixed());
    v("shared_gate", shared_gate,
      "whether what a shared expert gives is multiplied by a learned gate: stored (what config.json's family has), gated, plain",
      fixed());
  }
};

}  // namespace ravine

// Section moe: mixture of experts.
#pragma once
#include <optional>

#include "config/bounds.h"
#include "config/moe_choices.h"
#include "config/option.h"

namespace ravine {

// The options of section moe. They override fields of the model's config.json and do not apply to models without
// experts.
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
    v("load_balance", load_balance, "how the load of experts is balanced: stored, none, aux, seq_aux, global_aux or bias",
      fixed() &
          detail(
              "stored: as config.json says. aux: a loss E sum f P over all layers and tokens of a micro batch, as in Transformers. seq_aux: the same within each sequence and layer, divided by the choices per token, as in DeepSeek-V2. global_aux: per layer, with f of all data ranks and all micro batches of the step so far, as in Megatron. bias: no loss; the correction of each router moves against its load, as in DeepSeek-V3."));
    v("aux_loss", aux_loss, "weight of the loss of moe.load_balance; stored: as in config.json",
      between(0, 1e6) & no_value("stored") & may_change());
    v("z_loss", z_loss, "weight of the z-loss: mean square of logsumexp of router logits; stored: as in config.json",
      between(0, 1e6) & no_value("stored") & may_change());
    v("bias_update_rate", bias_update_rate, "change of a router's correction per update (moe.load_balance=bias)",
      between(0, 1e6) & may_change() &
          detail(
              "The correction grows for an expert with fewer choices than the mean of its layer, and falls for an expert with more."));
    v("capacity_factor", capacity_factor, "most tokens of an expert, as a multiple of its even share; 0: no limit",
      between(0, 1e6) & fixed() &
          detail("The even share is that of the choices in a micro batch. moe.drop says which choices are dropped."));
    v("drop", drop, "choices to drop beyond an expert's capacity: none, position, rank or probs",
      fixed() &
          detail(
              "none: dropping is an error. position: choices of later tokens. rank: second and later choices first. probs: choices of the least weight."));
    v("pad_to_capacity", pad_to_capacity, "pad every expert's rows with zeros to its capacity", fixed());
    v("router_dtype", router_dtype, "number format of routers, independent of precision.compute (f64 under f64)", fixed());
    v("shared_gate", shared_gate, "gate of shared experts: stored (as in the model's family), gated (learned) or plain",
      fixed());
  }
};

}  // namespace ravine

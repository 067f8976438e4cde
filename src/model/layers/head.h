// The head: output product and loss. A linear layer without bias whose rows are the vocabulary.
#pragma once
#include "model/layers/linear.h"

namespace ravine {

struct HeadSpec {
  bool tied = false;       // the weight is the embedding's table
  bool unit_rows = false;  // rows of the weight are scaled to length 1 (Baichuan2's NormHead)
  double cap = 0;          // logits z become cap tanh(z / cap); 0: no cap
};

class Head {
 public:
  // Declares the weight of the head, <name>.weight [vocabulary, hidden]; if tied, as a parameter tied to `embedding`.
  Head(ParamSet& set, Unit& unit, const std::string& name, int64_t vocabulary, int64_t hidden, const HeadSpec& spec,
       double init_std, Param* embedding);
  // Runs the head on x [N,C], the stream after the final norm. If the batch has labels (i32 [N]): the loss head; losses
  // [N] are added to StepSum::loss. Without labels: outputs "hidden" [N,C] and "logits" [M,V] of the batch's M
  // logit_rows (absent: of all N).
  void operator()(Ctx& c, const Tensor& x) const;
  // Scales the rows of the weight to length 1 once, in the store, if the spec has unit_rows. Called by
  // Model::prepare_weights.
  void prepare_weights(Ctx& c);

 private:
  HeadSpec spec_;
  Linear product_;
  bool unit_rows_;  // the rows still have to be scaled to length 1
  std::string scope_;
};

}  // namespace ravine

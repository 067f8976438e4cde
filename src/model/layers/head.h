// The output product and the loss: a linear layer without bias whose rows are the vocabulary.
#pragma once
#include "model/layers/linear.h"

namespace ravine {

struct HeadSpec {
  bool tied = false;       // the weight is that of the embedding
  bool unit_rows = false;  // rows of the weight at length 1 (Baichuan2's NormHead)
  double cap = 0;          // logits z become cap tanh(z / cap); 0: as they are
};

class Head {
 public:
  // Declares <name>.weight [vocabulary, hidden]; tied: as another place of use of `embedding`.
  Head(ParamSet& set, Unit& unit, const std::string& name, int64_t vocabulary, int64_t hidden, const HeadSpec& spec,
       double init_std, Param* embedding);
  // x [N,C], after the final norm. With labels i32 [N]: the loss head, losses [N] -> side "loss". Without: outputs "hidden" [N,C]
  // and "logits" [M,V], of the M rows of the batch's logit_rows (absent: of all N).
  void operator()(Ctx& c, const Tensor& x) const;
  // Model::prepare_weights: rows are brought to length 1 once, in the store.
  void prepare_weights(Ctx& c);

 private:
  HeadSpec spec_;
  Linear product_;
  bool unit_rows_;  // they have not been brought to length 1 yet
  std::string scope_;
};

}  // namespace ravine

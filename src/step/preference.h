// Direct preference optimisation (DPO): losses of pairs of answers from their log-probabilities under the model and
// under a reference. As in TRL 1.16 (trl/trainer/dpo_trainer.py _compute_loss); label smoothing of sigmoid as in TRL
// 0.x and Mitchell 2023 (cDPO).
#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "config/config.h"
#include "data/loader.h"
#include "engine/batch.h"
#include "engine/step_sums.h"

namespace ravine {

// The log-probability of one answer of a preference pair, under the model and under the reference: the sum over its
// tokens, in nats. `tokens`: the number of its tokens.
struct AnswerLogProb {
  double model = 0, reference = 0;
  int64_t tokens = 0;
};

// The result of pair_loss: the loss of one pair, its derivatives, and the rewards r = beta (model - reference). The
// loss is one of:
//   sigmoid  -(1 - s) log sigmoid(z) - s log sigmoid(-z) (Rafailov et al. 2023)
//            with z = r_chosen - r_rejected and s = label_smoothing
//   hinge    max(0, 1 - z) (Zhao et al. 2023)
//   ipo      (d - 1 / (2 beta))^2, d = (model - reference) / tokens, chosen minus rejected (Azar et al. 2023)
// ftx * (-model / tokens) of the chosen answer is added (ModelLink's --pref-ftx; TRL's loss type "sft", per pair).
struct PairLoss {
  double loss = 0;
  double by_chosen = 0, by_rejected = 0;  // derivatives of loss by AnswerLogProb::model
  double chosen_reward = 0, rejected_reward = 0;
};
PairLoss pair_loss(const DpoOptions& options, const AnswerLogProb& chosen, const AnswerLogProb& rejected);

// Returns the log-probability and the number of tokens with a label of each answer (segment) of a batch. `losses`:
// cross-entropies, f64, one per token of the batch. Only AnswerLogProb::model and tokens are set. Host work.
std::vector<AnswerLogProb> answers_of(const Batch& batch, const TensorView& losses);

// The DPO loss of a micro batch: the sum of pair_loss over its preference pairs. Its step sums count pairs.
class DpoLoss final : public SequenceLoss {
 public:
  // `options` and `micro` must outlive this object.
  DpoLoss(const DpoOptions& options, const MicroBatch& micro) : options_(options), micro_(micro) {}
  void weigh(Ctx& c, const TensorView& losses, const TensorView& weights) const override;

 private:
  const DpoOptions& options_;
  const MicroBatch& micro_;
};

// A loss without gradients, used to compute log-probabilities: appends the log-probability of each answer of a batch to
// a vector.
class AnswerLogProbs final : public SequenceLoss {
 public:
  explicit AnswerLogProbs(std::vector<double>& out) : out_(out) {}
  void weigh(Ctx& c, const TensorView& losses, const TensorView& weights) const override;

 private:
  std::vector<double>& out_;
};

// Returns the DPO metrics of a step or of a validation under TRL's names: "rewards/chosen", "rewards/rejected",
// "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected". `mean` returns the mean of a step sum over
// the pairs.
std::vector<std::pair<std::string, double>> preference_metrics(const std::function<double(StepSum)>& mean);

}  // namespace ravine

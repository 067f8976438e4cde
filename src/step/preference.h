// Direct preference optimisation: what two answers cost by their log-probabilities under the model and under a reference, as
// TRL 1.16 has it (trl/trainer/dpo_trainer.py _compute_loss; label smoothing of sigmoid as in TRL 0.x and Mitchell 2023, cDPO).
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

// Of an answer: the sum of the log-probabilities of its tokens, in nats, and their number.
struct AnswerLogProb {
  double model = 0, reference = 0;
  int64_t tokens = 0;
};

// With r = beta (model - reference), the rewards:
//   sigmoid  -(1 - s) log sigmoid(z) - s log sigmoid(-z),  z = r_chosen - r_rejected, s label_smoothing (Rafailov et al. 2023)
//   hinge    max(0, 1 - z) (Zhao et al. 2023)
//   ipo      (d - 1 / (2 beta))^2, d the difference of (model - reference) / tokens (Azar et al. 2023)
// and ftx times -model / tokens of the chosen answer is added (ModelLink's --pref-ftx; TRL's loss type "sft", of a pair).
struct PairLoss {
  double loss = 0;
  double by_chosen = 0, by_rejected = 0;  // its derivatives by AnswerLogProb::model
  double chosen_reward = 0, rejected_reward = 0;
};
PairLoss pair_loss(const DpoOptions& options, const AnswerLogProb& chosen, const AnswerLogProb& rejected);

// The log-probability of each segment's labels, from their cross-entropies; and how many there are. Host work.
std::vector<AnswerLogProb> answers_of(const Batch& batch, const TensorView& losses);

// The sum of pair_loss over the pairs of a micro batch; its step sums are over pairs.
class DpoLoss final : public SequenceLoss {
 public:
  DpoLoss(const DpoOptions& options, const MicroBatch& micro) : options_(options), micro_(micro) {}  // both must stay
  void weigh(Ctx& c, const TensorView& losses, const TensorView& weights) const override;

 private:
  const DpoOptions& options_;
  const MicroBatch& micro_;
};

// Learns nothing; notes the log-probabilities of answers.
class AnswerLogProbs final : public SequenceLoss {
 public:
  explicit AnswerLogProbs(std::vector<double>& out) : out_(out) {}
  void weigh(Ctx& c, const TensorView& losses, const TensorView& weights) const override;

 private:
  std::vector<double>& out_;
};

// What a step or a validation came to, by TRL's names: "rewards/chosen", "rewards/rejected", "rewards/accuracies",
// "rewards/margins", "logps/chosen", "logps/rejected". mean: of a side, over pairs.
std::vector<std::pair<std::string, double>> preference_metrics(const std::function<double(StepSum)>& mean);

}  // namespace ravine

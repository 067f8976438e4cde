#include "step/preference.h"

#include <algorithm>
#include <cmath>

#include "engine/ctx.h"

namespace ravine {
namespace {

double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }
double log_sigmoid(double x) { return std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))); }

}  // namespace

PairLoss pair_loss(const DpoOptions& o, const AnswerLogProb& chosen, const AnswerLogProb& rejected) {
  PairLoss p;
  const double c = chosen.model - chosen.reference, r = rejected.model - rejected.reference;
  p.chosen_reward = o.beta * c, p.rejected_reward = o.beta * r;
  if (o.loss == PreferenceLossType::sigmoid) {
    const double z = o.beta * (c - r), s = o.label_smoothing;
    p.loss = -(1 - s) * log_sigmoid(z) - s * log_sigmoid(-z);
    p.by_chosen = o.beta * (s * sigmoid(z) - (1 - s) * sigmoid(-z));
    p.by_rejected = -p.by_chosen;
  } else if (o.loss == PreferenceLossType::hinge) {
    const double short_of = 1 - o.beta * (c - r);
    p.loss = std::max(short_of, 0.0);
    p.by_chosen = short_of > 0 ? -o.beta : 0.0;
    p.by_rejected = -p.by_chosen;
  } else {
    const double of_chosen = static_cast<double>(std::max<int64_t>(chosen.tokens, 1)),
                 of_rejected = static_cast<double>(std::max<int64_t>(rejected.tokens, 1)),
                 off = c / of_chosen - r / of_rejected - 1 / (2 * o.beta);
    p.loss = off * off;
    p.by_chosen = 2 * off / of_chosen, p.by_rejected = -2 * off / of_rejected;
  }
  if (o.ftx != 0) {
    const double share = o.ftx / static_cast<double>(std::max<int64_t>(chosen.tokens, 1));
    p.loss -= share * chosen.model, p.by_chosen -= share;
  }
  return p;
}

// Host work: one sum per answer, in order, of one f64 per token.
std::vector<AnswerLogProb> answers_of(const Batch& b, const TensorView& losses) {
  std::vector<AnswerLogProb> out;
  for (const Segment& s : b.segments) {
    AnswerLogProb a;
    for (int64_t i = s.q_begin; i < s.q_begin + s.q_count; ++i)
      if (b.labels.as<int32_t>()[i] >= 0) a.model -= losses.as<double>()[i], ++a.tokens;
    out.push_back(a);
  }
  return out;
}

// Host work: some arithmetic per pair, and one number per token.
void DpoLoss::weigh(Ctx& c, const TensorView& losses, const TensorView& weights) const {
  if (!losses.data) return;
  const Batch& b = c.batch();
  const size_t pairs = micro_.pairs.size();
  require(b.segments.size() == 2 * pairs || pairs == 0, "dpo: {} segments are no {} pairs", b.segments.size(), pairs);
  require(micro_.reference.empty() || micro_.reference.size() == 2 * pairs, "dpo: {} reference log-probabilities of {} pairs",
          micro_.reference.size(), pairs);
  std::vector<AnswerLogProb> answers = answers_of(b, losses);
  for (size_t i = 0; i < micro_.reference.size(); ++i) answers[i].reference = micro_.reference[i];
  if (!weights.absent()) std::fill_n(weights.as<double>(), weights.count(), 0.0);
  ExactSum loss, chosen_reward, rejected_reward, right_order, chosen_log_prob, rejected_log_prob;
  auto weigh_segment = [&](size_t segment, double by_log_prob) {
    const Segment& s = b.segments[segment];
    for (int64_t i = s.q_begin; i < s.q_begin + s.q_count && !weights.absent(); ++i)
      if (b.labels.as<int32_t>()[i] >= 0) weights.as<double>()[i] = -by_log_prob;  // loss = -log-probability
  };
  for (size_t p = 0; p < pairs; ++p) {
    const AnswerLogProb &chosen = answers[2 * p], &rejected = answers[2 * p + 1];
    const PairLoss of = pair_loss(options_, chosen, rejected);
    loss.add(of.loss);
    chosen_reward.add(of.chosen_reward), rejected_reward.add(of.rejected_reward);
    right_order.add(of.chosen_reward > of.rejected_reward ? 1 : 0);
    chosen_log_prob.add(chosen.model), rejected_log_prob.add(rejected.model);
    weigh_segment(2 * p, of.by_chosen), weigh_segment(2 * p + 1, of.by_rejected);
  }
  if (c.group(Axis::tensor).rank() > 0) return;  // all tensor ranks have the same sums
  c.add_sum(StepSum::loss, loss);
  c.add_sum(StepSum::chosen_reward, chosen_reward), c.add_sum(StepSum::rejected_reward, rejected_reward);
  c.add_sum(StepSum::right_order, right_order);
  c.add_sum(StepSum::chosen_log_prob, chosen_log_prob), c.add_sum(StepSum::rejected_log_prob, rejected_log_prob);
}

void AnswerLogProbs::weigh(Ctx& c, const TensorView& losses, const TensorView& /*weights*/) const {
  if (!losses.data) return;
  for (const AnswerLogProb& a : answers_of(c.batch(), losses)) out_.push_back(a.model);
}

std::vector<std::pair<std::string, double>> preference_metrics(const std::function<double(StepSum)>& mean) {
  const double chosen = mean(StepSum::chosen_reward), rejected = mean(StepSum::rejected_reward);
  return {{"rewards/chosen", chosen},
          {"rewards/rejected", rejected},
          {"rewards/accuracies", mean(StepSum::right_order)},
          {"rewards/margins", chosen - rejected},
          {"logps/chosen", mean(StepSum::chosen_log_prob)},
          {"logps/rejected", mean(StepSum::rejected_log_prob)}};
}

}  // namespace ravine

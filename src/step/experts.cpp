#include "step/experts.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <type_traits>

#include "base/counted.h"
#include "base/error.h"
#include "base/log.h"
#include "config/chosen.h"
#include "model/decoder.h"

namespace ravine {
namespace {

const MoeSpec* experts_of(const Model& model) {
  return model.decoder() && model.decoder()->moe ? &*model.decoder()->moe : nullptr;
}

std::vector<int64_t> sparse_layers(const Model& model) {
  std::vector<int64_t> out;
  for (int64_t i = 0; experts_of(model) && i < model.facts().layers; ++i)
    if (model.decoder()->is_sparse(i)) out.push_back(i);
  return out;
}

std::string given_at(const Config& c, const std::string& option) {
  const auto given = c.sources.find(option);
  return given == c.sources.end() ? option : fmt::format("{}, {}", option, given->second);
}

void refuse_for_dense(const Model& model, const Config& c) {
  const auto set_by_user = chosen_options(c);
  const auto option =
      std::find_if(set_by_user.begin(), set_by_user.end(), [](const std::string& o) { return o.starts_with("moe."); });
  if (option == set_by_user.end()) return;
  throw UserError(fmt::format("{} of a model without experts", *option), given_at(c, *option),
                  fmt::format("the {} family has an MLP in every layer", model.facts().family),
                  "leave it out, or use a model with experts (mixtral, qwen2_moe, qwen3_moe, deepseek_v2, deepseek_v3)");
}

// Returns the experts of a model with the changes of the options. `family` stands in the messages.
MoeSpec changed(const MoeSpec& stored, const Config& c, const std::string& family) {
  const MoeOptions& o = c.moe;
  MoeSpec m = stored;
  if (o.load_balance != LoadBalance::stored) m.losses.balance = o.load_balance;
  if (o.load_balance == LoadBalance::bias && !m.routing.correction)
    throw UserError(
        "moe.load_balance is bias", given_at(c, "moe.load_balance"),
        fmt::format("routers of the {} family have no correction bias, and its files have no tensor for one", family),
        "set moe.load_balance=aux, or use a model whose routers have one (deepseek_v3)");
  if (o.aux_loss) m.losses.balance_coef = *o.aux_loss;
  if (o.z_loss) m.losses.z_coef = *o.z_loss;
  if (o.aux_loss.value_or(0) > 0 && (m.losses.balance == LoadBalance::none || m.losses.balance == LoadBalance::bias))
    throw UserError(fmt::format("moe.aux_loss is {}, and no load-balance loss is on", *o.aux_loss), given_at(c, "moe.aux_loss"),
                    o.load_balance == LoadBalance::stored
                        ? fmt::format("config.json of this {} model sets none", family)
                        : fmt::format("moe.load_balance={} has no loss", name(o.load_balance)),
                    "set moe.load_balance=aux or seq_aux, or leave it out");
  m.routing.capacity_factor = o.capacity_factor, m.routing.drop = o.drop, m.routing.pad_to_capacity = o.pad_to_capacity;
  if (o.drop != Drop::none && o.capacity_factor * static_cast<double>(m.routing.experts) < 1)
    throw UserError(fmt::format("moe.capacity_factor is {}", o.capacity_factor), given_at(c, "moe.capacity_factor"),
                    fmt::format("with {0} experts the capacity must be at least 1/{0} of the even share", m.routing.experts),
                    fmt::format("set {} or more; 1 is the even share", 1.0 / static_cast<double>(m.routing.experts)));
  if (o.shared_gate != SharedGate::stored && m.shared_gate != (o.shared_gate == SharedGate::gated))
    throw UserError(fmt::format("moe.shared_gate is {}", name(o.shared_gate)), given_at(c, "moe.shared_gate"),
                    fmt::format("config.json of the {} family says {}", family,
                                m.shared.width == 0 ? "no shared expert"
                                : m.shared_gate     ? "a gate of its shared expert"
                                                    : "no gate of its shared expert"),
                    "leave moe.shared_gate out");
  return m;
}

// Returns the sums over the ranks of a group, element by element. `mine` has the same length on each rank.
std::vector<int64_t> total(const Group& group, const std::vector<int64_t>& mine) {
  std::vector<int64_t> all(mine.size() * static_cast<size_t>(group.size())), sum(mine.size());
  group.all_gather(mine.data(), all.data(), static_cast<int64_t>(mine.size() * sizeof(int64_t))).wait();
  for (size_t i = 0; i < all.size(); ++i) sum[i % mine.size()] += all[i];
  return sum;
}

// Adds the balance loss of a micro batch for the layers of this stage. Layers are added one by one, so that the exact
// sum does not depend on the split into stages. A loss that pools all layers is added on the last stage.
void add_balance(const RouterLosses& losses, const StepSums& sums, int64_t micro, bool last_stage, ExactSum& to) {
  if (losses.pools()) {
    if (last_stage) to.add(pooled_balance(sums.pool(micro)));
    return;
  }
  for (const auto& layer : sums.routers(micro)) to.add(balance_loss(losses, {layer}));
}

}  // namespace

std::unique_ptr<Model> with_experts(std::unique_ptr<Model> model, const Config& config) {
  const MoeSpec* stored = experts_of(*model);
  if (!stored) {
    refuse_for_dense(*model, config);
    return model;
  }
  DecoderSpec spec = *model->decoder();
  spec.moe = changed(*stored, config, model->facts().family);
  std::unique_ptr<Model> out = make_decoder(model->config(), model->facts(), std::move(spec));
  out->set_stored_vocabulary(model->stored_vocabulary());
  return out;
}

RouterReport router_report(const StepSums& sums, const std::vector<MicroBatch>& micros, const Model& model,
                           const Ranks& ranks) {
  RouterReport r;
  const MoeSpec* spec = experts_of(model);
  if (!spec) return r;
  r.layers = sparse_layers(model);
  const Group &data = ranks.along(Axis::data), &stages = ranks.along(Axis::pipeline);
  // counts [layer][experts + 1]: the choices of each expert, then the number of choices that were served.
  const auto experts = static_cast<size_t>(spec->routing.experts), cells = experts + 1;
  std::vector<int64_t> counts(r.layers.size() * cells);
  ExactSum balance, z;
  for (const MicroBatch& m : micros) {
    const RouterLoads& loads = sums.routers(m.index);
    if (loads.empty() || loads.begin()->second.claims.empty()) continue;  // on meta nothing is counted
    add_balance(spec->losses, sums, m.index, ranks.last_stage(), balance);
    for (const auto& layer : loads) z.add(z_loss({layer}));
    for (size_t i = 0; i < r.layers.size(); ++i) {
      const auto load = loads.find(r.layers[i]);
      if (load == loads.end()) continue;  // on another stage
      for (size_t e = 0; e < experts; ++e) counts[i * cells + e] += load->second.claims[e];
      counts[i * cells + experts] += load->second.taken;
    }
  }
  const double all = static_cast<double>(micros.size()) * data.size();
  if (const double value = sum(stages, sum(data, balance)).value() / all; spec->losses.balances()) r.balance = value;
  if (const double value = sum(stages, sum(data, z)).value() / all; spec->losses.z_coef != 0) r.z = value;
  counts = total(stages, total(data, counts));
  for (size_t i = 0; i < r.layers.size(); ++i) {
    const auto begin = counts.begin() + static_cast<std::ptrdiff_t>(i * cells),
               end = begin + static_cast<std::ptrdiff_t>(experts);
    const auto claims = static_cast<double>(std::accumulate(begin, end, int64_t{0}));
    r.drop_rate.push_back(claims > 0 ? (claims - static_cast<double>(*end)) / claims : 0);
    r.claims.emplace_back(begin, end);
    r.load.push_back(claims > 0 ? static_cast<double>(*std::max_element(begin, end)) * static_cast<double>(experts) / claims
                                : 0);
  }
  return r;
}

SharesOfStep::SharesOfStep(const Group& data, const Model& model) : data_(data) {
  const MoeSpec* spec = experts_of(model);
  wanted_ = spec && spec->losses.balances() && spec->losses.balance == LoadBalance::global_aux;
}

void SharesOfStep::add(Ctx& c, int64_t micro) {
  if (!wanted_) return;
  const RouterLoads& loads = c.step_sums().routers(micro);
  std::vector<int64_t> layers, mine;
  for (const auto& [layer, load] : loads) {
    if (!load.shares.empty()) continue;  // set by an earlier chunk of this stage
    layers.push_back(layer);
    for (int64_t e = 0; e < load.experts; ++e)  // on meta nothing is counted
      mine.push_back(load.counts.empty() ? 0 : std::llround(load.counts[static_cast<size_t>(e)]));
  }
  if (layers.empty()) return;
  const std::vector<int64_t> all = total(data_, mine);
  auto next = all.begin();
  for (const int64_t layer : layers) {
    const RouterLoad& load = loads.at(layer);
    std::vector<int64_t>& sums = choices_[layer];
    sums.resize(static_cast<size_t>(load.experts));
    for (int64_t& sum : sums) sum += *next++;
    const double tokens =
        static_cast<double>(std::accumulate(sums.begin(), sums.end(), int64_t{0})) / static_cast<double>(load.top_k);
    std::vector<double> shares;
    for (const int64_t sum : sums) shares.push_back(tokens > 0 ? static_cast<double>(sum) / tokens : 0);
    c.set_router_shares(micro, layer, std::move(shares));
  }
}

// Host work: one sum per expert.
void correct_routers(FlatStore& store, const RouterReport& report, double rate,
                     const std::function<void(const Unit&)>& before_unit) {
  for (const ParamBox& box : store.boxes()) {
    if (!box.param->policy.updated_by_rule || box.view.data == nullptr) continue;
    const auto row = std::find_if(report.layers.begin(), report.layers.end(), [&](int64_t layer) {
      return box.param->unit->name == fmt::format("model.layers.{}", layer);
    });
    require(row != report.layers.end(), "experts: '{}' is of no layer with experts", box.param->name);
    const std::vector<int64_t>& claims = report.claims[static_cast<size_t>(row - report.layers.begin())];
    const auto experts = static_cast<int64_t>(claims.size());
    const int64_t all = std::accumulate(claims.begin(), claims.end(), int64_t{0});
    if (before_unit) before_unit(*box.param->unit);
    visit_float(box.view.dtype, [&](auto zero) {
      using T = decltype(zero);
      using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;
      T* values = box.view.as<T>();
      for (int64_t i = 0; i < box.view.count(); ++i) {
        const int64_t lack = all - experts * claims[static_cast<size_t>(box.begin[0] + i)];
        const int sign = lack > 0 ? 1 : lack < 0 ? -1 : 0;
        values[i] = static_cast<T>(static_cast<Wide>(values[i]) + static_cast<Wide>(sign) * static_cast<Wide>(rate));
      }
    });
  }
}

std::string experts_text(const Model& model) {
  const MoeSpec* spec = experts_of(model);
  if (!spec) return "";
  return fmt::format("{} in {} of {}, {} per token; {} of {} parameters are active", counted(spec->routing.experts, "expert"),
                     sparse_layers(model).size(), counted(model.facts().layers, "layer"), spec->routing.top_k,
                     human_count(static_cast<double>(model.params().active_count())),
                     human_count(static_cast<double>(model.params().count())));
}

std::string expert_rows_text(const Model& model, int64_t tokens, int expert_ranks) {
  const MoeSpec* spec = experts_of(model);
  if (!spec) return "";
  const Routing& r = spec->routing;
  const int64_t of_one = r.drop == Drop::none
                             ? routed_rows(r, tokens)
                             : std::min(routed_rows(r, tokens), r.experts / expert_ranks * expert_capacity(r, tokens));
  const std::string rows =
      counted(expert_ranks * of_one, "row") + (expert_ranks > 1 ? fmt::format(" from {} ranks", expert_ranks) : "");
  if (r.drop == Drop::none)
    return fmt::format("experts are planned for {}: every choice of every token of a micro batch, whichever experts they go to",
                       rows);
  return fmt::format("experts are planned for {}: {} of each, its capacity{}", rows, expert_capacity(r, tokens),
                     r.pad_to_capacity ? ", to which it is padded" : ", or all choices where these are fewer");
}

}  // namespace ravine

#include "probe/identify.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "probe/solve_settings.h"

namespace ravine {
namespace {

constexpr int kNotRound = 9;  // digits of a value that is no round number

std::string number_text(double x) { return fmt::format("{:.6g}", x); }

double largest(const std::vector<double>& x) { return x.empty() ? 0 : *std::max_element(x.begin(), x.end()); }

bool is_matrix(const RecordedUpdates::Of& p) { return p.shape.rank() >= 2; }

std::vector<std::string> names_where(const RecordedUpdates& u, const std::vector<char>& decays,
                                     const std::vector<char>& not_in) {
  std::vector<std::string> out;
  for (size_t i = 0; i < u.params.size(); ++i)
    if (decays[i] && (not_in.empty() || !not_in[i])) out.push_back(u.params[i].name);
  return out;
}

std::string some(const std::vector<std::string>& names) {
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(names.size(), 4); ++i) out += (i > 0 ? ", " : "") + names[i];
  return names.size() > 4 ? out + fmt::format(" and {} more", names.size() - 4) : out;
}

FoundSetting found_decays(const RecordedUpdates& u, const AdamSettings& was, const AdamSettings& is) {
  const std::vector<std::string> all = names_where(u, is.decays, {}), added = names_where(u, is.decays, was.decays),
                                 left = names_where(u, was.decays, is.decays);
  bool matrices = true;
  for (size_t i = 0; i < u.params.size(); ++i) matrices = matrices && (is.decays[i] != 0) == is_matrix(u.params[i]);
  Json value = all.size() == u.params.size() ? Json("all") : matrices ? Json("matrices") : Json(all);
  std::string text = all.size() == u.params.size() ? "all parameters decay"
                     : matrices                    ? "matrices alone decay"
                                                   : "other parameters decay";
  if (!added.empty()) text += ", also " + some(added);
  if (!left.empty()) text += ", but not " + some(left);
  return {"decayed", std::move(value), text};
}

FoundSetting found(const RecordedUpdates& u, const AdamSettings& was, const AdamSettings& is, Knob knob) {
  auto changed = [](const char* setting, double from, double to) {
    return FoundSetting{setting, to, fmt::format("{} is {}, not {}", setting, number_text(to), number_text(from))};
  };
  switch (knob) {
    case Knob::lr: {
      if (!is.rates.empty()) {
        if (is.rates.size() == 1) return changed("lr", largest(u.rates), is.rates[0]);
        std::string text = "the rates are";
        for (size_t i = 0; i < std::min<size_t>(is.rates.size(), 6); ++i) text += " " + number_text(is.rates[i]);
        return {"lr", is.rates, text + (is.rates.size() > 6 ? " .." : "")};
      }
      const double most = largest(u.rates);
      FoundSetting f = changed("lr", most, most * is.rate);
      if (std::any_of(u.rates.begin(), u.rates.end(), [&](double x) { return x != most; }))
        f.text = fmt::format("each lr is {} times as large, at most {}, not {}", number_text(is.rate),
                             number_text(most * is.rate), number_text(most));
      return f;
    }
    case Knob::weight_decay:
      return changed("weight_decay", was.weight_decay, is.weight_decay);
    case Knob::decayed:
      return found_decays(u, was, is);
    case Knob::beta1:
      return changed("beta1", was.beta1, is.beta1);
    case Knob::beta2:
      return changed("beta2", was.beta2, is.beta2);
    case Knob::eps:
      return changed("eps", was.eps, is.eps);
    case Knob::clip_norm:
      if (is.clip_norm == 0)
        return {"clip_norm", 0.0, fmt::format("gradients are not clipped, and clip_norm is {}", number_text(was.clip_norm))};
      if (was.clip_norm == 0)
        return {"clip_norm", is.clip_norm,
                fmt::format("gradients are clipped to {}, and clip_norm is 0", number_text(is.clip_norm))};
      return changed("clip_norm", was.clip_norm, is.clip_norm);
    case Knob::bias_correction:
      return {"bias_correction", is.bias_correction,
              is.bias_correction ? "moments are corrected for their bias" : "moments are not corrected for their bias"};
    case Knob::coupled:
      return {"order", is.coupled ? "coupled" : "decoupled",
              is.coupled ? "the decay is added to the gradient before the moments (Adam, L2)"
                         : "the decay is taken from the weight beside the update (AdamW)"};
    case Knob::clip_scale:
      return {"order", "clipped before unscaled",
              fmt::format("gradients are clipped before a loss scale of {} is divided out", number_text(is.clip_scale))};
    case Knob::factor:
      return {"order", fmt::format("gradients times {}", number_text(is.grad_factor)),
              fmt::format("gradients enter {} times as large: a scale is {}", number_text(is.grad_factor),
                          is.grad_factor > 1 ? "not divided out" : "divided out that they do not have")};
  }
  return {};
}

// The search over settings for one recording.
class Search {
 public:
  Search(const RecordedUpdates& u, const AdamSettings& configured)
      : u_(u), configured_(configured), all_(elements_of(u, 0)), solver_(u, configured) {}

  Identified run() {
    Identified out;
    AdamSettings rule = configured_;
    out.configured = misfit_of(u_, rule, all_);
    if (out.configured.fits()) {
      out.explained.push_back({.settings = {}, .rule = configured_, .misfit = out.configured});
      return out;
    }
    closest_ = {.settings = {}, .rule = configured_, .misfit = out.configured};
    for (const Knob k : kKnobs) consider({k});
    if (explained_.empty()) consider_rates();
    if (explained_.empty())
      for (size_t i = 0; i < kKnobs.size(); ++i)
        for (size_t k = i + 1; k < kKnobs.size(); ++k) consider({kKnobs[i], kKnobs[k]});
    std::stable_sort(explained_.begin(), explained_.end(),
                     [](const Explanation& a, const Explanation& b) { return a.digits < b.digits; });
    out.explained = std::move(explained_), out.closest = std::move(closest_);
    return out;
  }

 private:
  bool has_effect(Knob k) const {
    const bool clips = configured_.clip_norm > 0;
    return k == Knob::clip_scale ? clips : k == Knob::decayed || k == Knob::coupled ? configured_.weight_decay > 0 : true;
  }

  // Tries the rule that frees these settings, and keeps it if it explains the recording.
  void consider(const std::vector<Knob>& knobs) {
    const auto with = [&](Knob k) { return std::find(knobs.begin(), knobs.end(), k) != knobs.end(); };
    for (const Knob k : knobs)
      if (!has_effect(k) && !((k == Knob::decayed || k == Knob::coupled) && with(Knob::weight_decay)) &&
          !(k == Knob::clip_scale && with(Knob::clip_norm)))
        return;
    if (with(Knob::clip_scale) && with(Knob::clip_norm)) return;  // their quotient alone has an effect
    for (const Solution& s : solver_.solve(knobs)) {
      const bool none_decays = std::none_of(s.rule.decays.begin(), s.rule.decays.end(), [](char x) { return x != 0; });
      if (with(Knob::decayed) && (none_decays || s.rule.decays == configured_.decays)) continue;  // as weight_decay 0
      keep(knobs, s.rule, s.digits);
    }
  }

  void consider_rates() {
    if (!u_.every_step && u_.steps > 1) return;
    AdamSettings rule = configured_;
    rule.rates = solve_rates(u_, rule, elements_of(u_, 100000));
    keep({Knob::lr}, rule, kNotRound * 2);
  }

  void keep(const std::vector<Knob>& knobs, AdamSettings rule, int digits) {
    Explanation e{.settings = {}, .rule = rule, .misfit = misfit_of(u_, rule, all_), .digits = digits};
    for (const Knob k : knobs) e.settings.push_back(found(u_, configured_, rule, k));
    if (!e.misfit.fits()) {
      if (e.misfit.squares < closest_.misfit.squares) closest_ = std::move(e);
      return;
    }
    const auto same = [&](const Explanation& x) {
      return std::equal(x.settings.begin(), x.settings.end(), e.settings.begin(), e.settings.end(),
                        [](const FoundSetting& a, const FoundSetting& b) {
                          return a.setting == b.setting && (a.setting != "order" || a.value == b.value);
                        });
    };
    const auto known = std::find_if(explained_.begin(), explained_.end(), same);
    if (known == explained_.end())
      explained_.push_back(std::move(e));
    else if (e.digits < known->digits)
      *known = std::move(e);
  }

  const RecordedUpdates& u_;
  const AdamSettings& configured_;
  const ChosenElements all_;
  Solver solver_;
  std::vector<Explanation> explained_;
  Explanation closest_;
};

Json settings_json(const Explanation& e) {
  Json out = Json::array();
  for (const FoundSetting& f : e.settings) out.push_back({{"setting", f.setting}, {"value", f.value}});
  return out;
}

std::string settings_text(const Explanation& e) {
  std::string out;
  for (size_t i = 0; i < e.settings.size(); ++i) out += (i > 0 ? "; and " : "") + e.settings[i].text;
  return out;
}

}  // namespace

Identified identify(const RecordedUpdates& u, const AdamSettings& configured) { return Search(u, configured).run(); }

std::string Identified::text(const RecordedUpdates& u) const {
  if (explained.empty())
    return fmt::format(
        "Neither one setting nor a pair of them explains the weights. Closest is: {}. It leaves {:.2g} of the change, most at {}. "
        "Look at that parameter's gradient and shape, and at settings that are not searched here.",
        closest.settings.empty() ? "the configured settings" : settings_text(closest), closest.misfit.unexplained(),
        u.params[closest.misfit.worst_param].name);
  const Explanation& first = explained.front();
  std::string out =
      first.settings.empty()
          ? fmt::format("The configured settings explain the weights: no difference is above {:.2g} of what roundings may be.",
                        first.misfit.worst)
          : fmt::format("Explained: {}. What is left is at most {:.2g} of what roundings may be.", settings_text(first),
                        first.misfit.worst);
  if (u.stored > 0) out += " The weights have 16 bits, which hide small settings: record f32 masters.";
  if (explained.size() > 1) {
    out += " This recording cannot tell it from";
    for (size_t i = 1; i < std::min<size_t>(explained.size(), 4); ++i)
      out += fmt::format("{} ({})", i > 1 ? " or" : "", settings_text(explained[i]));
    if (explained.size() > 4) out += fmt::format(" or {} more", explained.size() - 4);
    out += ": record more steps, or the moments too (state.m.NAME, state.v.NAME).";
  }
  return out;
}

Json Identified::json(const RecordedUpdates& u) const {
  const bool known = !explained.empty();
  const Explanation& best = known ? explained.front() : closest;
  Json others = Json::array();
  for (size_t i = 1; i < explained.size(); ++i) others.push_back(settings_json(explained[i]));
  return {{"identified", known ? settings_json(best) : Json::array()},
          {"unexplained", best.misfit.unexplained()},
          {"explained", known},
          {"worst", best.misfit.worst},
          {"configured", {{"unexplained", configured.unexplained()}, {"worst", configured.worst}}},
          {"alternatives", others},
          {"closest", known ? Json() : settings_json(best)},
          {"verdict", text(u)}};
}

}  // namespace ravine

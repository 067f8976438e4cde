#include "engine/param.h"

#include <cmath>

#include "base/error.h"

namespace ravine {

Unit& ParamSet::unit(const std::string& name) {
  units_.push_back({name, {}, units_.size()});
  return units_.back();
}

Param* ParamSet::add(Unit& unit, Param p) { return add_joined(unit, {std::move(p)})[0]; }

std::vector<Param*> ParamSet::add_joined(Unit& unit, std::vector<Param> params) {
  std::vector<Param*> out;
  for (Param& p : params) {
    require(find(p.name) == nullptr || p.tied, "param: '{}' is declared twice", p.name);
    p.unit = &unit;
    p.join = next_join_;
    p.index = params_.size();
    if (!p.tied) declared_.emplace(p.name, p.index);
    params_.push_back(std::move(p));
    unit.params.push_back(&params_.back());
    out.push_back(&params_.back());
  }
  ++next_join_;
  return out;
}

bool is_matrix(const Param& p) { return p.use != Use::vector && p.use != Use::table; }

int64_t active_elements(const Param& p) {
  return static_cast<int64_t>(std::llround(p.active * static_cast<double>(p.shape.count())));
}

Param* ParamSet::find(const std::string& name) {
  const auto at = declared_.find(name);
  return at == declared_.end() ? nullptr : &params_[at->second];
}

int64_t ParamSet::count() const {
  int64_t n = 0;
  for (const Param& p : params_)
    if (!p.tied) n += p.shape.count();
  return n;
}

int64_t ParamSet::active_count() const {
  int64_t n = 0;
  for (const Param& p : params_)
    if (!p.tied) n += active_elements(p);
  return n;
}

int64_t ParamSet::matrix_count() const {
  int64_t n = 0;
  for (const Param& p : params_)
    if (is_matrix(p)) n += active_elements(p);
  return n;
}

const LoraAdapters& AdapterSet::add(const Param& weight, LoraAdapters adapters) {
  return layers_[weight.name] = std::move(adapters);
}

const LoraAdapters* AdapterSet::adapters_of(const Param& weight) const {
  const auto at = layers_.find(weight.name);
  return at == layers_.end() ? nullptr : &at->second;
}

size_t AdapterSet::parameters() const {
  size_t n = 0;
  for (const auto& [weight, adapters] : layers_) n += adapters.a.size() + adapters.ups.size();
  return n;
}

}  // namespace ravine

#include "model/weight_files.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace ravine {
namespace {

constexpr std::string_view kLayers = "model.layers.";

// Returns the name in files of a parameter such as "model.layers.3.mlp.up_proj.weight".
std::string file_name(const std::string& parameter, const CheckpointNames& names) {
  size_t dot = parameter.rfind('.'), begin = 0;
  std::string module = parameter.substr(0, dot), before;
  if (module.starts_with(kLayers)) {
    begin = module.find('.', kLayers.size()) + 1;
    before = names.layers + module.substr(kLayers.size(), begin - kLayers.size());
    module = module.substr(begin);
  }
  for (auto& [ours, theirs] : names.modules)
    if (module == ours) module = theirs;
  return before + module + parameter.substr(dot);
}

// Adds one tensor for each matrix of a stack.
void add_stack(std::vector<FileTensor>& tensors, const Param& p, const CheckpointNames& names) {
  std::string name = file_name(p.name, names);
  if (const size_t experts = name.find(".experts."); name.find("{}") == name.npos && experts != name.npos)
    name.insert(experts + std::string_view(".experts.").size(), "{}.");
  const size_t number = name.find("{}");
  require(number != name.npos, "weight_files: the name '{}' has no place for the number of an expert", name);
  for (int64_t e = 0; e < p.shape[0]; ++e) {
    FileTensor t{name, {&p}, {p.shape[1], p.shape[2]}, false, {{0, e * p.shape[1], 0, p.shape[1]}}};
    t.name.replace(number, 2, std::to_string(e));
    tensors.push_back(std::move(t));
  }
}

void lay_out(FileTensor& t, const CheckpointNames& names, int64_t head_size) {
  int64_t rows = 0;
  for (const Param* p : t.params) rows += p->shape[0];
  t.shape = t.params[0]->shape;
  t.shape[0] = rows;
  t.transposed = names.transposed && t.shape.rank() == 2 && t.params[0]->name.starts_with(kLayers);
  if (t.transposed) std::swap(t.shape[0], t.shape[1]);
  if (t.params.size() > 1 && names.joined == CheckpointNames::per_head) {
    int64_t heads = div_exact(t.params[0]->shape[0], head_size), row = 0;
    for (int64_t h = 0; h < heads; ++h)
      for (size_t i = 0; i < t.params.size(); ++i, row += head_size) t.runs.push_back({i, h * head_size, row, head_size});
    require(row == rows, "weight_files: '{}' is joined per head, its parts differ in heads", t.name);
    return;
  }
  int64_t row = 0;
  for (size_t i = 0; i < t.params.size(); row += t.params[i++]->shape[0]) t.runs.push_back({i, 0, row, t.params[i]->shape[0]});
}

}  // namespace

int64_t rows_of(const Param& p) { return p.shape.rank() < 2 ? p.shape.count() : p.shape.count() / p.shape[-1]; }

bool WeightFiles::constant(const std::string& name) const {
  for (const std::string& end : constants)
    if (name.ends_with(end)) return true;
  return false;
}

bool WeightFiles::is_further(const std::string& name) const {
  return std::any_of(further.begin(), further.end(), [&](const std::string& begin) { return name.starts_with(begin); });
}

WeightFiles weight_files(const ParamSet& params, const CheckpointNames& names, int64_t layers, int64_t head_size) {
  WeightFiles f{names.architecture, names.base, {}, {}, {names.constants.begin(), names.constants.end()}, {}};
  for (int64_t i = 0; i < names.further_layers; ++i) f.further.push_back(fmt::format("{}{}.", names.layers, layers + i));
  std::map<std::string, size_t> index_of;
  for (const Param& p : params.params()) {
    if (p.adapter) continue;
    if (p.tied) {
      f.copies.push_back(file_name(p.name, names));
      continue;
    }
    if (p.shape.rank() == 3) {
      add_stack(f.tensors, p, names);
      continue;
    }
    std::string name = file_name(p.name, names);
    auto [it, fresh] = index_of.try_emplace(name, f.tensors.size());
    if (fresh) f.tensors.push_back({name, {}, {}, false, {}});
    f.tensors[it->second].params.push_back(&p);
  }
  for (FileTensor& t : f.tensors)
    if (!t.of_stack()) lay_out(t, names, head_size);
  return f;
}

}  // namespace ravine

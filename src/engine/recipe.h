// Precision by rule: (path glob, op glob, role) -> arithmetic and rounding of that kernel call. Resolved once per path.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/observer.h"

namespace ravine {

// The ops that have an unfused definition, by the names that precision.unfused takes and Ctx::fused is asked by.
inline constexpr const char* kUnfusable[] = {"attention", "add_rms_norm", "add_layer_norm", "loss_head", "qkv",
                                             "gate_up",   "rope",         "swiglu",         "geglu"};

struct RecipeRule {
  std::string path = "*", op = "*";
  std::optional<Role> role;  // absent: any
  // Wider than the tensors: they are widened for the call; narrower: operands are rounded first.
  std::optional<DType> arithmetic;
  std::optional<DType> rounding;  // results are rounded to this type, in place
};

class Recipe {
 public:
  void add(RecipeRule rule) { rules_.push_back(std::move(rule)); }
  void unfuse(const std::string& op) { unfused_.insert(op); }
  bool empty() const { return rules_.empty(); }
  bool fused(const std::string& op) const { return !unfused_.count(op); }
  // The last rule that matches, or null.
  const RecipeRule* find(const std::string& path, const std::string& op, Role role) const;
  // Rules that matched no call that was looked for so far, by their place.
  std::vector<size_t> unmatched() const;

 private:
  std::vector<RecipeRule> rules_;
  std::set<std::string> unfused_;
  mutable std::map<std::tuple<std::string, std::string, Role>, const RecipeRule*> resolved_;
  mutable std::set<size_t> matched_;
};

}  // namespace ravine

// Precision rules: (path glob, op glob, role) -> arithmetic and rounding of a kernel call. Resolved once per path.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "engine/observer.h"

namespace ravine {

// The ops that have an unfused definition, by their names in precision.unfused and Ctx::fused().
inline constexpr const char* kUnfusable[] = {"attention", "add_rms_norm", "add_layer_norm", "loss_head", "qkv",
                                             "gate_up",   "rope",         "swiglu",         "geglu"};

struct RecipeRule {
  std::string path = "*", op = "*";
  std::optional<Role> role;  // absent: any role
  // The type in which the call computes; empty: the type of its tensors. If it is wider than the tensors, they are
  // widened for the call; if it is narrower, operands are rounded first.
  std::optional<DType> arithmetic;
  std::optional<DType> rounding;  // the type to which results are rounded, in place
};

class Recipe {
 public:
  void add(RecipeRule rule) { rules_.push_back(std::move(rule)); }
  void unfuse(const std::string& op) { unfused_.insert(op); }
  bool empty() const { return rules_.empty(); }
  bool fused(const std::string& op) const { return !unfused_.count(op); }
  // Returns the last rule that matches a kernel call (path, op, role); null if no rule matches.
  const RecipeRule* find(const std::string& path, const std::string& op, Role role) const;
  // Returns the indices of the precision rules that have matched no kernel call (call of find()) so far.
  std::vector<size_t> unmatched() const;

 private:
  std::vector<RecipeRule> rules_;
  std::set<std::string> unfused_;
  mutable std::map<std::tuple<std::string, std::string, Role>, const RecipeRule*> resolved_;
  mutable std::set<size_t> matched_;
};

}  // namespace ravine

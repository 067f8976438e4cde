// The declaration of a parameter: name, global shape, cuts, init, decay, unit. Init, import, sharding, optimizer,
// checkpoint and log all read it. Names are the names of Hugging Face's Llama and never change.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/shape.h"
#include "comm/mesh.h"
#include "engine/adapters.h"

namespace ravine {

// The division of a parameter: dim `dim` is divided evenly over the ranks of a mesh axis. If there are fewer parts than
// ranks (key/value heads), neighbouring ranks hold the same part.
struct Cut {
  int dim = 0;
  Axis axis = Axis::tensor;
  int most_parts = 0;  // 0: as many parts as ranks
};

struct Init {
  enum Kind : uint8_t { normal, uniform, zeros, ones } kind = normal;
  double std = 0.02;  // uniform: the half width, values are in [-std, std)
};

// The use of a parameter by kernels, which sets the type in which they read it while it is trained. matrix: the compute
// type. All others: the type of the master. vector: norms, biases; table: lookup tables; unit_matrix: its rows are
// scaled to length 1 first; wide_matrix: routers. For runs without training see parallel/inference_store.h.
enum class Use : uint8_t { matrix, vector, table, unit_matrix, wide_matrix };

// The form in which a parameter that is not trained is stored. usual: as Bucket::storage; compute: the compute type
// alone, for tables too; bf16: bf16 for any compute type; nf4: blocks of 4 bits (kernels/nf4.h). bf16 and nf4 are only
// for matrices that no op but linear layers reads.
enum class Kept : uint8_t { usual, compute, bf16, nf4 };

struct Unit;

// The settings of a run for one parameter (trained or frozen, storage, factors); all else in Param is the model's
// declaration. The decisions are made before the memory layout: by option groups (apply_rules), adapters
// (model/adapters.h), and runs without training.
struct ParamPolicy {
  bool trainable = true;
  // true: the parameter has no gradient, and a rule updates it after the step (correction biases of routers).
  bool updated_by_rule = false;
  Kept kept = Kept::usual;
  double lr_mult = 1, wd_mult = 1;
  int64_t from_step = 1;  // its first update; before it, the gradient is ignored
};

struct Param {
  std::string name;
  Shape shape;
  std::vector<Cut> cuts;
  Init init;
  bool decay = true;
  Use use = Use::matrix;
  Unit* unit = nullptr;
  int join = 0;  // parameters of a unit with the same number lie side by side, in order
  // The parameter that this one is tied to: both share one value; null: not tied. The gradient is separate, and is
  // added to the gradient of `tied` at the end of the step.
  Param* tied = nullptr;
  bool adapter = false;  // is saved in the files of an adapter, not of the model
  bool head = false;     // the matrix of the output product, whose rows are the vocabulary
  double active = 1;     // share of its elements that one token uses (experts: those chosen for the token)
  // The mesh axis whose ranks hold the same part of this parameter. They sum its gradients and divide its optimizer
  // state.
  Axis group = Axis::data;
  size_t index = 0;  // index among all parameters of the model
  ParamPolicy policy;
};

bool is_matrix(const Param& p);  // True if it takes part in matrix products.
// True if the values of a parameter change during a run. Other parameters need not be saved in checkpoints: the model
// folder has them.
inline bool changes(const Param& p) { return p.policy.trainable || p.policy.updated_by_rule; }
int64_t active_elements(const Param& p);  // number of elements that one token uses

// A unit (embedding, a layer, head): the parameters that are gathered, released, recomputed and saved together.
struct Unit {
  std::string name;
  std::vector<Param*> params;
  size_t index = 0;
};

// The settings of a LoRA adapter of one linear layer (Hu et al. 2021, as PEFT defines it): y = x W^T + scale *
// dropout(x) A^T B^T.
struct AdapterSpec {
  int64_t rank = 0;
  double scale = 1, dropout = 0;
  // The name of the adapted module in files. Parts of one joined layer with the same module share one A, and B covers
  // all their outputs.
  std::string module;
};

// Owns the declarations of a model's parameters and units, in order, without their values.
class ParamSet {
 public:
  Unit& unit(const std::string& name);
  // Declares one parameter of a unit that is not joined with others, and returns it.
  Param* add(Unit& unit, Param p);
  // Declares several parameters side by side in memory, joined along the outermost dim, so that one product computes
  // them all. Returns them.
  std::vector<Param*> add_joined(Unit& unit, std::vector<Param> params);

  const std::deque<Unit>& units() const { return units_; }
  std::deque<Unit>& units() { return units_; }
  const std::deque<Param>& params() const { return params_; }
  std::deque<Param>& params() { return params_; }
  Param* find(const std::string& name);
  // A function that returns the adapter of a module; empty: the module has none. Linear layers call it when they are
  // declared. If this member is not set, no module has an adapter.
  std::function<std::optional<AdapterSpec>(const std::string& module)> adapter_of;
  // Returns the adapters that linear layers have made from adapter_of.
  AdapterSet& adapters() { return adapters_; }
  const AdapterSet& adapters() const { return adapters_; }

  int64_t count() const;  // elements of all parameters, tied parameters once
  // Returns the number of elements that one token uses in matrix products. A tied table is included: it is the matrix
  // of the head.
  int64_t matrix_count() const;
  int64_t active_count() const;  // as count(), but of experts only those that a token is sent to

 private:
  std::deque<Unit> units_;
  std::deque<Param> params_;
  // Index of each parameter by name; tied parameters are not included.
  std::unordered_map<std::string, size_t> declared_;
  int next_join_ = 1;
  AdapterSet adapters_;
};

}  // namespace ravine

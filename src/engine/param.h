// A parameter is declared once: name, global shape, cuts, init, decay, unit. Init, import, sharding, optimizer, checkpoint and
// log all read that declaration. Names are those of Hugging Face's Llama and never change.
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

// Dim `dim` of the parameter is divided evenly over the ranks of a mesh axis. With fewer parts than ranks (key/value heads)
// neighbours hold the same part.
struct Cut {
  int dim = 0;
  Axis axis = Axis::tensor;
  int most_parts = 0;  // 0: as many as ranks
};

struct Init {
  enum Kind : uint8_t { normal, uniform, zeros, ones } kind = normal;
  double std = 0.02;  // uniform: the half width, values are of [-std, std)
};

// In which type kernels read it while it is trained: matrices in the compute type; vectors (norms, biases), lookup tables, matrices
// whose rows are brought to length 1 first, and those of routers (wide) in that of the master. (For running only:
// parallel/inference_store.h.)
enum class Use : uint8_t { matrix, vector, table, unit_matrix, wide_matrix };

// How the values are kept where nothing trains them. usual: as Bucket::storage says; compute: in the compute type alone, tables
// too; bf16: in it, whatever the compute type; nf4: in blocks of 4 bits (kernels/nf4.h). The last two are of matrices that
// linear layers alone read.
enum class Kept : uint8_t { usual, compute, bf16, nf4 };

struct Unit;

// The decisions of a run about one parameter; all else of Param is the model's declaration. They are made before the memory is
// laid out: groups of options (apply_rules), adapters (model/adapters.h), running without training.
struct ParamPolicy {
  bool trainable = true;
  bool updated_by_rule = false;  // has no gradient: a rule updates it after the step (corrections of routers)
  Kept kept = Kept::usual;
  double lr_mult = 1, wd_mult = 1;
  int64_t from_step = 1;  // the update that is its first: before it the gradient counts for nothing
};

struct Param {
  std::string name;
  Shape shape;
  std::vector<Cut> cuts;
  Init init;
  bool decay = true;
  Use use = Use::matrix;
  Unit* unit = nullptr;
  int join = 0;  // params of a unit with one number lie side by side, in order
  // The value is that one's; the gradient has its own place and is added to that one's at the end of the step.
  Param* tied = nullptr;
  bool adapter = false;     // stands in the files of an adapter, not in those of the model
  bool head = false;        // the matrix of the output product, whose rows are the vocabulary
  double active = 1;        // the part of it that a token meets (a stack of experts: those it is sent to)
  Axis group = Axis::data;  // the ranks along it hold the same of it: they sum its gradients and divide what is kept of it
  size_t index = 0;         // among all parameters of the model
  ParamPolicy policy;
};

bool is_matrix(const Param& p);  // takes part in matrix products
// Whether it changes while a run goes on; what does not may lie in the model folder alone.
inline bool changes(const Param& p) { return p.policy.trainable || p.policy.updated_by_rule; }
int64_t active_elements(const Param& p);  // that a token meets

// A unit (embedding, layer, head) is what is gathered, released, recomputed and checkpointed together.
struct Unit {
  std::string name;
  std::vector<Param*> params;
  size_t index = 0;
};

// What adapter a linear layer gets: LoRA (Hu et al. 2021) as PEFT defines it, y = x W^T + scale * dropout(x) A^T B^T.
struct AdapterSpec {
  int64_t rank = 0;
  double scale = 1, dropout = 0;
  std::string module;  // as files name it; parts of one joined layer that share it have one A, and B for all their outputs
};

// Owns the declarations of a model, in order.
class ParamSet {
 public:
  Unit& unit(const std::string& name);
  // A parameter of its own.
  Param* add(Unit& unit, Param p);
  // Several side by side in memory, outermost dim joined, so that one product sees them all.
  std::vector<Param*> add_joined(Unit& unit, std::vector<Param> params);

  const std::deque<Unit>& units() const { return units_; }
  std::deque<Unit>& units() { return units_; }
  const std::deque<Param>& params() const { return params_; }
  std::deque<Param>& params() { return params_; }
  Param* find(const std::string& name);
  // Asked by linear layers as they are declared, with the name of a module; empty: none has an adapter.
  std::function<std::optional<AdapterSpec>(const std::string& module)> adapter_of;
  // What they made of the answers.
  AdapterSet& adapters() { return adapters_; }
  const AdapterSet& adapters() const { return adapters_; }

  int64_t count() const;         // elements of all parameters, tied ones once
  int64_t matrix_count() const;  // elements that a token meets in matrix products (a tied table counts: it is the head)
  int64_t active_count() const;  // as count, but of experts those that a token is sent to

 private:
  std::deque<Unit> units_;
  std::deque<Param> params_;
  std::unordered_map<std::string, size_t> declared_;  // by name, as they were declared
  int next_join_ = 1;
  AdapterSet adapters_;
};

}  // namespace ravine

// Gradients that another program has stored: a folder of grad_N.npy (or NAME.npy), a .npz file, or a safetensors or
// torch file.
//
// Each array belongs to one parameter. A map says to which: map.json in the folder, or FILE.map.json beside a file, as
// {"grad_1": "model.embed_tokens.weight", ..}. Without a map the names of arrays are tried (NAME, grad.NAME, g.NAME,
// module.NAME, NAME.grad). Numbered arrays are taken in the order of their numbers, which begin at 0 or 1. Two orders
// are known: the order of the parameters, and Megatron's, which begins with the parameters with weight decay. If the
// shapes fit neither order, each shape must occur once. Any other folder is a UserError that asks for a map.
//
// An array has the shape of its parameter, for one step, or one more dim in front, for several steps.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/shape.h"

namespace ravine {

class GivenGradients {
 public:
  // A parameter that needs a gradient. decays: it is in the group with weight decay.
  struct Wanted {
    std::string name;
    Shape shape;
    bool decays = true;
  };
  // Reads names and shapes, and pairs them with the parameters. A mistake is a UserError.
  GivenGradients(const std::string& path, const std::vector<Wanted>& params);
  int64_t steps() const { return steps_; }
  const std::string& how() const { return how_; }  // the rule of the pairing: "by name", "numbered from 1, .."
  // Reads the gradient of a parameter at a step (from 0) as f64. A value that is not finite is a UserError.
  std::vector<double> read(size_t param, int64_t step) const;

  // An array of the folder or file, read when needed.
  struct Array {
    std::string name, where;
    DType dtype = DType::f32;
    Shape shape;
    std::function<std::vector<std::byte>(int64_t offset, int64_t bytes)> read;
  };

 private:
  void pair(const std::vector<Wanted>& params);
  bool pair_by_map(const std::vector<Wanted>& params);
  bool pair_by_name(const std::vector<Wanted>& params);
  void pair_by_number(const std::vector<Wanted>& params);
  int64_t steps_of(const Array& a, const Wanted& w) const;
  std::string path_, map_path_, how_;
  std::vector<Array> arrays_;
  std::vector<size_t> of_;  // by parameter: its array
  int64_t steps_ = 0;
};

}  // namespace ravine

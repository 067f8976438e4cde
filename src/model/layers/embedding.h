// The embedding: rows of a table by ids, with its adapter.
#pragma once
#include <string>

#include "engine/ops/embedding.h"

namespace ravine {

class Embedding {
 public:
  // Declares the parameters of an embedding: <name>.weight [vocabulary, hidden]. If set.adapter_of returns an adapter,
  // also <name>.lora_embedding_A.weight [vocabulary, rank], which begins at zero, and <name>.lora_embedding_B.weight
  // [hidden, rank]. PEFT's A is the transpose. padding: the id whose row gets no gradient; -1: none.
  Embedding(ParamSet& set, Unit& unit, const std::string& name, int64_t vocabulary, int64_t hidden, int64_t padding,
            double init_std);
  // Returns the embeddings of the batch's ids: scale * rows of the table, [N,C] in the residual type. An adapter adds
  // its scale * A[ids] B^T, without dropout.
  Tensor operator()(Ctx& c, double scale) const;
  Param* weight() const { return weight_; }

 private:
  int64_t padding_;
  Param *weight_, *a_ = nullptr, *b_ = nullptr;
  double scale_ = 1;
};

}  // namespace ravine

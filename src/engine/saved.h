// Seam S3: the tensors kept for the backward pass, and how they are kept: resident or rebuilt. Policies are in
// parallel/.
#pragma once
#include <memory>
#include <string>

#include "engine/tensor.h"

namespace ravine {

// A tensor that is kept (or recomputed) for the backward pass. get() returns it with its old id. The closure that holds
// it frees it.
class Saved {
 public:
  struct Impl {
    virtual ~Impl() = default;
    virtual Tensor get(Ctx& c) = 0;
  };
  Saved() = default;
  explicit Saved(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  Tensor get(Ctx& c) const { return impl_ ? impl_->get(c) : Tensor(); }
  explicit operator bool() const { return impl_ != nullptr; }

 private:
  std::shared_ptr<Impl> impl_;
};

// Base class of the policies that decide how tensors are kept for the backward pass. keep() is called once per tensor
// and per op that needs the tensor in its backward pass.
class Stash {
 public:
  virtual ~Stash() = default;
  virtual Saved keep(const Tensor& t) = 0;
  // True if the block at this path keeps only its input, and runs its forward pass again before its backward pass.
  virtual bool recompute_block(const std::string& path) const = 0;
};

}  // namespace ravine

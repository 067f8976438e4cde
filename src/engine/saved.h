// Seam S3: what is kept for backward, and how: resident, rebuilt, later moved to host or disk. Policies are in parallel/.
#pragma once
#include <memory>
#include <string>

#include "engine/tensor.h"

namespace ravine {

// A kept tensor. get() gives it back, with the id it had. Freed with the closure that holds it.
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

// The policy. Called once per tensor and op that needs it in backward.
class Stash {
 public:
  virtual ~Stash() = default;
  virtual Saved keep(const Tensor& t) = 0;
  // Whether a block keeps its input only and runs forward again before its backward.
  virtual bool recompute_block(const std::string& path) const = 0;
};

}  // namespace ravine

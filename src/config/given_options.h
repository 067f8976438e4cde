// Gradients of another program in place of a run's own (train.given_gradients).
#pragma once
#include <string>

#include "config/bounds.h"
#include "config/choice.h"
#include "config/option.h"

namespace ravine {

// The state of given gradients: before clipping, so that the step clips them; or after it.
enum class GivenWhen : uint8_t { before_clip, after_clip };
constexpr auto names_of(GivenWhen) {
  using enum GivenWhen;
  return std::to_array<ValueName<GivenWhen>>({{before_clip, "before_clip"}, {after_clip, "after_clip"}});
}

struct GivenGradientsOption {
  std::string path;
  GivenWhen when = GivenWhen::before_clip;
  template <class V>
  void each(V&& v) {
    v("path", path, "folder of grad_N.npy, or a .npz or safetensors file", filled() & reads());
    v("when", when, "before_clip: the step clips these gradients; after_clip: they are clipped already");
  }
};

}  // namespace ravine

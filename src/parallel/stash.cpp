#include "parallel/stash.h"

#include "base/error.h"
#include "base/text.h"
#include "engine/ctx.h"

namespace ravine {
namespace {

struct Resident : Saved::Impl {
  explicit Resident(Tensor t) : tensor(std::move(t)) {}
  Tensor get(Ctx&) override { return tensor; }
  Tensor tensor;
};

struct Rebuilt : Saved::Impl {
  explicit Rebuilt(std::shared_ptr<const Rebuild> f) : again(std::move(f)) {}
  Tensor get(Ctx& c) override { return (*again)(c); }
  std::shared_ptr<const Rebuild> again;
};

class ArenaStash : public Stash {
 public:
  ArenaStash(bool rebuild, bool full) : rebuild_(rebuild), full_(full) {}
  Saved keep(const Tensor& t) override {
    if (rebuild_ && t.rebuild()) return Saved(std::make_shared<Rebuilt>(t.rebuild()));
    Tensor plain = t;
    plain.set_rebuild(nullptr);
    return Saved(std::make_shared<Resident>(std::move(plain)));
  }
  bool recompute_block(const std::string& path) const override { return full_ && glob_match("*layers.*", path); }

 private:
  bool rebuild_, full_;
};

}  // namespace

std::unique_ptr<Stash> make_stash(Recompute recompute) {
  return std::make_unique<ArenaStash>(recompute != Recompute::none, recompute == Recompute::full);
}

}  // namespace ravine

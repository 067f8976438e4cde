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
  ArenaStash(bool rebuild, bool full, std::optional<std::set<std::string>> layers)
      : rebuild_(rebuild), full_(full), layers_(std::move(layers)) {}
  Saved keep(const Tensor& t) override {
    if (rebuild_ && t.rebuild()) return Saved(std::make_shared<Rebuilt>(t.rebuild()));
    Tensor plain = t;
    plain.set_rebuild(nullptr);
    return Saved(std::make_shared<Resident>(std::move(plain)));
  }
  bool recompute_block(const std::string& path) const override {
    return full_ && (layers_ ? layers_->contains(path) : glob_match("*layers.*", path));
  }

 private:
  bool rebuild_, full_;
  std::optional<std::set<std::string>> layers_;
};

}  // namespace

std::unique_ptr<Stash> make_stash(Recompute recompute, std::optional<std::set<std::string>> layers) {
  return std::make_unique<ArenaStash>(recompute != Recompute::none, recompute == Recompute::full, std::move(layers));
}

}  // namespace ravine

#include "infer/model_ranks.h"

#include <cstring>

#include "model/decoder.h"

namespace ravine {

ModelRanks::ModelRanks(const LoadedModel& loaded, Ctx& c)
    : loaded_(loaded),
      c_(c),
      parts_(loaded.parts.empty() ? std::vector<BlockRange>{{0, loaded.model->blocks().size()}} : loaded.parts),
      stage_(*loaded.model, loaded.ranks(), parts_) {
  const Ranks& ranks = loaded.ranks();
  auto add = [&](Axis axis) {
    if (ranks.along(axis).size() > 1) groups_.push_back(&ranks.along(axis));
  };
  if (loaded.trainable) {
    loaded.trainable->attach(c);
    if (loaded.spread.options.zero == 3) add(Axis::data);
  }
  add(Axis::tensor);
  add(Axis::pipeline);
}

void ModelRanks::forward(const Batch& batch) {
  for (int chunk = 0; chunk < stage_.chunks(); ++chunk) {
    c_.begin(batch, false);
    stage_.forward(c_, chunk, false);
  }
  stage_.drain();
}

bool ModelRanks::decides() const {
  for (const Group* g : groups_) {
    const bool pipeline = g == &loaded_.ranks().along(Axis::pipeline);
    if (g->rank() != (pipeline ? g->size() - 1 : 0)) return false;
  }
  return true;
}

// Shares first over the tensor ranks of each stage, then from each rank of the last stage to the earlier stages.
void ModelRanks::share(void* data, int64_t bytes) const {
  if (bytes == 0) return;
  std::vector<std::byte> all;
  for (const Group* g : groups_) {
    const bool pipeline = g == &loaded_.ranks().along(Axis::pipeline);
    all.resize(static_cast<size_t>(g->size() * bytes));
    g->all_gather(data, all.data(), bytes).wait();
    std::memcpy(data, all.data() + (pipeline ? g->size() - 1 : 0) * bytes, static_cast<size_t>(bytes));
  }
}

std::string ModelRanks::share_text(const std::string& text) const {
  auto size = static_cast<int64_t>(text.size());
  share(&size, sizeof size);
  std::string out = decides() ? text : std::string(static_cast<size_t>(size), ' ');
  share(out.data(), size);
  return out;
}

bool ModelRanks::any(bool mine) const {
  for (const Group* g : groups_) mine = ravine::any(*g, mine);
  return mine;
}

std::vector<int64_t> ModelRanks::layers() const {
  const Mesh& mesh = loaded_.ranks().mesh();
  std::vector<int64_t> out;
  for (size_t p = 0; p < parts_.size(); ++p) {
    if (static_cast<int>(p) % mesh.pipeline != loaded_.ranks().at().pipeline) continue;
    for (size_t b = parts_[p].begin; b < parts_[p].end; ++b)
      if (b > 0 && b + 1 < loaded_.model->blocks().size()) out.push_back(static_cast<int64_t>(b) - 1);
  }
  return out;
}

bool ModelRanks::invalidates_cache(int64_t before, int64_t now) const {
  const DecoderSpec* spec = loaded_.model->decoder();
  return before > 0 && spec && spec->rope && spec->rope->turns_between(before, now);
}

bool ModelRanks::turns(int64_t before, int64_t now) const {
  const DecoderSpec* spec = loaded_.model->decoder();
  return invalidates_cache(before, now) || (spec && spec->rope && spec->rope->grows_between(before, now));
}

CacheWidths ModelRanks::cache_widths() const {
  const DecoderSpec* spec = loaded_.model->decoder();
  require(spec != nullptr, "model ranks: only decoders have a cache");
  return ravine::cache_widths(spec->attention, loaded_.ranks().mesh().tensor);
}

}  // namespace ravine

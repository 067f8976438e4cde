#include "parallel/stage.h"

#include <algorithm>
#include <limits>
#include <numeric>

#include "base/text.h"
#include "model/decoder.h"
#include "parallel/fit.h"

namespace ravine {

std::vector<BlockRange> split_model(const Model& model, int parts, const std::vector<int64_t>& list) {
  const int64_t layers = layers_of(model);
  require(layers >= 0, "stage: a model has an embedding and a head");
  std::vector<int64_t> counts = list;
  if (counts.empty() && parts == 1) counts = {layers};
  if (counts.empty()) {
    if (parts > layers && parts > 1)
      throw UserError(fmt::format("{} parts of a pipeline", parts), "parallel.pipeline, parallel.virtual",
                      fmt::format("every part needs at least one of the {} layers", layers),
                      fmt::format("use at most {} parts", layers));
    for (int n : split_layers(std::vector<double>(static_cast<size_t>(layers), 1.0), parts)) counts.push_back(n);
  }
  if (static_cast<int>(counts.size()) != parts || std::accumulate(counts.begin(), counts.end(), int64_t{0}) != layers)
    throw UserError(fmt::format("parallel.stage_layers is [{}]", fmt::join(counts, ", ")), "parallel.stage_layers",
                    fmt::format("it needs a number of layers for each of the {} parts, {} in all", parts, layers),
                    "correct the list, or leave it out");
  std::vector<BlockRange> out;
  size_t at = 0;
  for (int p = 0; p < parts; ++p) {
    size_t end = at + static_cast<size_t>(counts[static_cast<size_t>(p)]) + (p == 0) + (p + 1 == parts);
    out.push_back({at, end});
    at = end;
  }
  return out;
}

std::set<std::string> first_layers(const Model& model, const std::vector<BlockRange>& parts,
                                   const std::vector<int64_t>& counts) {
  if (counts.size() != parts.size())
    throw UserError(fmt::format("train.recompute_layers is [{}]", fmt::join(counts, ", ")), "train.recompute_layers",
                    fmt::format("it needs a number of layers for each of the {} parts of the pipeline", parts.size()),
                    "correct the list, or leave it out");
  std::set<std::string> out;
  for (size_t p = 0; p < parts.size(); ++p) {
    int64_t left = counts[p];
    for (size_t b = parts[p].begin; b < parts[p].end && left > 0; ++b)
      if (glob_match("*layers.*", model.blocks()[b].path)) out.insert(model.blocks()[b].path), --left;
  }
  return out;
}

std::vector<int> stages_of_units(const Model& model, const std::vector<BlockRange>& parts, int stages) {
  std::vector<int> out(model.params().units().size(), 0);
  for (size_t p = 0; p < parts.size(); ++p)
    for (size_t b = parts[p].begin; b < parts[p].end; ++b) out[model.blocks()[b].unit->index] = static_cast<int>(p) % stages;
  return out;
}

Stage::Stage(Model& model, const Ranks& ranks, std::vector<BlockRange> parts)
    : model_(model), ranks_(ranks), parts_(std::move(parts)) {}

void Stage::send(Message& slot, Tensor t, const Group& group, int to) {
  slot.pending.wait();
  slot.tensor = std::move(t);
  slot.pending = group.send(slot.tensor.view().data, slot.tensor.view().bytes(), to);
}

Tensor Stage::receive(Ctx& c, const Group& group, int from) {
  Tensor t = c.empty({c.stream_rows(), model_.facts().hidden}, c.types().residual);
  group.receive(t.view().data, t.view().bytes(), from).wait();
  return t;
}

bool Stage::pools(Ctx& c) const {
  const DecoderSpec* spec = model_.decoder();
  return parts_.size() > 1 && spec && spec->moe && spec->moe->losses.pools() && !c.batch().labels.absent();
}

// Host work: scores and counts of each expert, and the number of tokens, as f64.
void Stage::send_pool(Ctx& c, Message& slot, const RouterPool& pool, const Group& group, int to) {
  const int64_t experts = model_.decoder()->moe->routing.experts;
  Tensor t = c.empty({2 * experts + 1}, DType::f64);
  if (auto* values = t.view().as<double>()) {
    std::fill_n(values, 2 * experts + 1, 0.0);
    std::copy(pool.scores.begin(), pool.scores.end(), values);
    std::copy(pool.counts.begin(), pool.counts.end(), values + experts);
    values[2 * experts] = pool.tokens;
  }
  send(slot, std::move(t), group, to);
}

// Host work: sums over experts, as they were sent.
RouterPool Stage::receive_pool(Ctx& c, const Group& group, int from) {
  const int64_t experts = model_.decoder()->moe->routing.experts;
  const Tensor t = c.empty({2 * experts + 1}, DType::f64);
  group.receive(t.view().data, t.view().bytes(), from).wait();
  RouterPool pool;
  if (const auto* values = t.view().as<double>()) {
    pool.scores.assign(values, values + experts), pool.counts.assign(values + experts, values + 2 * experts);
    pool.tokens = values[2 * experts];
  }
  return pool;
}

// Adds the router loads of the layers of this chunk. Block 0 is the embedding, so layer i is block i + 1.
void Stage::add_layers(Ctx& c, int chunk, RouterPool& pool) const {
  const BlockRange& blocks = parts_[static_cast<size_t>(part(chunk))];
  const auto begin = static_cast<int64_t>(blocks.begin) - 1,
             end = last(chunk) ? std::numeric_limits<int64_t>::max() : static_cast<int64_t>(blocks.end) - 1;
  for (const auto& [layer, load] : c.routers())
    if (layer >= begin && layer < end) pool.add(load);
}

Stage::Micro Stage::forward(Ctx& c, int chunk, bool training) {
  Micro m;
  Flow flow;
  RouterPool pool;
  if (!first(chunk)) {
    flow.x = receive(c, ranks_.along(Axis::pipeline), stage_of(part(chunk) - 1));
    if (pools(c)) pool = receive_pool(c, ranks_.along(Axis::pipeline), stage_of(part(chunk) - 1));
    m.in = flow.x.ref();
  }
  const BlockRange& blocks = parts_[static_cast<size_t>(part(chunk))];
  flow = model_.forward(c, blocks.begin, blocks.end, std::move(flow));
  if (pools(c)) add_layers(c, chunk, pool);
  if (!last(chunk)) {
    m.out_x = flow.x.ref();
    Tensor sum = std::move(flow.x);
    if (flow.branch) {
      m.out_branch = flow.branch.ref();
      Tensor to = sum.unique() ? sum : c.empty(sum.ref().shape, sum.dtype());
      c.call(Add{sum.view(), flow.branch.view(), to.view()});
      sum = std::move(to);
      flow.branch = Tensor();
    }
    send(ahead_, std::move(sum), ranks_.along(Axis::pipeline), stage_of(part(chunk) + 1));
    if (pools(c)) send_pool(c, pool_ahead_, pool, ranks_.along(Axis::pipeline), stage_of(part(chunk) + 1));
  } else if (pools(c)) {
    c.set_router_pool(std::move(pool));
  }
  if (training) m.state = c.suspend();
  return m;
}

void Stage::backward(Ctx& c, int chunk, Micro m) {
  c.resume(std::move(m.state));
  if (!last(chunk)) {
    Tensor d = receive(c, ranks_.back(), stage_of(part(chunk) + 1));
    if (pools(c)) c.set_router_pool(receive_pool(c, ranks_.back(), stage_of(part(chunk) + 1)));
    if (m.out_branch.id) {
      Tensor branch = d;
      if (m.out_branch.dtype != d.dtype()) {
        branch = c.empty(m.out_branch.shape, m.out_branch.dtype);
        c.call(Cast{d.view(), branch.view()});
      }
      c.grads().put(m.out_branch, std::move(branch));
    }
    c.grads().put(m.out_x, std::move(d));
  }
  if (first(chunk)) return c.backward();
  c.backward({m.in});
  send(back_, c.grads().take(m.in), ranks_.back(), stage_of(part(chunk) - 1));
  if (pools(c)) send_pool(c, pool_back_, c.router_pool(), ranks_.back(), stage_of(part(chunk) - 1));
}

void Stage::drain() {
  for (Message* m : {&ahead_, &back_, &pool_ahead_, &pool_back_}) {
    m->pending.wait();
    m->tensor = Tensor();
  }
}

}  // namespace ravine

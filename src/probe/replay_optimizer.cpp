#include "probe/replay_optimizer.h"

#include <cmath>
#include <cstring>

#include "files/safetensors.h"
#include "io/given_gradients.h"
#include "io/slices.h"
#include "kernels/backend.h"
#include "model/vocabulary.h"
#include "optim/class_schedules.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "parallel/flat_store.h"
#include "parallel/stash.h"
#include "step/arithmetic.h"

namespace ravine {
namespace {

// Host work: returns elements [first, first + count) of a tensor of a file as f64.
std::vector<double> numbers(const SafetensorsReader& file, const TensorInfo& tensor, int64_t first, int64_t count) {
  std::vector<double> out(static_cast<size_t>(count));
  const std::byte* from = file.bytes(tensor).data() + first * size_of(tensor.dtype);
  visit_float(tensor.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count; ++i) {
      T x;
      std::memcpy(&x, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      if constexpr (std::is_same_v<T, double>)
        out[static_cast<size_t>(i)] = x;
      else
        out[static_cast<size_t>(i)] = static_cast<double>(static_cast<float>(x));
    }
  });
  return out;
}

// Host work: copies numbers from the replay to the store.
void put(const std::vector<double>& from, int64_t first, double scale, const TensorView& to) {
  visit_float(to.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < to.count(); ++i) {
      const double x = from[static_cast<size_t>(first + i)] * scale;
      if constexpr (std::is_same_v<T, double>)
        to.as<T>()[i] = x;
      else
        to.as<T>()[i] = static_cast<T>(static_cast<float>(x));
    }
  });
}

std::string shape_of_steps(int ranks, const Shape& shape) {
  std::string dims = ranks > 1 ? fmt::format("[{}, S", ranks) : "[S";
  for (int d = 0; d < shape.rank(); ++d) dims += fmt::format(", {}", shape[d]);
  return dims + "]";
}

Shape with_dims(std::initializer_list<int64_t> first, const Shape& rest) {
  Shape out;
  for (int64_t d : first) out.push_back(d);
  for (int d = 0; d < rest.rank(); ++d) out.push_back(rest[d]);
  return out;
}

// Declares the parameters in order, many per unit, because each buffer of a unit takes whole pages.
void declare(ParamSet& set, const ReplayInput& input) {
  constexpr size_t kOfUnit = 64;
  Unit* unit = nullptr;
  for (const ReplayParam& p : input.params) {
    if (set.params().size() % kOfUnit == 0) unit = &set.unit(p.name);
    const bool matrix = p.shape.rank() >= 2;
    Param param{.name = p.name, .shape = p.shape};
    if (p.shape.rank() == 0) param.shape = {1};
    param.decay = matrix;
    // A record has names only, so tables and heads are recognised by name.
    param.use = !matrix ? Use::vector : p.name.find("embed") != std::string::npos ? Use::table : Use::matrix;
    param.head = p.name == kHead;
    set.add(*unit, std::move(param));
  }
}

}  // namespace

ReplayInput read_replay_input(const std::string& path, int rank, int ranks) {
  const SafetensorsReader file(path);
  ReplayInput input{.steps = -1};
  auto wrong = [&](const std::string& what, const std::string& rule, const std::string& fix) {
    throw UserError(what, path, rule, fix);
  };
  auto floating = [&](const TensorInfo& t) {
    if (!is_float(t.dtype))
      wrong(fmt::format("'{}' is {}", t.name, name(t.dtype)), "numbers are f64, f32, bf16 or f16", "store it so");
  };
  for (const TensorInfo& t : file.tensors()) {
    const bool param = t.name.starts_with("p.") && t.name.size() > 2;
    if (!param && !t.name.starts_with("g.") && t.name != "lrs")
      wrong(fmt::format("'{}' in the file", t.name), "it holds p.NAME, g.NAME and lrs", "remove it");
    floating(t);
    if (t.name.starts_with("g.") && !file.find("p." + t.name.substr(2)))
      wrong(fmt::format("'{}' has no parameter", t.name), "a gradient g.NAME belongs to p.NAME",
            fmt::format("add 'p.{}' or remove the gradient", t.name.substr(2)));
    if (!param) continue;
    const std::string name = t.name.substr(2);
    const TensorInfo* grad = file.find("g." + name);
    if (!grad) wrong(fmt::format("'{}' has no gradients", t.name), "each p.NAME has g.NAME", fmt::format("add 'g.{}'", name));
    const int more = grad->shape.rank() - t.shape.rank(), cut = ranks > 1 || more == 2 ? 2 : 1;
    bool fits = more == cut;
    for (int d = 0; fits && d < t.shape.rank(); ++d) fits = grad->shape[more + d] == t.shape[d];
    if (fits && cut == 2 && grad->shape[0] != ranks)
      wrong(fmt::format("'{}' is {}", grad->name, grad->shape.text()),
            fmt::format("it holds gradients of {} ranks, and {} run", grad->shape[0], ranks),
            fmt::format("start it with mpirun -n {}", grad->shape[0]));
    if (!fits)
      wrong(fmt::format("'{}' is {}", grad->name, grad->shape.text()),
            fmt::format("it must be {}, one gradient of p.{} for each step{}", shape_of_steps(ranks, t.shape), name,
                        ranks > 1 ? " of each rank" : ""),
            "store it so");
    const int64_t steps = grad->shape[cut - 1], size = t.shape.count();
    if (size == 0) wrong(fmt::format("'{}' is empty", t.name), "a parameter has numbers", "remove it and its gradients");
    if (input.steps >= 0 && steps != input.steps)
      wrong(fmt::format("'{}' has {} steps, others {}", grad->name, steps, input.steps), "all have the same", "cut the longer");
    input.steps = steps;
    input.params.push_back({.name = name,
                            .shape = t.shape,
                            .values = numbers(file, t, 0, size),
                            .grads = numbers(file, *grad, cut == 2 ? rank * steps * size : 0, steps * size)});
    for (const double x : input.params.back().values)
      if (!std::isfinite(x)) wrong(fmt::format("'{}' holds {}", t.name, x), "an update begins with numbers", "mend the file");
  }
  if (input.params.empty()) wrong("no parameters in the file", "it holds p.NAME, g.NAME and lrs", "add them");
  if (const TensorInfo* lrs = file.find("lrs")) {
    if (lrs->shape.rank() != 1 || lrs->shape[0] != input.steps)
      wrong(fmt::format("'lrs' is {}", lrs->shape.text()), fmt::format("one rate for each of {} steps", input.steps),
            "store it so, or leave it out for optimizer.lr and the schedule");
    input.lrs = numbers(file, *lrs, 0, input.steps);
    for (double lr : input.lrs)
      if (!(lr >= 0 && lr <= kMostRate))
        wrong(fmt::format("'lrs' holds {}", lr), fmt::format("a rate is at least 0 and at most {}", kMostRate), "mend it");
  }
  return input;
}

ReplayInput read_replay_input(const std::string& path, const std::string& gradients, bool decay_all) {
  const SafetensorsReader file(path);
  ReplayInput input;
  std::vector<GivenGradients::Wanted> wanted;
  for (const TensorInfo& t : file.tensors()) {
    if (t.name.starts_with("g.") || t.name == "lrs" || !is_float(t.dtype) || t.shape.count() == 0) continue;
    const std::string name = t.name.starts_with("p.") ? t.name.substr(2) : t.name;
    input.params.push_back({.name = name, .shape = t.shape, .values = numbers(file, t, 0, t.shape.count()), .grads = {}});
    for (const double x : input.params.back().values)
      if (!std::isfinite(x))
        throw UserError(fmt::format("'{}' holds {}", t.name, x), path, "an update begins with numbers", "mend the file");
    wanted.push_back({name, t.shape, decay_all || t.shape.rank() >= 2});
  }
  if (input.params.empty()) throw UserError("no parameters in the file", path, "it holds p.NAME or NAME", "add them");
  const GivenGradients given(gradients, wanted);
  input.steps = given.steps();
  for (size_t i = 0; i < input.params.size(); ++i)
    for (int64_t s = 0; s < input.steps; ++s) {
      const std::vector<double> g = given.read(i, s);
      input.params[i].grads.insert(input.params[i].grads.end(), g.begin(), g.end());
    }
  if (const TensorInfo* lrs = file.find("lrs"); lrs && is_float(lrs->dtype) && lrs->shape.count() >= input.steps)
    input.lrs = numbers(file, *lrs, 0, input.steps);
  input.paired = given.how();
  return input;
}

std::vector<ReplayTensor> replay_optimizer(const ReplayInput& input, const Config& config, Backend backend,
                                           const Ranks& ranks) {
  OptimizerOptions options = config.optimizer;
  if (!config.sources.contains("optimizer.clip_norm")) options.clip_norm = 0;
  if (options.type == OptimizerType::adafactor && options.relative_step && !input.lrs.empty())
    throw UserError("'lrs' in the file, and optimizer.relative_step is true", "optimizer.relative_step",
                    "adafactor computes its own learning rate if relative_step is true (the default)",
                    "set optimizer.relative_step=false, or leave out lrs");
  const Arithmetic arithmetic = choose_arithmetic(config.precision, backend, common_arithmetic(ranks.all()));
  const Types types = Types::of(arithmetic.compute);
  const Kernels kernels = backend_kernels(backend, arithmetic.products);
  ParamSet set;
  declare(set, input);
  HeapArena arena;
  FlatStore store(set, types, DeviceKind::cpu, {.ranks = &ranks});
  const std::unique_ptr<Stash> stash = make_stash(Recompute::none);
  Ctx::Setup setup;
  setup.kernels = &kernels, setup.arena = &arena, setup.store = &store, setup.grads = &store, setup.stash = stash.get(),
  setup.types = types;
  for (Axis axis : kAxes) setup.groups[static_cast<size_t>(axis)] = &ranks.along(axis);
  Ctx c(setup);
  store.attach(c);
  Optimizer optimizer(options, store, DeviceKind::cpu, 0, 1, nullptr, ranks.size());

  std::vector<std::vector<std::byte>> traces(input.params.size());
  auto note = [&] {
    for (const Param& p : set.params()) {
      const TensorView v = store.master(p);
      const std::byte* from = v.as<std::byte>();
      traces[p.index].insert(traces[p.index].end(), from, from + v.bytes());
    }
  };
  for (const Param& p : set.params()) put(input.params[p.index].values, 0, 1, store.master(p));
  store.refresh_copies(c);
  note();
  const int64_t length = config.sources.contains("train.steps") ? config.train.steps : input.steps;
  for (int64_t s = 0; s < input.steps; ++s) {
    c.begin_step(s + 1);
    store.keep_unreduced(optimizer.wants_unreduced());
    for (const Unit& u : set.units()) store.open_grads(c, u);
    for (const Param& p : set.params()) {
      bool accumulate = false;
      const TensorView g = store.add_to_grad(p, accumulate);
      put(input.params[p.index].grads, s * g.count(), 1.0 / ranks.size(), g);
    }
    for (const Unit& u : set.units()) store.close_grads(c, u);
    c.set_phase(Phase::update);
    store.finish_grads(c);
    const double norm = optimizer.grad_norm(c, ranks.all());
    if (!std::isfinite(norm))
      throw UserError(fmt::format("gradients of step {} are not finite", s + 1), "--input", "an update needs numbers",
                      "mend the file; a training run stops at such a step");
    UpdateRates rates = formula_rate(config.schedule, options.lr, length, s);
    rates.betas = class_betas(config.schedule, s);
    if (!input.lrs.empty()) rates.lr = input.lrs[static_cast<size_t>(s)];
    optimizer.update(c, rates, norm, {});
    store.end_step();
    note();
  }

  std::vector<ReplayTensor> out;
  for (const Param& p : set.params()) {
    const std::vector<std::byte>& mine = traces[p.index];
    std::vector<std::byte> all(mine.size() * static_cast<size_t>(ranks.size()));
    ranks.all().all_gather(mine.data(), all.data(), static_cast<int64_t>(mine.size())).wait();
    if (!ranks.first()) continue;
    const Shape& shape = input.params[p.index].shape;
    out.push_back(
        {.name = "p." + p.name,
         .dtype = store.master(p).dtype,
         .shape = ranks.size() > 1 ? with_dims({ranks.size(), input.steps + 1}, shape) : with_dims({input.steps + 1}, shape),
         .data = std::move(all)});
  }
  if (!ranks.first()) return out;
  for (size_t b = 0; b < store.buckets().size(); ++b)
    for (const Optimizer::StatePiece& s : optimizer.states(b, Optimizer::Of::kept)) {
      const std::string name = fmt::format("state.{}.{}", s.state, s.param->name);
      if (out.back().name != name)
        out.push_back({.name = name,
                       .dtype = s.view.dtype,
                       .shape = s.global,
                       .data = std::vector<std::byte>(static_cast<size_t>(s.global.count() * size_of(s.view.dtype)))});
      const int64_t size = size_of(s.view.dtype);
      const Box whole{std::vector<int64_t>(static_cast<size_t>(s.global.rank())), s.global};
      each_shared_run({s.begin, s.view.shape}, whole, [&](const Run& run) {
        std::memcpy(out.back().data.data() + run.to * size, s.view.as<std::byte>() + run.from * size,
                    static_cast<size_t>(run.count * size));
      });
    }
  return out;
}

}  // namespace ravine

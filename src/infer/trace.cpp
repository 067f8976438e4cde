#include "infer/trace.h"

#include <algorithm>
#include <map>
#include <span>

#include "data/fixed_batches.h"
#include "files/safetensors.h"
#include "io/file_rows.h"
#include "model/adapters.h"
#include "model/decoder.h"
#include "model/vocabulary.h"
#include "parallel/stash.h"
#include "parallel/whole_units.h"

namespace ravine {
namespace {

std::vector<int64_t> read_ids(const SafetensorsReader& file, const TensorInfo& t) {
  auto bytes = file.bytes(t);
  std::vector<int64_t> out(static_cast<size_t>(t.shape.count()));
  auto take = [&](auto zero) {
    using T = decltype(zero);
    for (size_t i = 0; i < out.size(); ++i) {
      T x;
      std::memcpy(&x, bytes.data() + i * sizeof(T), sizeof(T));
      out[i] = static_cast<int64_t>(x);  // NOLINT(bugprone-signed-char-misuse): a number
    }
  };
  switch (t.dtype) {
    case DType::i64:
      take(int64_t{});
      break;
    case DType::i32:
      take(int32_t{});
      break;
    case DType::i16:
      take(int16_t{});
      break;
    case DType::i8:
      take(int8_t{});
      break;
    case DType::u8:
    case DType::boolean:
      take(uint8_t{});
      break;
    default:
      throw UserError("tensor '" + t.name + "' is " + std::string(name(t.dtype)), file.path(), "it must hold integers",
                      "store it as int64");
  }
  return out;
}

// Copies rows of any floating type as type `to`.
NamedTensor copy_out(const std::string& name, const TensorView& v, const Shape& shape, DType to) {
  NamedTensor out{name, to, shape, std::vector<std::byte>(static_cast<size_t>(shape.count() * size_of(to)))};
  Kernels ref = ref_kernels();
  TensorView target = view_of(out.data.data(), to, {v.rows(), v.cols()});
  ref.of<Cast>().run(Cast{v, target}, nullptr);
  return out;
}

// Copies the hidden state (x + branch) after every block that runs here, by the number of the block.
class HiddenStates : public Observer {
 public:
  explicit HiddenStates(DType to) : to_(to) {}
  void begin(size_t block) { next_ = block; }  // number of the next block
  void flow(Ctx& c, std::string_view, const Flow& f) override {
    if (!f.x) return;
    Tensor sum = c.empty({f.x.rows(), f.x.cols()}, c.types().residual);
    if (f.branch)
      c.call(Add{f.x.view(), f.branch.view(), sum.view()});
    else
      c.call(Cast{f.x.view(), sum.view()});
    keep(next_++, sum.view());
  }
  void keep(size_t block, const TensorView& v) { states[block] = copy_out("", v, {v.rows(), v.cols()}, to_); }
  std::map<size_t, NamedTensor> states;

 private:
  DType to_;
  size_t next_ = 0;
};

// Copies the experts that each router chose, by the number of the layer.
class RouterChoices : public Observer {
 public:
  // Host work: copies the numbers of experts.
  void after(const CallInfo& info) override {
    if (info.op != std::string_view(RouterChoice::name)) return;
    for (const NamedView& t : info.tensors)
      if (t.name == std::string_view("chosen")) {
        const auto* bytes = static_cast<const std::byte*>(t.view.data);
        chosen[layer_number(info.path)] = {"", DType::i32, t.view.shape, {bytes, bytes + t.view.bytes()}};
      }
  }
  std::map<int64_t, NamedTensor> chosen;

 private:
  // Returns N of a path model.layers.N.mlp.
  static int64_t layer_number(std::string_view path) {
    constexpr std::string_view kLayers = "layers.";
    const size_t at = path.find(kLayers);
    require(at != path.npos, "trace: a router at '{}' is in no layer", path);
    return std::stoll(std::string(path.substr(at + kLayers.size())));
  }
};

struct RowRange {
  int64_t begin = 0, count = 0;
};

// Returns the rows of a data rank. A rank without rows runs the last row without labels, because the other ranks wait
// for it; its results are dropped.
RowRange rows_of(int64_t rows, int rank, int ranks) {
  const int64_t begin = rows * rank / ranks;
  return {begin, rows * (rank + 1) / ranks - begin};
}

TraceInput part_of(const TraceInput& in, RowRange rows) {
  TraceInput out;
  const bool idle = rows.count == 0;
  if (idle) rows = {in.rows - 1, 1};
  out.rows = rows.count, out.columns = in.columns;
  const int64_t begin = rows.begin * in.columns, end = begin + rows.count * in.columns;
  auto part = [&](const std::vector<int32_t>& v) {
    return v.empty() ? v : std::vector<int32_t>(v.begin() + begin, v.begin() + end);
  };
  out.ids = part(in.ids), out.positions = part(in.positions), out.labels = part(in.labels);
  if (idle) std::fill(out.labels.begin(), out.labels.end(), -100);
  for (Segment s : in.segments) {
    if (s.q_begin < begin || s.q_begin >= end) continue;
    s.q_begin -= begin, s.k_begin -= begin;
    out.segments.push_back(s);
  }
  return out;
}

class TraceRun {
 public:
  TraceRun(LoadedModel& loaded, const TraceInput& in, const Recipe& recipe, TraceOutput& out)
      : loaded_(loaded),
        model_(*loaded.model),
        store_(*loaded.trainable),
        ranks_(loaded.ranks()),
        facts_(model_.facts()),
        learned_(loaded.adapter.empty() ? model_.files() : adapter_files(model_)),
        out_(out),
        whole_(in),
        mine_(part_of(in, rows_of(in.rows, ranks_.at().data, ranks_.mesh().data))),
        stash_(make_stash(Recompute::cheap)),
        hidden_(to()),
        stage_(model_, ranks_, loaded.parts) {
    setup_ = loaded.setup(arena_);
    setup_.stash = stash_.get();
    setup_.recipe = &recipe;
    batch_.tokens = mine_.rows * mine_.columns;
    batch_.ids = view(mine_.ids);
    batch_.positions = view(mine_.positions);
    for (size_t i = 0; i < mine_.ids.size(); ++i) sequences_.push_back(static_cast<int64_t>(i) / mine_.columns);
    batch_.sequences = view_of(sequences_.data(), DType::i64, {batch_.tokens});
    batch_.segments = mine_.segments;
    for (const Segment& s : mine_.segments) {
      const auto first = mine_.positions.begin() + s.q_begin;
      batch_.lengths.push_back(std::max<int64_t>(s.k_count, *std::max_element(first, first + s.q_count) + 1));
    }
    batch_.max_position = *std::max_element(in.positions.begin(), in.positions.end()) + 1;
    const int64_t valid = std::count_if(in.labels.begin(), in.labels.end(), [](int32_t l) { return l >= 0; });
    batch_.grad_scale = valid > 0 ? 1.0 / static_cast<double>(valid) : 0.0;
  }
  ~TraceRun() { store_.end_step(); }  // also after an exception: the store outlives the arena

  void declare(bool backward) {
    out_.declare("logits", to(), {whole_.rows, whole_.columns, facts_.vocabulary});
    for (int64_t i = 0; i <= facts_.layers; ++i)
      out_.declare(fmt::format("hidden.{}", i), to(), {whole_.rows, whole_.columns, facts_.hidden});
    for (int64_t i = 0; i < facts_.layers; ++i)
      if (routes(i)) out_.declare(choices_name(i), DType::i32, {whole_.rows, whole_.columns, choices()});
    if (!whole_.labels.empty()) out_.declare("loss", to(), {});
    for (size_t i = 0; backward && i < learned_.tensors.size(); ++i)
      if (learns(learned_.tensors[i])) out_.declare(gradient_name(i), to(), learned_.tensors[i].shape);
  }

  void forward() {
    NamedTensor logits;
    RouterChoices routers;
    {
      Ctx c(setup_);
      store_.attach(c);
      c.add_observer(&hidden_);
      if (model_.decoder() && model_.decoder()->moe) c.add_observer(&routers);
      for (int chunk = 0; chunk < stage_.chunks(); ++chunk) {
        c.begin(batch_, false);
        const int part = chunk * ranks_.mesh().pipeline + ranks_.at().pipeline;
        hidden_.begin(loaded_.parts[static_cast<size_t>(part)].begin);
        stage_.forward(c, chunk, false);
      }
      stage_.drain();
      if (loaded_.last_stage()) {
        const TensorView v = c.outputs().at("logits").view();
        logits = copy_out("", v, {v.rows(), v.cols()}, to());
        hidden_.keep(static_cast<size_t>(facts_.layers), c.outputs().at("hidden").view());
      }
    }
    const int last = ranks_.mesh().pipeline - 1;
    gather_rows("logits", logits, to(), facts_.vocabulary, last, false);
    auto stage_of = [&](size_t block) {
      int stage = last;
      for (size_t p = 0; p < loaded_.parts.size(); ++p)
        if (block >= loaded_.parts[p].begin && block < loaded_.parts[p].end)
          stage = static_cast<int>(p) % ranks_.mesh().pipeline;
      return stage;
    };
    for (size_t i = 0; i <= static_cast<size_t>(facts_.layers); ++i) {
      const int stage = i < static_cast<size_t>(facts_.layers) ? stage_of(i) : last;
      gather_rows(fmt::format("hidden.{}", i), hidden_.states[i], to(), facts_.hidden, stage, true);
      hidden_.states.erase(i);
    }
    for (int64_t i = 0; i < facts_.layers; ++i)
      if (routes(i))
        gather_rows(choices_name(i), routers.chosen[i], DType::i32, choices(), stage_of(static_cast<size_t>(i) + 1), false);
  }

  void loss(bool backward) {
    batch_.labels = view(mine_.labels);
    Ctx c(setup_);
    store_.attach(c);
    std::vector<Stage::Micro> micros;
    for (int chunk = 0; chunk < stage_.chunks(); ++chunk) {
      c.begin(batch_, backward);
      micros.push_back(stage_.forward(c, chunk, backward));
    }
    for (int chunk = stage_.chunks(); backward && chunk-- > 0;)
      stage_.backward(c, chunk, std::move(micros[static_cast<size_t>(chunk)]));
    stage_.drain();
    double loss = sum(ranks_.all(), c.step_sums().total(StepSum::loss)).value() * batch_.grad_scale;
    if (model_.decoder() && model_.decoder()->moe) loss += losses_of_routers(model_.decoder()->moe->losses, c.step_sums());
    if (ranks_.first()) out_.write(copy_out("loss", view_of(&loss, DType::f64, {1}), {}, to()));
    if (!backward) return;
    store_.finish_grads(c);
    UnitExport whole(model_, store_, ranks_, loaded_.stages(), UnitExport::Of::gradients);
    if (!ranks_.first()) return whole.serve();
    // Gradients have the names and layouts of the files that were read.
    for (size_t i = 0; i < learned_.tensors.size(); ++i) {
      const FileTensor& t = learned_.tensors[i];
      if (!learns(t)) continue;
      Lease lease(whole, *t.params[0]->unit);
      std::vector<TensorView> of;
      for (const Param* p : t.params) of.push_back(whole.master(*p));
      NamedTensor g{gradient_name(i), to(), t.shape,
                    std::vector<std::byte>(static_cast<size_t>(t.shape.count() * size_of(to())))};
      gather(t, {0, t.shape.count()}, to(), g.data.data(), of);
      out_.write(g);
    }
    whole.end();
  }

 private:
  // Returns the router losses of all stages. A loss that pools layers is on the last stage.
  double losses_of_routers(const RouterLosses& losses, const StepSums& sums) const {
    ExactSum sum_here;
    if (!losses.pools())
      sum_here.add(router_loss(losses, sums.routers(0)));
    else
      sum_here.add(losses.z_coef * z_loss(sums.routers(0)) +
                   (ranks_.last_stage() ? losses.balance_coef * pooled_balance(sums.pool(0)) : 0));
    return sum(ranks_.along(Axis::pipeline), sum_here).value();
  }
  // True if the tensor has a gradient; the correction biases of routers have none.
  static bool learns(const FileTensor& t) { return t.params[0]->policy.trainable; }
  std::string gradient_name(size_t i) const {
    return "grad." + (loaded_.adapter.empty() ? loaded_.stored_names[i] : learned_.tensors[i].name);
  }
  bool routes(int64_t layer) const { return model_.decoder() && model_.decoder()->is_sparse(layer); }
  int64_t choices() const { return model_.decoder()->moe->routing.top_k; }
  static std::string choices_name(int64_t layer) { return fmt::format("router.{}", layer); }
  DType to() const { return loaded_.types.compute == DType::f64 ? DType::f64 : DType::f32; }
  static TensorView view(const std::vector<int32_t>& v) {
    return view_of(const_cast<int32_t*>(v.data()), DType::i32, {static_cast<int64_t>(v.size())});
  }

  // Gathers the rows of all data ranks on rank 0, from the ranks of `stage`, and writes them.
  // tokens: with sequence parallelism each tensor rank holds a part of the tokens. Otherwise tensor rank 0 holds all of
  // them.
  void gather_rows(const std::string& name, NamedTensor& mine, DType type, int64_t columns, int stage, bool tokens) {
    const Mesh& mesh = ranks_.mesh();
    const int parts = tokens && setup_.sequence ? mesh.tensor : 1;
    const int64_t row = columns * size_of(type);
    NamedTensor all{name, type, {whole_.rows, whole_.columns, columns}, {}};
    if (ranks_.first()) all.data.resize(static_cast<size_t>(whole_.rows * whole_.columns * row));
    for (int d = 0; d < mesh.data; ++d) {
      const RowRange rows = rows_of(whole_.rows, d, mesh.data);
      const int64_t bytes = rows.count * whole_.columns * row / parts;
      for (int t = 0; t < parts && bytes > 0; ++t) {
        const int holder = rank_of(mesh, {stage, d, t});
        std::byte* into = ranks_.first() ? all.data.data() + rows.begin * whole_.columns * row + t * bytes : nullptr;
        if (holder == ranks_.rank() && ranks_.first())
          std::memcpy(into, mine.data.data(), static_cast<size_t>(bytes));
        else if (ranks_.first())
          ranks_.all().receive(into, bytes, holder).wait();
        else if (holder == ranks_.rank())
          ranks_.all().send(mine.data.data(), bytes, 0).wait();
      }
    }
    mine = {};
    if (ranks_.first()) out_.write(all);
  }

  LoadedModel& loaded_;
  Model& model_;
  FlatStore& store_;
  const Ranks& ranks_;
  const ModelFacts& facts_;
  const WeightFiles learned_;  // tensors with gradients
  TraceOutput& out_;
  const TraceInput& whole_;
  const TraceInput mine_;
  std::vector<int64_t> sequences_;
  HeapArena arena_;
  std::unique_ptr<Stash> stash_;
  HiddenStates hidden_;
  Stage stage_;
  Ctx::Setup setup_;
  Batch batch_;
};

}  // namespace

TraceInput read_trace_input(const std::string& path, const ModelFacts& facts) {
  for (const char* other : {".json", ".jsonl", ".npy", ".txt", ".pt"})
    if (path.ends_with(other))
      throw UserError(
          "not a safetensors file", path, "trace takes input_ids [B,T] in one",
          "write it with Python: safetensors.numpy.save_file({'input_ids': numpy.array([[1, 2, 3]])}, 'in.safetensors'); a JSON list of prompts is for `ravine generate --model DIR --prompt-ids FILE.json`");
  SafetensorsReader file(path);
  TraceInput in;
  const TensorInfo& ids = file.tensor("input_ids");
  auto shape_of = [&](const TensorInfo& t) {
    if (t.shape.rank() != 2 || (in.rows && (t.shape[0] != in.rows || t.shape[1] != in.columns)))
      throw UserError(
          "tensor '" + t.name + "' has shape " + t.shape.text(), path,
          t.name == "input_ids" ? "it must be [B,T], a row of ids for each prompt" : "it must be [B,T], like input_ids",
          "correct the file");
  };
  shape_of(ids);
  in.rows = ids.shape[0];
  in.columns = ids.shape[1];
  if (in.rows * in.columns == 0)
    throw UserError("tensor 'input_ids' is empty", path, "it needs at least one token", "correct the file");
  for (int64_t id : read_ids(file, ids)) {
    if (id < 0 || id >= facts.vocabulary)
      throw UserError(fmt::format("token {} in 'input_ids'", id), path,
                      fmt::format("ids must be 0 or more, and below vocab_size = {}", facts.vocabulary), more_rows_advice(id));
    in.ids.push_back(static_cast<int32_t>(id));
  }
  in.positions.resize(in.ids.size());
  for (size_t i = 0; i < in.ids.size(); ++i) in.positions[i] = static_cast<int32_t>(static_cast<int64_t>(i) % in.columns);
  if (const TensorInfo* t = file.find("position_ids")) {
    shape_of(*t);
    constexpr int64_t kMostPositions = 1 << 24;  // tables of rotary angles have a row for each position
    const int64_t most = facts.max_positions > 0 ? facts.max_positions : kMostPositions;
    auto p = read_ids(file, *t);
    for (size_t i = 0; i < p.size(); ++i) {
      if (p[i] < 0 || p[i] >= most)
        throw UserError(fmt::format("position {} in 'position_ids'", p[i]),
                        fmt::format("{}: row {}, column {}", path, static_cast<int64_t>(i) / in.columns,
                                    static_cast<int64_t>(i) % in.columns),
                        fmt::format("positions are 0 to {}", most - 1), "correct the file");
      in.positions[i] = static_cast<int32_t>(p[i]);
    }
  } else if (facts.max_positions > 0 && in.columns > facts.max_positions) {
    throw UserError(fmt::format("rows of {} tokens", in.columns), path,
                    fmt::format("the model has max_position_embeddings = {}", facts.max_positions), "shorten the rows");
  }
  std::vector<int64_t> mask(in.ids.size(), 1);
  const TensorInfo* given_mask = file.find("attention_mask");
  if (given_mask) shape_of(*given_mask), mask = read_ids(file, *given_mask);
  for (size_t i = 0; i < mask.size(); ++i)
    if (mask[i] != 0 && mask[i] != 1)
      throw UserError(fmt::format("{} in 'attention_mask'", mask[i]),
                      fmt::format("{}: row {}, column {}", path, static_cast<int64_t>(i) / in.columns,
                                  static_cast<int64_t>(i) % in.columns),
                      "a mask holds 0 and 1", "correct the file");
  if (std::find(mask.begin(), mask.end(), 1) == mask.end())
    throw UserError("'attention_mask' is all 0", path, "at least one value must be 1", "correct the file");
  for (int64_t r = 0; r < in.rows; ++r) {
    auto row = mask.begin() + r * in.columns, end = row + in.columns;
    auto first = std::find(row, end, 1), last = std::find(first, end, 0);
    if (std::find(last, end, 1) != end)
      throw UserError(fmt::format("row {} of 'attention_mask' has holes", r), path, "the ones of a row must be adjacent",
                      "pad on one side");
    if (first != last) {
      const int64_t begin = first - row;
      const std::vector<TokenSpan> parts = parts_by_position(
          std::span(in.positions).subspan(static_cast<size_t>(r * in.columns), static_cast<size_t>(in.columns)),
          static_cast<int32_t>(begin), static_cast<int32_t>(last - first));
      if (given_mask && parts.size() > 1 && in.note.empty())
        in.note = fmt::format(
            "position_ids of row {} begin again, and attention crosses there, as in Transformers with an attention_mask; without attention_mask each part is apart",
            r);
      auto add = [&](int64_t from, int64_t count) {
        in.segments.push_back({r * in.columns + from, count, r * in.columns + from, count});
      };
      if (given_mask)
        add(begin, last - first);
      else
        for (const TokenSpan& part : parts) add(part.begin, part.length);
    }
  }
  if (const TensorInfo* t = file.find("labels")) {
    shape_of(*t);
    auto labels = read_ids(file, *t);
    in.labels.assign(labels.size(), -100);
    for (int64_t r = 0; r < in.rows; ++r)
      for (int64_t c = 0; c + 1 < in.columns; ++c) {
        int64_t l = labels[static_cast<size_t>(r * in.columns + c + 1)];
        if (l >= facts.vocabulary || (l < 0 && l != -100))
          throw UserError(fmt::format("label {}", l), path,
                          fmt::format("labels are -100 or ids below vocab_size = {}", facts.vocabulary), more_rows_advice(l));
        in.labels[static_cast<size_t>(r * in.columns + c)] = static_cast<int32_t>(l);
      }
  }
  return in;
}

void trace(LoadedModel& loaded, const TraceInput& in, bool backward, const Recipe& recipe, TraceOutput& out) {
  require(loaded.trainable != nullptr, "trace: the loaded is not open for gradients");
  const Mesh& mesh = loaded.ranks().mesh();
  for (int d = 0; loaded.spread.options.sequence && d < mesh.data; ++d)
    if (int64_t tokens = std::max<int64_t>(1, rows_of(in.rows, d, mesh.data).count) * in.columns; tokens % mesh.tensor != 0)
      throw UserError(fmt::format("{} tokens over {} tensor ranks", tokens, mesh.tensor), "parallel.sequence",
                      "with it the tokens of every data rank must be a multiple of the tensor ranks",
                      "set parallel.sequence=false, or change the input");
  const DecoderSpec* spec = loaded.model->decoder();
  if (spec && spec->moe && spec->moe->losses.any() && !in.labels.empty() && mesh.data > 1)
    throw UserError(fmt::format("the loss of routers over {} data ranks", mesh.data), "parallel.data",
                    "this loss needs all tokens of a batch, and each data rank has only a part of them", "run it on one rank");
  TraceRun run(loaded, in, recipe, out);
  if (loaded.ranks().first()) run.declare(backward);
  run.forward();
  if (!in.labels.empty()) run.loss(backward);
}

std::vector<NamedTensor> trace(LoadedModel& loaded, const TraceInput& in, bool backward, const Recipe& recipe) {
  struct All : TraceOutput {
    void declare(const std::string&, DType, const Shape&) override {}
    void write(const NamedTensor& t) override { tensors.push_back(t); }
    std::vector<NamedTensor> tensors;
  } all;
  trace(loaded, in, backward, recipe, all);
  return std::move(all.tensors);
}

}  // namespace ravine

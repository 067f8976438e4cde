#include "infer/trace.h"

#include <algorithm>

#include "files/safetensors.h"
#include "io/file_rows.h"
#include "parallel/stash.h"

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
      out[i] = static_cast<int64_t>(x);
    }
  };
  switch (t.dtype) {
    case DType::i64: take(int64_t{}); break;
    case DType::i32: take(int32_t{}); break;
    case DType::i16: take(int16_t{}); break;
    case DType::i8: take(int8_t{}); break;
    case DType::u8: case DType::boolean: take(uint8_t{}); break;
    default: throw UserError("tensor '" + t.name + "' is " + std::string(name(t.dtype)), file.path(), "it must hold integers", "store it as int64");
  }
  return out;
}

// Copies rows of any floating type to `to`.
NamedTensor copy_out(const std::string& name, const TensorView& v, const Shape& shape, DType to) {
  NamedTensor out{name, to, shape, std::vector<std::byte>(static_cast<size_t>(shape.count() * size_of(to)))};
  Kernels ref = ref_kernels();
  TensorView target = view_of(out.data.data(), to, {v.rows(), v.cols()});
  ref.cast.run(Cast{v, target}, nullptr);
  return out;
}

// Copies the hidden state (x + branch) that every block hands on.
class HiddenStates : public Observer {
 public:
  explicit HiddenStates(DType to, const Shape& shape) : to_(to), shape_(shape) {}
  void flow(Ctx& c, std::string_view, const Flow& f) override {
    if (!f.x) return;
    Tensor sum = c.empty({f.x.rows(), f.x.cols()}, c.types().residual);
    if (f.branch)
      c.call(Add{f.x.view(), f.branch.view(), sum.view()});
    else
      c.call(Cast{f.x.view(), sum.view()});
    states.push_back(copy_out("hidden." + std::to_string(states.size()), sum.view(), shape_, to_));
  }
  std::vector<NamedTensor> states;

 private:
  DType to_;
  Shape shape_;
};

}  // namespace

TraceInput read_trace_input(const std::string& path, const ModelFacts& facts) {
  SafetensorsReader file(path);
  TraceInput in;
  const TensorInfo& ids = file.tensor("input_ids");
  auto shape_of = [&](const TensorInfo& t) {
    if (t.shape.rank() != 2 || (in.rows && (t.shape[0] != in.rows || t.shape[1] != in.columns)))
      throw UserError("tensor '" + t.name + "' has shape " + t.shape.text(), path, "it must be [B,T], like input_ids", "correct the file");
  };
  shape_of(ids);
  in.rows = ids.shape[0];
  in.columns = ids.shape[1];
  if (in.rows * in.columns == 0) throw UserError("tensor 'input_ids' is empty", path, "it needs at least one token", "correct the file");
  for (int64_t id : read_ids(file, ids)) {
    if (id < 0 || id >= facts.vocabulary)
      throw UserError(fmt::format("token {} in 'input_ids'", id), path, fmt::format("ids must be below vocab_size = {}", facts.vocabulary), "use the model's tokenizer");
    in.ids.push_back(static_cast<int32_t>(id));
  }
  in.positions.resize(in.ids.size());
  for (size_t i = 0; i < in.ids.size(); ++i) in.positions[i] = static_cast<int32_t>(static_cast<int64_t>(i) % in.columns);
  if (const TensorInfo* t = file.find("position_ids")) {
    shape_of(*t);
    auto p = read_ids(file, *t);
    for (size_t i = 0; i < p.size(); ++i) in.positions[i] = static_cast<int32_t>(p[i]);
  }
  for (int32_t p : in.positions)
    if (p < 0 || (facts.max_positions > 0 && p >= facts.max_positions))
      throw UserError(fmt::format("position {}", p), path, fmt::format("the model has max_position_embeddings = {}", facts.max_positions), "shorten the rows");
  std::vector<int64_t> mask(in.ids.size(), 1);
  if (const TensorInfo* t = file.find("attention_mask")) shape_of(*t), mask = read_ids(file, *t);
  for (int64_t r = 0; r < in.rows; ++r) {
    auto row = mask.begin() + r * in.columns, end = row + in.columns;
    auto first = std::find(row, end, 1), last = std::find(first, end, 0);
    if (std::find(last, end, 1) != end)
      throw UserError(fmt::format("row {} of 'attention_mask' has holes", r), path, "the ones of a row must stand together", "pad on one side");
    if (first != last) {
      int64_t begin = r * in.columns + (first - row);
      in.segments.push_back({begin, last - first, begin, last - first});
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
          throw UserError(fmt::format("label {}", l), path, fmt::format("labels are -100 or ids below vocab_size = {}", facts.vocabulary), "correct the file");
        in.labels[static_cast<size_t>(r * in.columns + c)] = static_cast<int32_t>(l);
      }
  }
  return in;
}

std::vector<NamedTensor> trace(Session& session, const TraceInput& in, bool backward, const Recipe& recipe) {
  Model& model = *session.model;
  require(session.trainable != nullptr, "trace: the session is not open for gradients");
  FlatStore& store = *session.trainable;
  const ModelFacts& f = model.facts();
  DType to = session.types.compute == DType::f64 ? DType::f64 : DType::f32;
  HeapArena arena;
  struct GiveBack {
    ParamStore& store;
    ~GiveBack() { store.end_step(); }  // also when something throws: the store outlives the arena
  } give_back{store};
  auto stash = make_stash("cheap");
  HiddenStates hidden(to, {in.rows, in.columns, f.hidden});
  Ctx::Setup setup;
  setup.kernels = &session.kernels;
  setup.arena = &arena;
  setup.store = &store;
  setup.stash = stash.get();
  setup.recipe = &recipe;
  setup.types = session.types;

  int64_t valid = std::count_if(in.labels.begin(), in.labels.end(), [](int32_t l) { return l >= 0; });
  Batch b;
  b.tokens = in.rows * in.columns;
  auto view = [&](const std::vector<int32_t>& v) { return view_of(const_cast<int32_t*>(v.data()), DType::i32, {b.tokens}); };
  b.ids = view(in.ids);
  b.positions = view(in.positions);
  std::vector<int64_t> sequences(in.ids.size(), 0);
  b.sequences = view_of(sequences.data(), DType::i64, {b.tokens});
  b.segments = in.segments;
  b.max_position = *std::max_element(in.positions.begin(), in.positions.end()) + 1;
  b.grad_scale = valid > 0 ? 1.0 / static_cast<double>(valid) : 0.0;

  std::vector<NamedTensor> out;
  {
    Ctx c(setup);
    c.add_observer(&hidden);
    c.begin(b, false);
    model.forward(c);
    out.push_back(copy_out("logits", c.outputs().at("logits").view(), {in.rows, in.columns, f.vocabulary}, to));
    hidden.states.back() = copy_out("hidden." + std::to_string(f.layers), c.outputs().at("hidden").view(), {in.rows, in.columns, f.hidden}, to);
  }
  for (NamedTensor& h : hidden.states) out.push_back(std::move(h));
  if (in.labels.empty()) return out;

  b.labels = view(in.labels);
  Ctx c(setup);
  c.begin(b, backward);
  model.forward(c);
  if (backward) c.backward();
  double loss = c.sides()["loss"].value() * b.grad_scale;
  out.push_back(copy_out("loss", view_of(&loss, DType::f64, {1}), {}, to));
  if (backward) {
    store.finish_grads(c);
    // Named and laid out as in the files that were read.
    const std::vector<FileTensor>& tensors = model.files().tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const FileTensor& t = tensors[i];
      std::vector<TensorView> of;
      for (const Param* p : t.params) of.push_back(store.grad(*p));
      NamedTensor g{"grad." + session.stored_names[i], to, t.shape, std::vector<std::byte>(static_cast<size_t>(t.shape.count() * size_of(to)))};
      gather(t, {0, t.shape.count()}, to, g.data.data(), of);
      out.push_back(std::move(g));
    }
  }
  return out;
}

}  // namespace ravine

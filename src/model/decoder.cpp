#include "model/decoder.h"

#include <cmath>
#include <deque>

#include "engine/ops/add.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "model/layers/head.h"

namespace ravine {
namespace {

struct Layer {
  Layer(ParamSet& set, Unit& unit, const std::string& name, int index, const DecoderSpec& s, const AttentionSpec& a, const RopeTable* table)
      : parallel(s.parallel),
        norm1(set, unit, name + ".input_layernorm", a.hidden, s.norm),
        attention(set, unit, name + ".self_attn", index, a, table),
        norm2(set, unit, name + ".post_attention_layernorm", a.hidden, s.norm),
        mlp(set, unit, name + ".mlp", a.hidden, s.mlp) {}

  Flow operator()(Ctx& c, Flow in) const {
    auto [x, h] = norm1(c, std::move(in));
    Flow mid{std::move(x), branch(c, "self_attn", attention(c, h))};
    h = Tensor();
    Tensor waits = parallel ? std::exchange(mid.branch, Tensor()) : Tensor();
    auto [y, g] = norm2(c, std::move(mid));
    Tensor out = branch(c, "mlp", mlp(c, g));
    if (parallel) out = add(c, std::move(out), std::move(waits));
    return {std::move(y), std::move(out)};
  }
  static Tensor branch(Ctx& c, const char* name, Tensor t) {
    Ctx::Scope scope(c, name);
    return dropout(c, std::move(t));
  }
  bool parallel;
  Norm norm1;
  Attention attention;
  Norm norm2;
  Mlp mlp;
};

class Decoder : public Model {
 public:
  Decoder(const Json& config, ModelFacts facts, DecoderSpec spec) : spec_(std::move(spec)) {
    config_ = config;
    facts_ = std::move(facts);
    const AttentionSpec& a = spec_.attention;
    facts_.hidden = a.hidden, facts_.heads = a.heads, facts_.kv_heads = a.kv_heads, facts_.head_size = a.head_size;
    facts_.window = a.window;
    if (spec_.rope) table_ = std::make_unique<RopeTable>(*spec_.rope);
    add_embedding();
    for (int64_t i = 0; i < facts_.layers; ++i) add_layer(i);
    add_head();
    files_ = weight_files(params_, spec_.names, a.head_size);
  }

  void prepare(int64_t positions, const Types& types, DeviceKind device) override {
    if (table_) table_->prepare(positions, types.stat, device);
  }

  void settle(Ctx& c) override {
    if (!spec_.unit_head) return;
    Lease lease(c.store(), *head_->unit);
    TensorView w = c.store().master(*head_);
    c.call(UnitRowsForward{w, w});
    unit_rows_ = false;
  }

 private:
  void add_embedding() {
    Unit& unit = params_.unit("model.embed_tokens");
    auto table = [&](const char* name, int64_t rows, std::vector<Cut> cuts) {
      return params_.add(unit, {name, {rows, facts_.hidden}, std::move(cuts), {Init::normal, spec_.attention.init_std}, true, Use::table});
    };
    embedding_ = table("model.embed_tokens.weight", facts_.vocabulary, {{0, Axis::tensor}});
    const Param* positions = spec_.position_table ? table("model.embed_positions.weight", facts_.max_positions, {}) : nullptr;
    if (spec_.embedding_norm) embedding_norm_.emplace(params_, unit, "model.embed_norm", facts_.hidden, spec_.norm);
    int64_t padding = spec_.padding_learns ? -1 : facts_.pad;
    blocks_.push_back({"model.embed_tokens", &unit, [this, positions, padding](Ctx& c, Flow) {
                         // Dropout has one mask for the sum: it follows from the path, and both terms have that.
                         Flow out{dropout(c, embedding(c, *embedding_, padding)), {}};
                         if (positions) out.branch = dropout(c, position_embedding(c, *positions));
                         if (embedding_norm_) out = {(*embedding_norm_)(c, std::move(out), c.types().residual).out, {}};
                         return out;
                       }});
  }

  void add_layer(int64_t i) {
    std::string name = fmt::format("model.layers.{}", i);
    AttentionSpec a = spec_.attention;
    if (!spec_.windows.empty()) a.window = spec_.windows[static_cast<size_t>(i)];
    if (spec_.scale_by_layer)
      a.scale = (a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(a.head_size))) / static_cast<double>(i + 1);
    Unit& unit = params_.unit(name);
    Layer& layer = layers_.emplace_back(params_, unit, name, static_cast<int>(i), spec_, a, table_.get());
    blocks_.push_back({name, &unit, [&layer](Ctx& c, Flow in) { return layer(c, std::move(in)); }});
  }

  void add_head() {
    Unit& unit = params_.unit("lm_head");
    norm_.emplace(params_, unit, "model.norm", facts_.hidden, spec_.norm);
    Param weight{"lm_head.weight", {facts_.vocabulary, facts_.hidden}, {{0, Axis::tensor}}, {Init::normal, spec_.attention.init_std}};
    if (spec_.unit_head) weight.use = Use::unit_matrix;
    if (spec_.tied) weight.tied = embedding_;
    head_ = params_.add(unit, weight);
    unit_rows_ = spec_.unit_head;
    blocks_.push_back({"", &unit, [this](Ctx& c, Flow in) { return output_head(c, std::move(in), *norm_, *head_, unit_rows_); }});
  }

  DecoderSpec spec_;
  std::unique_ptr<RopeTable> table_;
  std::deque<Layer> layers_;
  std::optional<Norm> embedding_norm_, norm_;
  Param *embedding_ = nullptr, *head_ = nullptr;
  bool unit_rows_ = false;  // the head's rows have not been brought to length 1 yet
};

}  // namespace

std::unique_ptr<Model> make_decoder(const Json& config, ModelFacts facts, DecoderSpec spec) {
  return std::make_unique<Decoder>(config, std::move(facts), std::move(spec));
}

}  // namespace ravine

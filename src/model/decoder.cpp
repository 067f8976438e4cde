#include "model/decoder.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <variant>

#include "engine/ops/add.h"
#include "engine/ops/add_branch.h"
#include "engine/ops/dropout.h"
#include "engine/ops/embedding.h"
#include "model/layers/embedding.h"
#include "model/layers/latent_attention.h"

namespace ravine {
namespace {

struct Layer {
  Layer(ParamSet& set, Unit& unit, const std::string& name, int64_t index, const DecoderSpec& s, const AttentionSpec& a,
        const RopeTable* table)
      : topology(s.topology),
        before_attention(norm_if(s.topology != Topology::post_norm, set, unit, name + ".input_layernorm", s)),
        attention_(make_attention(set, unit, name + ".self_attn", index, a, table)),
        after_attention(norm_if(normed_branches(), set, unit, name + ".post_attention_layernorm", s)),
        before_mlp(norm_if(s.topology != Topology::post_norm, set, unit,
                           name + (normed_branches() ? ".pre_feedforward_layernorm" : ".post_attention_layernorm"), s)),
        mlp(dense_or_sparse(set, unit, name + ".mlp", index, s)),
        after_mlp(norm_if(normed_branches(), set, unit, name + ".post_feedforward_layernorm", s)) {}

  Flow operator()(Ctx& c, Flow in) const {
    switch (topology) {
      case Topology::pre_norm:
        return pre_norm(c, std::move(in));
      case Topology::parallel:
        return parallel_residual(c, std::move(in));
      case Topology::post_norm:
        return post_norm(c, std::move(in));
      case Topology::sandwich:
        return sandwich(c, std::move(in));
    }
    fail("decoder: unknown topology");
  }

 private:
  Flow pre_norm(Ctx& c, Flow in) const {
    auto [x, h] = (*before_attention)(c, std::move(in));
    Flow mid{std::move(x), branch(c, "self_attn", attention(c, h))};
    h = Tensor();
    auto [y, g] = (*before_mlp)(c, std::move(mid));
    return {std::move(y), branch(c, "mlp", run_mlp(c, g))};
  }
  Flow parallel_residual(Ctx& c, Flow in) const {
    auto [x, h] = (*before_attention)(c, std::move(in));
    Tensor waits = branch(c, "self_attn", attention(c, h));
    h = Tensor();
    auto [y, g] = (*before_mlp)(c, {std::move(x), {}});
    Tensor out = branch(c, "mlp", run_mlp(c, g));
    return {std::move(y), add(c, std::move(out), std::move(waits))};
  }
  Flow post_norm(Ctx& c, Flow in) const {
    auto [x, h] = add_branch(c, std::move(in));
    Tensor a = attention(c, h);
    h = Tensor();
    auto [y, g] = add_branch(c, {std::move(x), branch(c, "self_attn", normed(c, *after_attention, std::move(a)))});
    Tensor m = run_mlp(c, g);
    g = Tensor();
    return {std::move(y), branch(c, "mlp", normed(c, *after_mlp, std::move(m)))};
  }
  Flow sandwich(Ctx& c, Flow in) const {
    auto [x, h] = (*before_attention)(c, std::move(in));
    Tensor a = attention(c, h);
    h = Tensor();
    auto [y, g] = (*before_mlp)(c, {std::move(x), branch(c, "self_attn", normed(c, *after_attention, std::move(a)))});
    Tensor m = run_mlp(c, g);
    g = Tensor();
    return {std::move(y), branch(c, "mlp", normed(c, *after_mlp, std::move(m)))};
  }

  bool normed_branches() const { return topology == Topology::post_norm || topology == Topology::sandwich; }
  using AnyMlp = std::variant<Mlp, Moe>;
  static AnyMlp dense_or_sparse(ParamSet& set, Unit& unit, const std::string& name, int64_t index, const DecoderSpec& s) {
    if (s.is_sparse(index)) return Moe(set, unit, name, index, s.attention.hidden, *s.moe);
    return Mlp(set, unit, name, s.attention.hidden, s.mlp_of(index));
  }
  Tensor run_mlp(Ctx& c, const Tensor& x) const {
    return std::visit([&](const auto& m) { return m(c, x); }, mlp);
  }
  static std::optional<Norm> norm_if(bool there, ParamSet& set, Unit& unit, const std::string& name, const DecoderSpec& s) {
    return there ? std::optional<Norm>(std::in_place, set, unit, name, s.attention.hidden, s.norm) : std::nullopt;
  }
  using AnyAttention = std::variant<Attention, LatentAttention>;
  static AnyAttention make_attention(ParamSet& set, Unit& unit, const std::string& name, int64_t index, const AttentionSpec& a,
                                     const RopeTable* table) {
    if (a.latent) return LatentAttention(set, unit, name, static_cast<int>(index), a, *table);
    return Attention(set, unit, name, static_cast<int>(index), a, table);
  }
  Tensor attention(Ctx& c, const Tensor& x) const {
    return std::visit([&](const auto& a) { return a(c, x); }, attention_);
  }
  static Tensor normed(Ctx& c, const Norm& norm, Tensor t) { return norm(c, {std::move(t), {}}).out; }
  static Tensor branch(Ctx& c, const char* name, Tensor t) {
    Ctx::Scope scope(c, name);
    return dropout(c, std::move(t));
  }

  // Members are in the order in which their parameters are declared.
  Topology topology;
  std::optional<Norm> before_attention;
  AnyAttention attention_;
  std::optional<Norm> after_attention, before_mlp;
  AnyMlp mlp;
  std::optional<Norm> after_mlp;
};

// Returns the scale of the embedding rounded to the compute type, as in Transformers.
double rounded(double x, DType type) {
  if (type == DType::f64) return x;
  return visit_float(type, [&](auto zero) {
    return static_cast<double>(static_cast<float>(static_cast<decltype(zero)>(static_cast<float>(x))));
  });
}

class Decoder : public Model {
 public:
  Decoder(const Json& config, ModelFacts facts, DecoderSpec spec) : spec_(std::move(spec)) {
    require(
        spec_.attention.latent || spec_.attention.value_size == 0 || spec_.attention.value_size == spec_.attention.head_size,
        "decoder: heads of values of {} beside keys of {}, without latents", spec_.attention.value_size,
        spec_.attention.head_size);
    require(!spec_.attention.latent || (spec_.rope && spec_.rope->dims == spec_.attention.latent->rotated),
            "decoder: latent attention rotates {} channels", spec_.attention.latent ? spec_.attention.latent->rotated : 0);
    for (const auto& [what, n] :
         {std::pair{"windows", spec_.windows.size()}, {"MLPs", spec_.mlps.size()}, {"choices of MLP", spec_.sparse.size()}})
      require(n == 0 || static_cast<int64_t>(n) == facts.layers, "decoder: {} {} for {} layers", n, what, facts.layers);
    config_ = config;
    facts_ = std::move(facts);
    const AttentionSpec& a = spec_.attention;
    facts_.hidden = a.hidden, facts_.heads = a.heads, facts_.kv_heads = a.kv_heads, facts_.head_size = a.head_size;
    facts_.value_size = a.value_size > 0 ? a.value_size : a.head_size;
    if (spec_.rope &&
        spec_.rope->type == RopeSettings::dynamic)  // this type is made for longer sequences, so there is no bound
      spec_.trained_length = facts_.max_positions, facts_.max_positions = 0;
    if (spec_.rope) table_ = std::make_unique<RopeTable>(*spec_.rope);
    params_.adapter_of = spec_.adapter_of;
    add_embedding();
    for (int64_t i = 0; i < facts_.layers; ++i) add_layer(i);
    add_head();
    files_ = weight_files(params_, spec_.names, facts_.layers, a.head_size);
  }

  void prepare(int64_t positions, const Types& types, DeviceKind device) override {
    if (table_) table_->prepare(positions, types.stat, device);
  }

  void prepare_weights(Ctx& c) override { head_->prepare_weights(c); }
  const DecoderSpec* decoder() const override { return &spec_; }

 private:
  void add_embedding() {
    Unit& unit = params_.unit("model.embed_tokens");
    const double init_std = spec_.attention.init_std;
    embedding_.emplace(params_, unit, "model.embed_tokens", facts_.vocabulary, facts_.hidden,
                       spec_.padding_learns ? -1 : facts_.pad, init_std);
    const Param* positions = nullptr;
    if (spec_.position_table)
      positions = params_.add(unit, {"model.embed_positions.weight",
                                     {facts_.max_positions, facts_.hidden},
                                     {},
                                     {Init::normal, init_std},
                                     true,
                                     Use::table});
    if (spec_.embedding_norm) embedding_norm_.emplace(params_, unit, "model.embed_norm", facts_.hidden, spec_.norm);
    blocks_.push_back({"model.embed_tokens", &unit, [this, positions](Ctx& c, Flow) {
                         // Both terms get the same dropout mask, since it depends on the path; so the sum has one mask.
                         Flow out{dropout(c, (*embedding_)(c, rounded(spec_.embedding_scale, c.types().compute))), {}};
                         if (positions) out.branch = dropout(c, position_embedding(c, *positions));
                         if (embedding_norm_) out = {(*embedding_norm_)(c, std::move(out), c.types().residual).out, {}};
                         return out;
                       }});
  }

  void add_layer(int64_t i) {
    std::string name = fmt::format("model.layers.{}", i);
    AttentionSpec a = spec_.attention;
    a.window = spec_.window(i);
    if (spec_.scale_by_layer)
      a.scale = (a.scale != 0 ? a.scale : 1 / std::sqrt(static_cast<double>(a.head_size))) / static_cast<double>(i + 1);
    Unit& unit = params_.unit(name);
    Layer& layer = layers_.emplace_back(params_, unit, name, i, spec_, a, table_.get());
    blocks_.push_back({name, &unit, [&layer](Ctx& c, Flow in) { return layer(c, std::move(in)); }});
  }

  void add_head() {
    Unit& unit = params_.unit("lm_head");
    norm_.emplace(params_, unit, "model.norm", facts_.hidden, spec_.norm);
    head_.emplace(params_, unit, "lm_head", facts_.vocabulary, facts_.hidden, spec_.head, spec_.attention.init_std,
                  embedding_->weight());
    blocks_.push_back({"", &unit, [this](Ctx& c, Flow in) {
                         (*head_)(c, (*norm_)(c, std::move(in)).out);
                         return Flow();
                       }});
  }

  DecoderSpec spec_;
  std::unique_ptr<RopeTable> table_;
  std::deque<Layer> layers_;
  std::optional<Embedding> embedding_;
  std::optional<Norm> embedding_norm_, norm_;
  std::optional<Head> head_;
};

}  // namespace

bool DecoderSpec::windowed() const {
  return windows.empty() ? attention.window > 0 : std::any_of(windows.begin(), windows.end(), [](int64_t w) { return w > 0; });
}

int64_t attended_pairs(int64_t window, int64_t length) {
  const int64_t w = window > 0 ? std::min(window, length) : length;
  return w * (w + 1) / 2 + (length - w) * w;
}

std::unique_ptr<Model> make_decoder(const Json& config, ModelFacts facts, DecoderSpec spec) {
  return std::make_unique<Decoder>(config, std::move(facts), std::move(spec));
}

}  // namespace ravine

// Initial weights: normal with the standard deviation that the family declares, parameters independent of each other
// and of the seed beside theirs. A statistic of n draws lies within 5 of its own standard deviations (one in 1.7
// million does not); the draws are fixed by the seed, so a test that passes keeps passing.
#include <gtest/gtest.h>

#include <cmath>

#include "model/model.h"
#include "parallel/flat_store.h"
#include "parallel/initialise.h"

namespace ravine {
namespace test_initial_weights {

constexpr double kFar = 5;

struct Drawn {
  explicit Drawn(const Json& config, uint64_t seed = 11)
      : model(make_model(config, "test")), store(model->params(), Types::of(DType::f32), DeviceKind::cpu) {
    initialise(store, seed);
  }
  std::vector<double> of(const std::string& name) {
    TensorView v = store.master(*param(name));
    return {v.as<float>(), v.as<float>() + v.count()};
  }
  Param* param(const std::string& name) {
    Param* p = model->params().find(name);
    require(p != nullptr, "no parameter {}", name);
    return p;
  }
  std::unique_ptr<Model> model;
  FlatStore store;
};

double sum_of(const std::vector<double>& v, auto f) {
  double s = 0;
  for (double x : v) s += f(x);
  return s;
}

// Mean 0, variance std^2, third moment 0, fourth 3 std^4, each with the standard deviation that it has for normal
// draws; share beyond 2 std.
void expect_normal(const std::vector<double>& v, double std, const std::string& what) {
  const double n = static_cast<double>(v.size());
  auto moment = [&](int k) { return sum_of(v, [&](double x) { return std::pow(x / std, k); }) / n; };
  EXPECT_NEAR(moment(1), 0, kFar * std::sqrt(1 / n)) << what;
  EXPECT_NEAR(moment(2), 1, kFar * std::sqrt(2 / n)) << what;
  EXPECT_NEAR(moment(3), 0, kFar * std::sqrt(15 / n)) << what;
  EXPECT_NEAR(moment(4), 3, kFar * std::sqrt(96 / n)) << what;
  const double beyond = std::erfc(2 / std::sqrt(2.0)), share = sum_of(v, [&](double x) { return std::abs(x) > 2 * std; }) / n;
  EXPECT_NEAR(share, beyond, kFar * std::sqrt(beyond * (1 - beyond) / n)) << what;
}

double correlation(const std::vector<double>& a, const std::vector<double>& b) {
  double ab = 0, aa = 0, bb = 0;
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) ab += a[i] * b[i], aa += a[i] * a[i], bb += b[i] * b[i];
  return ab / std::sqrt(aa * bb);
}

const Json kLlama{{"model_type", "llama"},         {"hidden_size", 64},         {"intermediate_size", 96},
                  {"num_hidden_layers", 3},        {"num_attention_heads", 4},  {"vocab_size", 256},
                  {"max_position_embeddings", 32}, {"initializer_range", 0.03}, {"attention_bias", true}};
const Json kGpt2{
    {"model_type", "gpt2"},     {"n_embd", 64}, {"n_layer", 3}, {"n_head", 4}, {"n_positions", 64}, {"vocab_size", 256},
    {"initializer_range", 0.05}};

TEST(InitialWeights, MatricesAreNormalNormsOneBiasesZero) {
  Drawn d(kLlama);
  for (const Param& p : d.model->params().params()) {
    std::vector<double> v = d.of(p.name);
    if (p.init.kind == Init::normal)
      expect_normal(v, 0.03, p.name);
    else
      for (double x : v) ASSERT_EQ(x, p.name.ends_with("norm.weight") ? 1.0 : 0.0) << p.name;
    EXPECT_EQ(p.init.kind == Init::normal, p.shape.rank() == 2) << p.name;
  }
}

// GPT-2 (Radford et al. 2019, section 2.3): 1/sqrt(N) on what ends in the residual stream, N = 2 L sums.
TEST(InitialWeights, Gpt2sResidualProductsBeginSmaller) {
  Drawn d(kGpt2);
  const double small = 0.05 / std::sqrt(2.0 * 3);
  for (const Param& p : d.model->params().params()) {
    if (p.tied || p.init.kind != Init::normal) continue;
    const bool residual = p.name.ends_with("o_proj.weight") || p.name.ends_with("down_proj.weight");
    expect_normal(d.of(p.name), residual ? small : 0.05, p.name);
  }
}

TEST(InitialWeights, FamiliesDrawAtTheDefaultWithoutASetting) {
  Json config = kLlama;
  config.erase("initializer_range");
  Drawn d(config);
  expect_normal(d.of("model.embed_tokens.weight"), 0.02, "Transformers' initializer_range");
}

TEST(InitialWeights, ParametersAreIndependent) {
  Drawn d(kLlama), other(kLlama, 12);
  std::vector<std::string> names;
  for (const Param& p : d.model->params().params())
    if (p.init.kind == Init::normal) names.push_back(p.name);
  ASSERT_GT(names.size(), 20u);
  for (size_t i = 0; i < names.size(); ++i) {
    const std::vector<double> a = d.of(names[i]);
    auto expect_apart = [&](const std::vector<double>& b, const std::string& what) {
      const double n = static_cast<double>(std::min(a.size(), b.size()));
      EXPECT_NEAR(correlation(a, b), 0, kFar / std::sqrt(n)) << names[i] << " and " << what;
    };
    for (size_t j = 0; j < i; ++j) expect_apart(d.of(names[j]), names[j]);
    expect_apart(other.of(names[i]), "the same of another seed");
    for (size_t shift : {1, 2, 4, 64})
      expect_apart({a.begin() + static_cast<ptrdiff_t>(shift), a.end()}, fmt::format("itself {} further", shift));
  }
}

TEST(InitialWeights, BothMethodsToDrawAgree) {
  Drawn d(kGpt2);
  FlatStore whole(d.model->params(), Types::of(DType::f32), DeviceKind::cpu);
  initialise(d.model->params(), whole, 11);
  for (const Param& p : d.model->params().params()) {
    TensorView a = whole.master(p), b = d.store.master(p);
    for (int64_t i = 0; i < a.count(); ++i) ASSERT_EQ(a.as<float>()[i], b.as<float>()[i]) << p.name;
  }
}

}  // namespace test_initial_weights
}  // namespace ravine

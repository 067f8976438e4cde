// The tape over every family in f64: gradients against central differences; equality of every way to keep activations, of packed and
// padded batches with sequences by themselves.
#include "tests/unit/families.h"

namespace ravine {
namespace {

class Families : public testing::TestWithParam<std::string> {
 protected:
  Json config() const { return tiny_families().at(GetParam()); }
  static TinyBatch packed() {
    TinyBatch b;
    b.add(tiny_tokens(1, 8)), b.add(tiny_tokens(2, 5), 0, 1);
    return b;
  }
};

void expect_central_differences(TinyRun& run, TinyBatch& batch, const std::map<std::string, std::vector<double>>& gradients) {
  const double h = 1e-4;
  for (const Param& p : run.model->params().params()) {
    if (p.tied) continue;
    const std::vector<double>& g = gradients.at(p.name);
    double* w = run.store.master(p).as<double>();
    double scale = 0;
    for (double x : g) scale = std::max(scale, std::abs(x));
    EXPECT_GT(scale, 0) << p.name;
    for (int64_t i = 0; i < p.shape.count(); i += std::max<int64_t>(1, p.shape.count() / 4)) {
      double keep = w[i];
      auto at = [&](double d) {
        w[i] = keep + d;
        double l = run.only_loss(batch);
        w[i] = keep;
        return l;
      };
      // Five points: error h^4 f'''''/30, rounding eps |loss| / h.
      double d = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h);
      EXPECT_NEAR(g[static_cast<size_t>(i)], d, 3e-10 + 1e-7 * scale) << p.name << " [" << i << "]";
    }
  }
}

TEST_P(Families, GradientsEqualCentralDifferences) {
  TinyBatch batch = packed();
  for (bool unfused : {false, true}) {
    TinyRun run(config(), DType::f64, "cheap", unfused ? 0.3 : 0,
                unfused ? std::vector<std::string>{"attention", "add_rms_norm", "add_layer_norm", "loss_head"} : std::vector<std::string>());
    expect_central_differences(run, batch, run.gradients(batch));
  }
}

// Also with the kernels of cpu, whose fused norms must add as their unfused definition does.
TEST_P(Families, RecomputationAndUnfusedNormsKeepTheBits) {
  for (DType t : {DType::f32, DType::bf16, DType::f16})
    for (const Kernels& table : {ref_kernels(), cpu_kernels()}) {
      TinyBatch batch = packed();
      double want, got;
      TinyRun run(config(), t, "none", 0.2, {}, table);
      auto first = run.gradients(batch, &want);
      for (const char* recompute : {"cheap", "full"})
        for (bool unfused : {false, true}) {
          TinyRun other(config(), t, recompute, 0.2,
                        unfused ? std::vector<std::string>{"add_rms_norm", "add_layer_norm"} : std::vector<std::string>(), table);
          auto g = other.gradients(batch, &got);
          EXPECT_EQ(want, got) << table.backend << " " << name(t) << " " << recompute;
          EXPECT_TRUE(first == g) << table.backend << " " << name(t) << " " << recompute;
        }
    }
}

// What a sequence gives depends neither on its neighbours in the batch nor on padding on either side.
TEST_P(Families, PackedAndPaddedRowsAreThemselves) {
  TinyRun run(config(), DType::f64, "cheap");
  const auto a = tiny_tokens(1, 8), b = tiny_tokens(2, 5);
  TinyBatch only_a, only_b, together;
  only_a.add(a), only_b.add(b);
  together.add(a, 3, 2), together.add(b, 4, 0);
  auto la = run.logits(only_a), lb = run.logits(only_b), all = run.logits(together);
  for (size_t i = 0; i < la.size(); ++i) EXPECT_NEAR(all[3 * 19 + i], la[i], 1e-12 * (1 + std::abs(la[i])));
  for (size_t i = 0; i < lb.size(); ++i) EXPECT_NEAR(all[17 * 19 + i], lb[i], 1e-12 * (1 + std::abs(lb[i])));
  double one, two, both;
  auto ga = run.gradients(only_a, &one), gb = run.gradients(only_b, &two), g = run.gradients(together, &both);
  EXPECT_NEAR(both, one + two, 1e-13 * both);
  double all_of_them = 0;
  for (auto& [name, values] : g)
    for (double x : values) all_of_them = std::max(all_of_them, std::abs(x));
  for (auto& [name, values] : g) {
    double scale = 1e-3 * all_of_them;  // the bias of k has no gradient but roundings: the softmax does not see it
    for (double x : values) scale = std::max(scale, std::abs(x));
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], ga.at(name)[i] + gb.at(name)[i], 1e-12 * scale) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Families, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (auto& [name, config] : tiny_families()) names.push_back(name);
                           return names;
                         }()),
                         [](const auto& info) {
                           std::string s = info.param;
                           std::replace(s.begin(), s.end(), '-', '_');
                           return s;
                         });

}  // namespace
}  // namespace ravine

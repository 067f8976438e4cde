// Families against results of Transformers in double (tests/golden/families, made by tools/golden/make_families.py).
// Compared are both spellings of the config, the family's names, logits, hidden states, loss, every gradient under the
// name in the file, and beam searches. Export gives the file that was read.
#include <filesystem>

#include "files/safetensors.h"
#include "infer/beams.h"
#include "infer/generator.h"
#include "infer/trace.h"
#include "io/huggingface.h"
#include "tests/unit/families.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_family_golden {

namespace fs = std::filesystem;
const std::string kGolden = RAVINE_SOURCE_DIR "/tests/golden/families/";

std::vector<double> doubles(const SafetensorsReader& file, const std::string& name) {
  const TensorInfo& t = file.tensor(name);
  auto bytes = file.bytes(t);
  std::vector<double> out(static_cast<size_t>(t.shape.count()));
  require(t.dtype == DType::f64, "{} is not f64", name);
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

std::vector<double> doubles(const NamedTensor& t) {
  std::vector<double> out(static_cast<size_t>(t.shape.count()));
  if (t.dtype == DType::f64) {
    std::memcpy(out.data(), t.data.data(), t.data.size());
  } else {
    std::vector<float> f(out.size());
    std::memcpy(f.data(), t.data.data(), t.data.size());
    out.assign(f.begin(), f.end());
  }
  return out;
}

double norm(const std::vector<double>& v) {
  double squares = 0;
  for (double x : v) squares += x * x;
  return std::sqrt(squares);
}

class Golden : public testing::TestWithParam<std::string> {
 protected:
  std::string folder() const { return kGolden + GetParam(); }
};

// Bounds follow from PyTorch's own spread in single precision (distance.json: per tensor, the largest over a few orders
// of its sums). A second program, with other orders and kernels, is another draw of that spread: 8 times. Roundings of
// double precision are 2^-29 of these and grow alike.
TEST_P(Golden, LogitsHiddenStatesLossAndGradients) {
  const SafetensorsReader io(folder() + "/io.safetensors");
  const Json far = read_json(folder() + "/distance.json");
  for (DType t : {DType::f64, DType::f32}) {
    LoadedModel s = load_model(folder(), t, t == DType::f64 ? Backend::ref : Backend::cpu, OpenFor::gradients);
    TraceInput in = read_trace_input(folder() + "/io.safetensors", s.model->facts());
    const double rounding = epsilon(t) / 2;
    std::set<std::string> given;
    for (const NamedTensor& out : trace(s, in, true, {})) {
      if (out.name.starts_with("router.")) {  // the choices, which show in all that is recorded
        ASSERT_TRUE(out.dtype == DType::i32 && out.shape.rank() == 3) << out.name;
        std::vector<int32_t> chosen(static_cast<size_t>(out.shape.count()));
        std::memcpy(chosen.data(), out.data.data(), out.data.size());
        for (size_t i = 0; i < chosen.size(); i += static_cast<size_t>(out.shape[2])) {
          const std::set<int32_t> apart(chosen.begin() + static_cast<std::ptrdiff_t>(i),
                                        chosen.begin() + static_cast<std::ptrdiff_t>(i) + out.shape[2]);
          EXPECT_TRUE(static_cast<int64_t>(apart.size()) == out.shape[2] && *apart.begin() >= 0) << out.name;
        }
        continue;
      }
      given.insert(out.name);
      ASSERT_NE(io.find(out.name), nullptr) << out.name;
      ASSERT_TRUE(io.tensor(out.name).shape == out.shape) << out.name << " " << out.shape.text();
      auto want = doubles(io, out.name), got = doubles(out), off = got;
      for (size_t i = 0; i < want.size(); ++i) off[i] -= want[i];
      const double bound = 8 * far.at(out.name).get<double>() * rounding / 0x1p-24 + 4 * rounding * norm(want);
      EXPECT_LE(norm(off), bound) << out.name << " in " << name(t) << ", of norm " << norm(want);
    }
    for (const TensorInfo& i : io.tensors())
      EXPECT_TRUE(given.count(std::string(i.name)) || i.name == "input_ids" || i.name == "labels")
          << i.name << " is not written";
  }
}

TEST_P(Golden, BothSpellingsOfTheConfigAreOneModel) {
  auto four = open_model(folder() + "/config.json"), five = open_model(folder() + "/config.v5.json");
  ASSERT_EQ(four->files().tensors.size(), five->files().tensors.size());
  for (size_t i = 0; i < four->files().tensors.size(); ++i) {
    EXPECT_EQ(four->files().tensors[i].name, five->files().tensors[i].name);
    EXPECT_TRUE(four->files().tensors[i].shape == five->files().tensors[i].shape);
  }
  TemporaryFolder copy;
  fs::copy_file(folder() + "/model.safetensors", copy / "model.safetensors");
  fs::copy_file(folder() + "/config.v5.json", copy / "config.json");
  LoadedModel a = load_model(folder(), DType::f32, Backend::cpu, OpenFor::gradients),
              b = load_model(copy / "", DType::f32, Backend::cpu, OpenFor::gradients);
  TraceInput in = read_trace_input(folder() + "/io.safetensors", a.model->facts());
  EXPECT_TRUE(trace(a, in, false, {})[0].data == trace(b, in, false, {})[0].data);
}

TEST_P(Golden, ExportIsTheFileThatWasRead) {
  TemporaryFolder out;
  LoadedModel s = load_model(folder(), DType::f32, Backend::cpu, OpenFor::gradients);
  save_model_folder({out / "m"}, *s.model, *s.trainable);
  const SafetensorsReader was(folder() + "/model.safetensors"), is(out / "m/model.safetensors");
  ASSERT_EQ(was.tensors().size(), is.tensors().size());
  for (const TensorInfo& t : was.tensors()) {
    const TensorInfo* same = is.find(t.name);
    ASSERT_NE(same, nullptr) << t.name;
    EXPECT_TRUE(same->shape == t.shape) << t.name;
    auto a = was.bytes(t), b = is.bytes(*same);
    EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end())) << t.name;
  }
}

// Token for token, in f64 and in f32, all prompts of a setting in one batch, two of them at a time.
TEST_P(Golden, Beams) {
  const Json golden = read_json(folder() + "/beams.json");
  ASSERT_GE(golden.at("cases").size(), 12);
  for (DType t : {DType::f64, DType::f32}) {
    LoadedModel s = load_model(folder(), t, t == DType::f64 ? Backend::ref : Backend::cpu);
    std::map<std::string, std::vector<Json>> by_setting;
    for (const Json& c : golden.at("cases")) {
      Json key = c;
      for (const char* k : {"prompt", "sequences", "scores"}) key.erase(k);
      by_setting[key.dump()].push_back(c);
    }
    for (auto& [setting, cases] : by_setting) {
      const Json& c = cases[0];
      GenerateOptions o;
      o.max_new_tokens = golden.at("max_new_tokens");
      o.end_ids = c.at("eos").get<std::vector<int32_t>>();
      o.batch = 2;
      o.processing.repetition_penalty = c.value("repetition_penalty", 1.0);
      o.processing.no_repeat_ngram = c.value("no_repeat_ngram_size", 0);
      BeamOptions b;
      b.beams = c.at("num_beams");
      b.length_penalty = c.at("length_penalty");
      const Json& early = c.at("early_stopping");
      b.early_stopping = early == Json("never") ? EarlyStop::never : early.get<bool>() ? EarlyStop::yes : EarlyStop::no;
      std::vector<std::vector<int32_t>> prompts;
      for (const Json& one : cases) prompts.push_back(one.at("prompt").get<std::vector<int32_t>>());
      auto got = generate_beams(s, prompts, o, b, b.beams);
      for (size_t i = 0; i < cases.size(); ++i) {
        ASSERT_EQ(got[i].beams.size(), cases[i].at("sequences").size()) << setting;
        for (size_t k = 0; k < got[i].beams.size(); ++k) {
          EXPECT_EQ(got[i].beams[k].ids, cases[i].at("sequences").at(k).get<std::vector<int32_t>>())
              << setting << " prompt " << i << " beam " << k;
          // Single precision sums up to 14 log-probabilities of a few units each.
          EXPECT_NEAR(got[i].beams[k].score, cases[i].at("scores").at(k).get<double>(), 1e-4) << setting;
        }
        EXPECT_EQ(got[i].ids, got[i].beams[0].ids);
      }
    }
  }
}

// Prompts may be read in pieces of any size, also by beams, and beside others.
TEST_P(Golden, PromptsInPieces) {
  LoadedModel s = load_model(folder(), DType::f64, Backend::ref);
  const std::vector<std::vector<int32_t>> prompts{{3, 7, 11, 4, 19, 5, 6, 8, 21, 22, 4, 9, 13}, {5, 5, 9, 2, 17, 20}, {25}};
  GenerateOptions o;
  o.max_new_tokens = 9;
  BeamOptions b;
  b.beams = 3;
  std::vector<Generated> greedy, beams;
  for (const auto& p : prompts) {
    o.batch = 1;
    greedy.push_back(generate(s, {p}, o)[0]);
    beams.push_back(generate_beams(s, {p}, o, b, 3)[0]);
  }
  for (int64_t piece : {2, 5, 1024}) {
    o.batch = 3, o.step_tokens = piece;
    const auto one = generate(s, prompts, o), many = generate_beams(s, prompts, o, b, 3);
    for (size_t i = 0; i < prompts.size(); ++i) {
      EXPECT_EQ(one[i].ids, greedy[i].ids) << i << " in pieces of " << piece;
      for (size_t k = 0; k < 3; ++k) EXPECT_EQ(many[i].beams[k].ids, beams[i].beams[k].ids) << i << " in pieces of " << piece;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn([] {
                           std::vector<std::string> names;
                           for (const auto& e : fs::directory_iterator(kGolden)) names.push_back(e.path().filename().string());
                           std::sort(names.begin(), names.end());
                           return names;
                         }()),
                         [](const auto& info) { return info.param; });

}  // namespace test_family_golden
}  // namespace ravine

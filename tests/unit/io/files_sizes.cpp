// Sizes beyond one chunk: comparisons, checksums, weights that are converted in pieces; and files that grow on a full
// disk.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>

#include <cmath>
#include <cstring>

#include "files/appended_file.h"
#include "files/checksum.h"
#include "files/compare.h"
#include "files/convert.h"
#include "files/safetensors.h"
#include "io/huggingface.h"
#include "io/open_weights.h"
#include "parallel/flat_store.h"
#include "parallel/initialise.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_files_sizes {

Difference difference(const std::vector<float>& a, const std::vector<float>& b) {
  return compare(DType::f32, std::as_bytes(std::span(a)), DType::f32, std::as_bytes(std::span(b)));
}

constexpr size_t kChunkOf = 1 << 16;  // of files/compare.cpp

TEST(CompareLarge, SumsAndExtremesAreOfAllChunks) {
  std::vector<float> a(3 * kChunkOf + 777);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(std::sin(static_cast<double>(i)) + 1.5);
  for (size_t turned = 0; turned < 4; ++turned) {
    std::vector<float> b = a;
    for (size_t i = turned * kChunkOf; i < std::min(a.size(), (turned + 1) * kChunkOf); ++i) b[i] = -a[i];
    double dot = 0, squares = 0;
    for (size_t i = 0; i < a.size(); ++i) dot += double{a[i]} * b[i], squares += double{a[i]} * a[i];
    const Difference d = difference(a, b);
    EXPECT_NEAR(d.cosine, dot / squares, 1e-12) << turned;
    EXPECT_EQ(d.differing, static_cast<int64_t>(std::min(kChunkOf, a.size() - turned * kChunkOf)));
  }
}

TEST(CompareLarge, NamesTheFirstOfTheLargestAndCountsEach) {
  std::vector<float> a(3 * kChunkOf, 1), b = a;
  for (size_t at : {size_t{1023}, size_t{1024}, kChunkOf - 1, kChunkOf, 2 * kChunkOf + 5}) b[at] = 2;
  b[kChunkOf + 9] = 1.5;
  Difference d = difference(a, b);
  EXPECT_TRUE(d.differing == 6 && d.at == 1023 && d.max_abs == 1 && d.max_ulp == 1 << 23)
      << d.differing << " " << d.at << " " << d.max_ulp;
  b[2 * kChunkOf + 5] = 3;
  d = difference(a, b);
  EXPECT_TRUE(d.at == static_cast<int64_t>(2 * kChunkOf + 5) && d.max_abs == 2 && d.max_ulp == (1 << 23) + (1 << 22));
  EXPECT_EQ(d.max_rel, 2.0 / 3);
  a[5] = NAN, b[kChunkOf + 1] = NAN;
  d = difference(a, b);
  EXPECT_TRUE(d.nan_on_one == 2 && d.at == 5 && std::isinf(d.max_abs) && std::isinf(d.max_rel));
}

TEST(ChecksumLarge, OfFilesBeyondOneRead) {
  TemporaryFolder f;
  std::string bytes((3 << 20) + 17, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 2654435761u >> 13);
  spill(f / "a", bytes);
  EXPECT_EQ(checksum_of_file(f / "a"), checksum_of(std::as_bytes(std::span(bytes))));
  Checksum sum;
  for (size_t at = 0; at < bytes.size(); at += 1000)
    sum.update(std::as_bytes(std::span(bytes)).subspan(at, std::min<size_t>(1000, bytes.size() - at)));
  EXPECT_EQ(sum.value(), checksum_of(std::as_bytes(std::span(bytes))));
  uint64_t value = 0;
  EXPECT_EQ(checksum_text(0x1a2b), "0000000000001a2b");
  EXPECT_TRUE(parse_checksum("0000000000001a2b", &value) && value == 0x1a2b);
  for (const char* bad : {"000000000001a2b", "00000000000001a2b", "000000000000xa2b", "-000000000001a2b", ""})
    EXPECT_FALSE(parse_checksum(bad, &value)) << bad;
}

// A limit on the size of files stands for a full disk.
class SmallFiles {
 public:
  explicit SmallFiles(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    old_ = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit now{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallFiles() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    ::signal(SIGXFSZ, old_);
  }

 private:
  rlimit before_{};
  void (*old_)(int);
};

TEST(AppendedFile, HoldsWholeRecordsOnly) {
  TemporaryFolder f;
  spill(f / "a", "begun\n");
  AppendedFile file(Fd(::open((f / "a").c_str(), O_RDWR | O_CLOEXEC)), f / "a");
  file.append("first\n");
  {
    SmallFiles limit(22);  // ten bytes of the second
    EXPECT_THROW(file.append("a record that is too long\n"), Error);
  }
  EXPECT_EQ(slurp(f / "a"), "begun\nfirst\n") << "of what found no room nothing stays";
  file.append("second\n");
  EXPECT_EQ(slurp(f / "a"), "begun\nfirst\nsecond\n");
}

// --- weights

struct Holder {
  explicit Holder(const Json& c)
      : model(make_model(c, "config.json")), store(model->params(), Types::of(DType::f32), DeviceKind::cpu) {
    initialise(model->params(), store, 3);
  }
  std::unique_ptr<Model> model;
  FlatStore store;
};

// Matrices beyond the elements that are converted at a time, stored as they are and transposed.
TEST(ModelFolder, LargeTensorsComeBackElementByElement) {
  const Json llama{{"model_type", "llama"},      {"hidden_size", 2048},           {"intermediate_size", 36},
                   {"num_hidden_layers", 1},     {"num_attention_heads", 2},      {"head_dim", 8},
                   {"vocab_size", 2100},         {"max_position_embeddings", 16}, {"rms_norm_eps", 1e-5},
                   {"tie_word_embeddings", true}};
  const Json gpt2{{"model_type", "gpt2"}, {"n_embd", 512},     {"n_layer", 1},    {"n_head", 2},
                  {"n_inner", 8400},      {"n_positions", 16}, {"vocab_size", 30}};
  for (const Json& config : {llama, gpt2})
    for (DType type : {DType::bf16, DType::f32}) {
      TemporaryFolder folder;
      Holder a(config), b(config);
      save_model_folder({folder / "m", type}, *a.model, a.store);
      load_weights(folder / "m", *b.model, b.store);
      for (const Param& p : a.model->params().params()) {
        const float *x = a.store.master(p).as<float>(), *y = b.store.master(p).as<float>();
        for (int64_t i = 0; i < p.shape.count(); ++i)
          ASSERT_EQ(y[i], type == DType::f32 ? x[i] : static_cast<float>(bf16(x[i]))) << p.name << " " << i;
      }
    }
}

TEST(ModelFolder, GenerationConfigHasEveryTokenOfTheModel) {
  Json config{{"model_type", "llama"},    {"hidden_size", 8}, {"intermediate_size", 12},       {"num_hidden_layers", 1},
              {"num_attention_heads", 2}, {"vocab_size", 23}, {"max_position_embeddings", 16}, {"bos_token_id", 1},
              {"eos_token_id", {2, 5}},   {"pad_token_id", 3}};
  auto saved = [&](const Json& given) {
    TemporaryFolder folder;
    Holder h(config);
    SaveFolder options{.dir = folder / "m"};
    options.generation = given;
    save_model_folder(options, *h.model, h.store);
    return read_json(folder / "m/generation_config.json");
  };
  EXPECT_EQ(saved(Json::object()), (Json{{"bos_token_id", 1}, {"eos_token_id", {2, 5}}, {"pad_token_id", 3}}));
  EXPECT_EQ(saved({{"bos_token_id", 7}, {"pad_token_id", 8}, {"eos_token_id", 9}, {"top_k", 4}}),
            (Json{{"bos_token_id", 7}, {"pad_token_id", 8}, {"eos_token_id", 9}, {"top_k", 4}}));
  config["eos_token_id"] = 4;
  config.erase("pad_token_id"), config.erase("bos_token_id");
  const Json one = saved(Json::object());
  EXPECT_EQ(one.at("eos_token_id"), 4) << "a single one is no list";
  EXPECT_FALSE(one.contains("pad_token_id"));
}

TEST(WeightsType, IsTheOneOfAllFloatingTensors) {
  TemporaryFolder f;
  const std::vector<std::byte> zeros(16);
  auto type_of = [&](std::vector<std::pair<DType, DType>> files) {
    std::filesystem::remove_all(f / "m");
    std::filesystem::create_directory(f / "m");
    int n = 0;
    for (auto [a, b] : files) {
      const std::string name = std::to_string(n++);
      save_safetensors(f / ("m/" + name + ".safetensors"),
                       {{"a" + name, a, {2}, std::span(zeros).first(static_cast<size_t>(2 * size_of(a)))},
                        {"b" + name, b, {2}, std::span(zeros).first(static_cast<size_t>(2 * size_of(b)))}});
    }
    return weights_type(f / "m");
  };
  EXPECT_EQ(type_of({{DType::bf16, DType::bf16}}), DType::bf16);
  EXPECT_EQ(type_of({{DType::i64, DType::f16}, {DType::f16, DType::f16}}), DType::f16) << "whole numbers are no weights";
  EXPECT_EQ(type_of({{DType::f16, DType::f32}}), std::nullopt);
  EXPECT_EQ(type_of({{DType::f16, DType::f16}, {DType::bf16, DType::bf16}}), std::nullopt) << "in another file";
  EXPECT_EQ(type_of({{DType::i64, DType::i32}}), std::nullopt);
}

TEST(OpenWeights, TakesSafetensorsBeforePicklesAndOneFileBeforeShards) {
  TemporaryFolder f;
  const std::vector<std::byte> zeros(4);
  auto put = [&](const std::string& name) { save_safetensors(f / name, {{name, DType::f32, {1}, zeros}}); };
  auto opened = [&] {
    std::vector<std::string> names;
    for (const auto& file : open_weights(f.path())) names.push_back(std::filesystem::path(file->path()).filename().string());
    return names;
  };
  put("b.safetensors"), put("a.safetensors");
  spill(f / "pytorch_model.bin.index.json", "{");
  std::filesystem::remove(f / "pytorch_model.bin.index.json");
  spill(f / "pytorch_model-1.bin", "no pickle");
  EXPECT_EQ(opened(), (std::vector<std::string>{"a.safetensors", "b.safetensors"})) << "every file of a kind, in order";
  spill(f / "model.safetensors.index.json", R"({"weight_map": {"b.safetensors": "b.safetensors"}})");
  EXPECT_EQ(opened(), std::vector<std::string>{"b.safetensors"}) << "what the index names";
  put("model.safetensors");
  EXPECT_EQ(opened(), std::vector<std::string>{"model.safetensors"});
}

}  // namespace test_files_sizes
}  // namespace ravine

#include "io/huggingface.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <random>

#include "files/convert.h"
#include "files/safetensors.h"
#include "files/temporary.h"
#include "parallel/flat_store.h"
#include "parallel/initialise.h"
#include "tests/unit/files_temporary.h"

using namespace ravine;
namespace fs = std::filesystem;

namespace test_io_huggingface {

Json config(bool tied = false) {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 12},
          {"intermediate_size", 20},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 3},
          {"num_key_value_heads", 1},
          {"head_dim", 4},
          {"vocab_size", 37},
          {"max_position_embeddings", 64},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 10000.0},
          {"tie_word_embeddings", tied},
          {"torch_dtype", "float32"},
          {"bos_token_id", 1},
          {"eos_token_id", {2, 5}}};
}

struct World {
  std::unique_ptr<Model> model;
  FlatStore store;
  explicit World(const Json& c, DType compute = DType::f32)
      : model(make_model(c, "config.json")), store(model->params(), Types::of(compute), DeviceKind::cpu) {
    initialise(model->params(), store, 3);
  }
  // The master of every parameter, as doubles.
  std::map<std::string, std::vector<double>> weights() const {
    std::map<std::string, std::vector<double>> out;
    for (const Param& p : model->params().params()) {
      const TensorView v = store.master(p);
      auto& w = out[p.name];
      w.resize(static_cast<size_t>(v.count()));
      convert(v.dtype, v.data, DType::f64, w.data(), v.count());
    }
    return out;
  }
  void clear() {
    for (const Param& p : model->params().params())
      std::memset(store.master(p).data, 0xff, static_cast<size_t>(store.master(p).bytes()));
  }
};

double rounded(double x, DType t) {
  std::array<std::byte, 8> stored;
  convert(DType::f64, &x, t, stored.data(), 1);
  convert(t, stored.data(), DType::f64, &x, 1);
  return x;
}

TEST(HuggingFace, RoundTripInEveryType) {
  for (bool tied : {false, true}) {
    for (DType t : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      for (int64_t shard : {int64_t{0}, int64_t{4000}}) {
        TemporaryFolder folder;
        World a(config(tied)), b(config(tied));
        save_model_folder({folder / "m", t, shard}, *a.model, a.store);
        EXPECT_EQ(folder.count(), 1);
        EXPECT_EQ(folder.has("m/model.safetensors.index.json"), shard > 0);
        EXPECT_EQ(folder.has("m/model.safetensors"), shard == 0);
        b.clear();
        load_weights(folder / "m", *b.model, b.store);
        auto expected = a.weights();
        for (auto& [name, w] : expected)
          for (double& x : w) x = rounded(x, t);
        EXPECT_TRUE(b.weights() == expected) << name(t) << " tied " << tied << " shard " << shard;
        EXPECT_EQ(open_model(folder / "m")->config()["torch_dtype"], t == DType::f32    ? "float32"
                                                                     : t == DType::bf16 ? "bfloat16"
                                                                     : t == DType::f16  ? "float16"
                                                                                        : "float64");
      }
    }
  }
}

TEST(HuggingFace, F64Masters) {
  TemporaryFolder folder;
  World a(config(), DType::f64), b(config(), DType::f64);
  ASSERT_EQ(a.store.master(a.model->params().params()[0]).dtype, DType::f64);
  save_model_folder({folder / "m", DType::f64}, *a.model, a.store);
  b.clear();
  load_weights(folder / "m", *b.model, b.store);
  EXPECT_TRUE(a.weights() == b.weights());
}

TEST(HuggingFace, ShardsAndConfigAsTransformersWritesThem) {
  TemporaryFolder folder;
  Json c = config();
  c.erase("architectures");
  c.erase("torch_dtype");
  c["dtype"] = "float32";
  World w(c);
  spill(folder / "tokenizer.json", "{}");
  spill(folder / "tokenizer.model", "pieces");
  spill(folder / "chat_template.jinja", "{{ x }}");
  spill(folder / "pytorch_model.bin", "not a tokenizer");
  SaveFolder options{.dir = folder / "m",
                     .dtype = DType::bf16,
                     .shard_bytes = 3000,
                     .tokenizer = folder.path(),
                     .generation = {{"temperature", 0.5}, {"eos_token_id", 7}}};
  save_model_folder(options, *w.model, w.store);
  const Json saved = read_json(folder / "m/config.json");
  EXPECT_EQ(saved["dtype"], "bfloat16");
  EXPECT_FALSE(saved.contains("torch_dtype"));
  EXPECT_EQ(saved["architectures"], Json({"LlamaForCausalLM"}));
  EXPECT_EQ(saved["rms_norm_eps"], 1e-5);
  EXPECT_EQ(read_json(folder / "m/generation_config.json"),
            Json({{"temperature", 0.5}, {"eos_token_id", 7}, {"bos_token_id", 1}}));
  EXPECT_EQ(slurp(folder / "m/tokenizer.model") + slurp(folder / "m/tokenizer.json") + slurp(folder / "m/chat_template.jinja"),
            "pieces{}{{ x }}");
  EXPECT_FALSE(folder.has("m/pytorch_model.bin"));
  const Json index = read_json(folder / "m/model.safetensors.index.json");
  int64_t total = 0, names = 0;
  std::set<std::string> files;
  for (const auto& [name, file] : index["weight_map"].items()) files.insert(file.get<std::string>()), ++names;
  for (const std::string& file : files) {
    const SafetensorsReader reader(folder / ("m/" + file));
    EXPECT_EQ(reader.metadata().at("format"), "pt");
    int64_t bytes = 0;
    for (const auto& t : reader.tensors()) {
      bytes += t.end - t.begin;
      EXPECT_EQ(index["weight_map"][t.name], file);
    }
    EXPECT_TRUE(bytes <= 3000 || reader.tensors().size() == 1);
    EXPECT_TRUE(file.ends_with(fmt::format("-of-{:05}.safetensors", files.size()))) << file;
    total += bytes;
  }
  EXPECT_EQ(total, w.model->params().count() * 2);
  EXPECT_EQ(index["metadata"], Json({{"total_parameters", w.model->params().count()}, {"total_size", total}}));
  EXPECT_EQ(names, 2 * 9 + 3);
  // A second save into the same place leaves nothing of the first.
  options.shard_bytes = 0;
  options.tokenizer = folder / "tokenizer.model";
  save_model_folder(options, *w.model, w.store);
  EXPECT_TRUE(folder.has("m/model.safetensors") && !folder.has("m/model.safetensors.index.json") &&
              folder.has("m/tokenizer.model"));
  EXPECT_TRUE(leftovers_of(folder / "m").empty() && !folder.has("m/tokenizer.json"));
}

// Transformers has renamed torch_dtype to dtype: a config keeps the names that it has, both say what the file holds.
TEST(HuggingFace, TheTypeOfTheFileUnderTheNamesOfTheConfig) {
  for (const auto& given : std::vector<std::vector<std::string>>{{"dtype"}, {"torch_dtype"}, {"dtype", "torch_dtype"}, {}}) {
    TemporaryFolder folder;
    Json c = config();
    c.erase("torch_dtype");
    for (const std::string& name : given) c[name] = "float32";
    World w(c);
    save_model_folder({folder / "m", DType::bf16}, *w.model, w.store);
    const Json saved = read_json(folder / "m/config.json");
    const SafetensorsReader weights(folder / "m/model.safetensors");
    for (const TensorInfo& t : weights.tensors()) EXPECT_EQ(t.dtype, DType::bf16);
    for (const std::string name : {"dtype", "torch_dtype"}) {
      const bool has = std::count(given.begin(), given.end(), name) > 0 || (given.empty() && name == "torch_dtype");
      EXPECT_EQ(saved.contains(name), has) << name << ": " << fmt::format("{}", fmt::join(given, " "));
      if (has) EXPECT_EQ(saved[name], "bfloat16") << name << ": " << fmt::format("{}", fmt::join(given, " "));
    }
  }
}

// Somebody puts a file of his own into the model while the next one is written.
struct MeddledStore : FlatStore {
  using FlatStore::FlatStore;
  std::string note;
  void acquire(const Unit& unit) override {
    spill(note, "dear");
    FlatStore::acquire(unit);
  }
};

TEST(HuggingFace, AModelThatCannotHaveItsNameIsNotATemporary) {
  TemporaryFolder folder;
  World a(config());
  MeddledStore store(a.model->params(), Types::of(DType::f32), DeviceKind::cpu);
  initialise(a.model->params(), store, 3);
  SaveFolder options{.dir = folder / "m", .dtype = DType::f32};
  options.run = "a run";
  save_model_folder(options, *a.model, a.store);
  for (const char* new_folder : {"m.new-1", "m.new-2"}) {
    store.note = folder / "m/notes.txt";
    fs::remove(store.note);
    const std::string message = message_of<UserError>([&] { save_model_folder(options, *a.model, store); });
    EXPECT_NE(message.find(folder / new_folder), std::string::npos) << message;
    remove_leftovers(folder.path());  // as the next start does
    EXPECT_TRUE(folder.has(std::string(new_folder) + "/model.safetensors") && slurp(folder / "m/notes.txt") == "dear");
  }
}

struct Loading : ::testing::Test {
  TemporaryFolder folder;
  World world{config()};
  std::vector<TensorBytes> tensors;
  std::vector<std::string> bytes;
  Loading() {
    for (const Param& p : world.model->params().params()) add(p.name, DType::f32, p.shape);
  }
  void add(const std::string& name, DType t, const Shape& shape) {
    bytes.reserve(1000);
    const std::string& b = bytes.emplace_back(static_cast<size_t>(shape.count() * size_of(t)), '\0');
    tensors.push_back({name, t, shape, std::as_bytes(std::span(b))});
  }
  std::string path() const { return folder / "model.safetensors"; }
  void write() { save_safetensors(path(), tensors); }
  void load() { load_weights(folder.path(), *world.model, world.store); }
  std::string refusal() {
    const auto before = world.weights();
    const std::string text = message_of<UserError>([&] { load(); });
    EXPECT_TRUE(world.weights() == before) << "weights changed though the folder was refused";
    return text;
  }
};

#define EXPECT_CONTAINS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(Loading, NamesWithoutPrefixAndConstantBuffers) {
  for (auto& t : tensors)
    if (t.name.starts_with("model.")) t.name = t.name.substr(6);
  add("model.layers.0.self_attn.rotary_emb.inv_freq", DType::f32, {2});
  add("layers.1.self_attn.rotary_emb.inv_freq", DType::i64, {2});
  write();
  load();
  for (const auto& [name, w] : world.weights())
    for (double x : w) ASSERT_EQ(x, 0) << name;
}

TEST_F(Loading, TiedHeadInTheFileIsIgnored) {
  write();
  World tied(config(true));
  const std::string nan(4 * 37 * 12, '\xff');
  for (auto& t : tensors)
    if (t.name == "lm_head.weight") t.bytes = std::as_bytes(std::span(nan));
  write();
  load_weights(folder.path(), *tied.model, tied.store);
  for (const auto& [name, w] : tied.weights())
    for (double x : w) ASSERT_EQ(x, 0) << name;
}

TEST_F(Loading, RefusalsNameFileAndTensor) {
  const auto all = tensors;
  tensors.erase(tensors.begin() + 3);
  const std::string gone = all[3].name;
  write();
  EXPECT_CONTAINS(
      refusal(),
      fmt::format("missing tensor ({}: tensor '{}'): the model needs it (1 of 21 parameters are missing)", path(), gone));
  tensors = all;
  add("model.layers.2.mlp.up_proj.weight", DType::f32, {20, 12});
  write();
  EXPECT_CONTAINS(refusal(), "surplus tensor (" + path() + ": tensor 'model.layers.2.mlp.up_proj.weight')");
  EXPECT_CONTAINS(refusal(), "the model has 2 layers by its config, the file holds layer 2");
  tensors = all;
  add("model.layers.02.mlp.up_proj.weight", DType::f32, {20, 12});  // no program writes it so
  write();
  EXPECT_CONTAINS(refusal(), "the model has 2 layers by its config, the file holds layer 2");
  tensors = all;
  add("model.layers.1.mlp.upp_proj.weight", DType::f32, {20, 12});
  write();
  EXPECT_CONTAINS(refusal(), "did you mean 'model.layers.1.mlp.up_proj.weight'?");
  tensors = all;
  tensors[0].shape = {12, 37};
  write();
  EXPECT_CONTAINS(refusal(), "misshapen tensor (" + path() +
                                 ": tensor 'model.embed_tokens.weight'): its shape is [12, 37], the model needs [37, 12]");
  tensors = all;
  tensors[0].dtype = DType::i32;
  write();
  EXPECT_CONTAINS(refusal(), "tensor is not floating (" + path() + ": tensor 'model.embed_tokens.weight')");
  tensors = all;
  tensors.push_back(all[0]);
  tensors.back().name = "embed_tokens.weight";
  write();
  EXPECT_CONTAINS(refusal(), "tensor is stored twice (" + path());
  tensors = all;
  write();
  const std::string good = slurp(path());
  spill(path(), good.substr(0, good.size() / 2));
  EXPECT_CONTAINS(refusal(), path());
}

TEST_F(Loading, ShardsAndIndex) {
  const std::vector<TensorBytes> first(tensors.begin(), tensors.begin() + 9), second(tensors.begin() + 9, tensors.end());
  save_safetensors(folder / "a.safetensors", first);
  save_safetensors(folder / "b.safetensors", second);
  EXPECT_NO_THROW(load());  // without an index
  Json index;
  for (const auto& t : first) index["weight_map"][t.name] = "a.safetensors";
  for (const auto& t : second) index["weight_map"][t.name] = "b.safetensors";
  const std::string path = folder / "model.safetensors.index.json";
  auto with = [&](auto&& change) {
    Json j = index;
    change(j);
    spill(path, j.dump());
  };
  with([](Json&) {});
  EXPECT_NO_THROW(load());
  with([&](Json& j) { j["weight_map"][first[0].name] = "b.safetensors"; });
  EXPECT_CONTAINS(refusal(), fmt::format("missing tensor ({}: tensor '{}'): {} says that this file holds it",
                                         folder / "b.safetensors", first[0].name, path));
  with([&](Json& j) { j["weight_map"][first[0].name] = "c.safetensors"; });
  EXPECT_CONTAINS(refusal(), fmt::format("missing weight file ({}): {} names it for tensor '{}'", folder / "c.safetensors",
                                         path, first[0].name));
  for (const char* evil : {"../a.safetensors", "/etc/passwd", "..", ""}) {
    with([&](Json& j) { j["weight_map"][first[0].name] = evil; });
    EXPECT_CONTAINS(refusal(), fmt::format("index names no file ({}: tensor '{}')", path, first[0].name));
  }
  with([&](Json& j) { j["weight_map"][first[0].name] = 3; });
  EXPECT_CONTAINS(refusal(), "index names no file");
  with([](Json& j) { j.erase("weight_map"); });
  EXPECT_CONTAINS(refusal(), "not an index of weights (" + path + ": key 'weight_map')");
  spill(path, "{");
  EXPECT_CONTAINS(refusal(), "not valid JSON (" + path);
}

TEST_F(Loading, OtherFolders) {
  EXPECT_CONTAINS(refusal(), "no weights (" + folder.path());
  spill(folder / "pytorch_model.bin", "pickle");
  EXPECT_CONTAINS(refusal(), fmt::format("bad torch file ({})", folder / "pytorch_model.bin"));
  EXPECT_CONTAINS(message_of<UserError>([&] { load_weights(folder / "none", *world.model, world.store); }), folder / "none");
}

TEST_F(Loading, SavingReplacesModelFoldersOnly) {
  fs::create_directory(folder / "mine");
  spill(folder / "mine/notes.txt", "dear");
  auto save = [&](const std::string& dir) { save_model_folder({dir}, *world.model, world.store); };
  EXPECT_CONTAINS(message_of<UserError>([&] { save(folder / "mine"); }), "cannot write model folder (" + (folder / "mine"));
  EXPECT_EQ(slurp(folder / "mine/notes.txt"), "dear");
  EXPECT_CONTAINS(message_of<UserError>([&] { save(folder / "mine/notes.txt"); }), "a file has this name");
  EXPECT_CONTAINS(message_of<UserError>([&] {
                    save_model_folder({folder / "t", DType::f32, 0, folder / "nothing"}, *world.model, world.store);
                  }),
                  "cannot copy tokenizer (" + (folder / "nothing"));
  EXPECT_FALSE(folder.has("t") || !leftovers_of(folder / "t").empty());
  fs::create_directory(folder / "empty");
  save(folder / "empty/");
  save(folder / "new/deep");
  // A model is replaced by the run that made it, as long as nobody has put or changed anything there.
  auto save_as = [&](const std::string& run) {
    SaveFolder o{folder / "made"};
    o.run = run;
    save_model_folder(o, *world.model, world.store);
  };
  save_as("run 1");
  save_as("run 1");
  EXPECT_CONTAINS(message_of<UserError>([&] { save_as("run 2"); }), "was not written by this run");
  spill(folder / "made/README.md", "dear");
  EXPECT_CONTAINS(message_of<UserError>([&] { save_as("run 1"); }), folder / "made/README.md");
  EXPECT_EQ(slurp(folder / "made/README.md"), "dear");
  fs::remove(folder / "made/README.md");
  spill(folder / "made/generation_config.json", "{\"temperature\": 0.5}");
  EXPECT_CONTAINS(message_of<UserError>([&] { save_as("run 1"); }), folder / "made/generation_config.json");
  fs::copy(folder / "empty", folder / "copied", fs::copy_options::recursive);
  fs::remove(folder / "copied/.ravine");
  EXPECT_CONTAINS(message_of<UserError>([&] { save(folder / "copied"); }), "was not written by this run");
  EXPECT_TRUE(folder.has("empty/config.json") && folder.has("new/deep/model.safetensors"));
}

// The published layouts: sharded, tied, half precision, fields of both generations of config.json.
TEST(HuggingFace, SharedModelsComeBackAsTheyWere) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared || !*shared) GTEST_SKIP() << "RAVINE_SHARED names no folder of golden models";
  int models = 0;
  for (const char* name : {"llama-mha", "llama-gqa-tied", "llama31", "llama-linear-hd"}) {
    const std::string from = std::string(shared) + "/golden/models/" + name;
    TemporaryFolder folder;
    auto load = [](const std::string& dir) {
      World w(open_model(dir)->config());
      w.clear();
      load_weights(dir, *w.model, w.store);
      return w.weights();
    };
    World w(open_model(from)->config());
    load_weights(from, *w.model, w.store);
    save_model_folder({.dir = folder / "m",
                       .dtype = DType::f32,
                       .shard_bytes = 40000,
                       .tokenizer = from,
                       .generation = read_json(from + "/generation_config.json")},
                      *w.model, w.store);
    EXPECT_TRUE(load(folder / "m") == w.weights()) << name;
    for (const auto& [param, values] : w.weights())
      for (double x : values) ASSERT_TRUE(std::isfinite(x)) << name << " " << param;
    ++models;
  }
  EXPECT_EQ(models, 4);
}

}  // namespace test_io_huggingface

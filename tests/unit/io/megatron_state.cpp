// Ravine's checkpoints as Megatron's and back: every tensor bit for bit, in each layout, type and optimizer; the forms
// of distrib_optim.pt of all versions; truncated and inconsistent files.
#include "io/convert/megatron_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <functional>

#include "files/torch_file.h"
#include "files/torch_save.h"
#include "io/convert/kept_scalars.h"
#include "io/convert/megatron_distrib.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/our_checkpoint.h"

namespace ravine {
namespace test_megatron_state {

namespace fs = std::filesystem;

// Sizes of which few are multiples of 64, and a vocabulary that is padded.
Json llama(bool tied, int64_t layers = 4) {
  return {{"model_type", "llama"},
          {"hidden_size", 10},
          {"intermediate_size", 14},
          {"num_hidden_layers", layers},
          {"num_attention_heads", 2},
          {"num_key_value_heads", 2},
          {"head_dim", 4},
          {"vocab_size", 131},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"max_position_embeddings", 32},
          {"rope_theta", 1e4},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", tied}};
}

MegatronState with(MegatronNames names, int64_t tensor, int64_t pipeline, int64_t virtual_stages, DType compute,
                   bool distributed, int64_t ranks = 1) {
  MegatronState s;
  s.layout = {
      .names = names, .tensor = tensor, .pipeline = pipeline, .virtual_stages = virtual_stages, .subfolder = "iter_0000005/"};
  s.distributed = distributed, s.ranks = ranks, s.compute = compute;
  s.dynamic_scale = compute == DType::f16;
  s.scheduler = {{"max_lr", 0.5}, {"lr_decay_style", "linear"}};
  return s;
}

std::string written(const TemporaryFolder& folder, const Ours& ours, const Json& model, const MegatronState& s,
                    const std::string& name) {
  TargetFolder target(folder / name, "test");
  write_megatron_state(target, ours.folder(5), model, "test", s, [](int64_t) {});
  target.commit();
  return folder / name;
}

TEST(MegatronState, ThereAndBackInEveryLayout) {
  int made = 0;
  for (const bool tied : {false, true}) {
    TemporaryFolder folder;
    const Json model = llama(tied);
    const Ours ours(folder, model, kScalars, {"m", "v"});
    const struct {
      int64_t tensor, pipeline, virtual_stages;
    } layouts[] = {{1, 1, 1}, {2, 1, 1}, {1, 2, 1}, {2, 2, 1}, {1, 2, 2}};
    for (const MegatronNames names : {MegatronNames::legacy, MegatronNames::mcore})
      for (const auto& l : layouts)
        for (const DType compute : {DType::f32, DType::bf16, DType::f16})
          for (const bool distributed : {false, true}) {
            const std::string what = fmt::format("{}, TP {} PP {} x {}, {}, distributed {}, tied {}",
                                                 names == MegatronNames::mcore ? "mcore" : "legacy", l.tensor, l.pipeline,
                                                 l.virtual_stages, name(compute), distributed, tied);
            const std::string at =
                written(folder, ours, model,
                        with(names, l.tensor, l.pipeline, l.virtual_stages, compute, distributed, distributed ? 3 : 1),
                        fmt::format("out{}", made++));
            for (const std::string& path : {at, at + "/iter_0000005"}) {
              const ForeignState got = open_megatron_state(path, model, "test", 6);
              expect_same(got, ours.values(), what);
              EXPECT_EQ(got.step, 5) << what;
              EXPECT_EQ(got.scalars.at("optimizer_steps"), 4) << what;
              EXPECT_EQ(got.scalars.at("samples"), 30) << what;
              EXPECT_EQ(got.scalars.at("opt_param_scheduler"),
                        Json::parse(R"({"max_lr": 0.5, "lr_decay_style": "linear", "num_steps": 30})"))
                  << what;
              for (const char* key : {"tokens", "seed", "data", "loss_scale"})
                EXPECT_EQ(got.scalars.at(key), kScalars.at(key)) << what;
            }
            EXPECT_EQ(slurp(at + "/latest_checkpointed_iteration.txt"), "5");
            fs::remove_all(at);
          }
  }
  EXPECT_EQ(made, 120);
}

TEST(MegatronState, AnotherBatchGoesOnBehindTheSamples) {
  TemporaryFolder folder;
  const Json model = llama(false, 1);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  const std::string at = written(folder, ours, model, with(MegatronNames::mcore, 1, 1, 1, DType::f16, true), "out");
  const ForeignState got = open_megatron_state(at, model, "test", 10);
  EXPECT_EQ(got.step, 5) << "steps are not counted anew";
  EXPECT_EQ(got.scalars.at("data").at("segments"), Json::parse(R"([{"step": 5, "sample": 30, "global_batch": 10}])"));
  EXPECT_FALSE(got.scalars.contains("seed")) << "what a run of ours has kept is of the other batch";
  EXPECT_EQ(got.scalars.at("loss_scale"), kScalars.at("loss_scale")) << "from grad_scaler";
  EXPECT_EQ(open_megatron_state(at, model, "test", 6, 2).scalars.at("data").at("segments")[0].at("sample"), 12);
}

TEST(MegatronState, TwiceTheSameBytes) {
  TemporaryFolder folder;
  const Json model = llama(true);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  for (const bool distributed : {false, true}) {
    const MegatronState s = with(MegatronNames::mcore, 2, 2, 1, DType::bf16, distributed);
    const std::string a = written(folder, ours, model, s, fmt::format("a{}", distributed)),
                      b = written(folder, ours, model, s, fmt::format("b{}", distributed));
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(a))
      if (entry.is_regular_file()) {
        ++files;
        EXPECT_EQ(slurp(entry.path().string()), slurp(b + entry.path().string().substr(a.size()))) << entry.path();
      }
    EXPECT_EQ(files, distributed ? 10 : 6);
  }
}

TEST(MegatronState, WhatCannotBeWrittenIsRefused) {
  TemporaryFolder folder;
  const Json model = llama(false, 1);
  const auto expect_refused = [&](const Ours& ours, const MegatronState& s, const std::string& words) {
    const std::string message = message_of<UserError>([&] { written(folder, ours, model, s, "refused"); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_FALSE(folder.has("refused"));
  };
  const MegatronState plain = with(MegatronNames::mcore, 1, 1, 1, DType::f32, false);
  const Ours adam(folder, model, kScalars, {"m", "v"});
  expect_refused(adam, with(MegatronNames::mcore, 1, 1, 1, DType::f64, false), "Megatron trains in f32, bf16 and f16");
  MegatronState grouped = plain;
  grouped.optimizer.groups = {ParamGroup{.match = "*"}};
  expect_refused(adam, grouped, "optimizer.groups");
  TemporaryFolder momentum, frozen;
  expect_refused(Ours(momentum, model, kScalars, {"momentum"}), plain, "states of adamw and adam are written");
  expect_refused(Ours(frozen, model, kScalars, {"m", "v"}, {"model.norm.weight"}), plain, "no exp_avg of 'model.norm.weight'");
}

TEST(MegatronState, CutAndChangedFiles) {
  TemporaryFolder folder;
  const Json model = llama(true, 1);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  int refused = 0, cuts = 0;
  for (const bool distributed : {false, true}) {
    const std::string at = written(folder, ours, model, with(MegatronNames::mcore, 1, 1, 1, DType::f16, distributed),
                                   fmt::format("out{}", distributed));
    const auto opens = [&](const std::string& what) {
      try {
        const ForeignState got = open_megatron_state(at, model, "test", 6);
        for (const auto& [name, e] : got.tensors) bits(*e);
        return true;
      } catch (const UserError& e) {
        EXPECT_NE(std::string(e.what()).find(folder.path()), std::string::npos) << what << ": " << e.what();
        return false;
      }
    };
    for (const char* file : {"model_optim_rng.pt", "distrib_optim.pt"}) {
      const std::string path = at + "/iter_0000005/mp_rank_00/" + file;
      if (!fs::exists(path)) continue;
      const std::string whole = slurp(path);
      for (size_t n = 0; n < whole.size(); n += 1 + whole.size() / 60) {
        spill(path, whole.substr(0, n));
        EXPECT_FALSE(opens(path)) << path << " cut to " << n;
        ++cuts;
        std::string changed = whole;
        changed[n] = static_cast<char>(changed[n] ^ (1 << (n % 8)));
        spill(path, changed);
        refused += !opens(path);
      }
      fs::remove(path);
      EXPECT_FALSE(opens(path)) << "it is gone";
      spill(path, whole);
    }
    EXPECT_TRUE(opens("whole"));
  }
  EXPECT_GT(cuts, 150);
  EXPECT_GT(refused, 10);
}

TEST(MegatronState, WhatARunHasKeptMayBeAnything) {
  const TemporaryFolder folder;
  const auto kept = [&](const std::string& text) {
    TorchSave out(folder / "kept.pt");
    out.begin_dict(), out.text(kOwnScalars), out.text(text), out.end();
    out.commit();
    Json scalars = Json::object();
    take_kept_scalars(kept_scalars_in(TorchFile(folder / "kept.pt").pickle()), scalars);
    return scalars;
  };
  EXPECT_EQ(kept(R"({"seed": 3})"), Json({{"seed", 3}}));
  for (const std::string& text :
       {std::string("no JSON"), std::string("[1]"), R"({"data":)" + std::string(500000, '[') + std::string(500000, ']') + "}"})
    EXPECT_TRUE(kept(text).empty()) << text.substr(0, 20);
}

TEST(MegatronState, AStepThatIsNoneIsRefused) {
  TemporaryFolder folder;
  const Json model = llama(true, 1);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  const std::string at = written(folder, ours, model, with(MegatronNames::mcore, 1, 1, 1, DType::bf16, true), "out"),
                    path = at + "/iter_0000005/mp_rank_00/model_optim_rng.pt", whole = slurp(path);
  const auto integer = [](int32_t v) {
    std::string out = "J";
    for (int i = 0; i < 4; ++i) out += static_cast<char>(static_cast<uint32_t>(v) >> (8 * i));
    return out;
  };
  const auto error_text = [&](const std::string& before, const std::string& after) {
    std::string changed = whole;
    size_t found = 0;
    for (size_t n = changed.find(before); n != std::string::npos; n = changed.find(before, n + 1), ++found)
      changed.replace(n, before.size(), after);
    EXPECT_GT(found, 0U) << before;
    spill(path, changed);
    const std::string message = message_of<UserError>([&] { open_megatron_state(at, model, "test", 6); });
    spill(path, whole);
    return message;
  };
  const auto has = [](const std::string& message, std::initializer_list<const char*> words) {
    for (const char* word : words) EXPECT_NE(message.find(word), std::string::npos) << word << " in " << message;
  };
  const std::string none = "NN0N0", text = std::string("U\x03now", 5);  // None, and None twice put away; a text
  has(error_text("iteration" + integer(5), "iterati0n" + integer(5)), {"missing", "model_optim_rng.pt: iteration"});
  has(error_text("iteration" + integer(5), "iteration" + none), {"no whole number"});
  has(error_text("iteration" + integer(5), "iteration" + integer(-3)), {"-3", "it counts from 0"});
  has(error_text("iteration" + integer(5), "iteration" + integer(6)), {"iter_0000005", "says 5", "bad iteration: 6"});
  const std::string step = std::string("X\x04\0\0\0step", 9);
  has(error_text(step + integer(4), step + integer(-1)), {"bad step of the optimizer: -1"});
  has(error_text(step + integer(4), step + text), {"bad step of the optimizer: no whole number"});
  fs::rename(at + "/iter_0000005", at + "/iter_0000007");
  spill(at + "/latest_checkpointed_iteration.txt", "7");
  has(message_of<UserError>([&] { open_megatron_state(at, model, "test", 6); }), {"iter_0000007", "says 7"});
}

TEST(MegatronState, OffsetsInABuffer) {
  const std::vector<int64_t> counts{100, 64, 10, 7};  // from the first to the last of the model
  const struct {
    DistribLayout layout;
    int64_t tied;
    std::vector<int64_t> begin;
    int64_t count;
  } cases[] = {
      {{.alignment = 1}, -1, {81, 17, 7, 0}, 181},
      {{.alignment = 64}, -1, {192, 128, 64, 0}, 292},
      // Full after the second, which ends at 74, and the third.
      {{.alignment = 64, .bucket = 70}, -1, {138, 74, 64, 0}, 238},
      {{.alignment = 64, .shared = true}, 0, {192, 128, 64, 0}, 292},
      {{.alignment = 64, .shared = true}, 3, {135, 71, 7, 0}, 235},  // nothing pads behind a bucket
      {{.alignment = 1, .bucket = 17}, -1, {81, 17, 7, 0}, 181},
  };
  for (const auto& c : cases) {
    const DistribOffsets p = distrib_offsets(counts, c.layout, c.tied);
    EXPECT_EQ(p.begin, c.begin) << fmt::format("{} {} {}", c.layout.alignment, c.layout.bucket, c.layout.shared);
    EXPECT_EQ(p.count, c.count);
  }
}

// A rank with the parameters a [2,3] of 1..6 and b [3] of 7..9, and a distrib_optim.pt.
constexpr const char* kTable = "embedding.word_embeddings.weight";
using Values = std::function<void(TorchSave&)>;
using Data = std::vector<std::vector<float>>;

void write_files(const std::string& folder, const Values& distrib, const Data& data) {
  fs::create_directories(folder + "/mp_rank_00");
  TorchSave out(folder + "/mp_rank_00/model_optim_rng.pt");
  out.begin_dict();
  out.text("args"), out.begin_namespace();
  out.text("data_parallel_size"), out.integer(4);
  out.end();
  out.text("checkpoint_version"), out.real(3.0), out.text("iteration"), out.integer(9);
  out.text("model"), out.begin_ordered_dict();
  out.text(kTable), out.tensor(DType::f32, {2, 3});
  out.text("decoder.final_layernorm.weight"), out.tensor(DType::f32, {3});
  out.end();
  out.text("optimizer"), out.begin_dict(), out.text("optimizer"), out.begin_dict(), out.text("param_groups"), out.begin_list();
  out.begin_dict(), out.text("step"), out.integer(8), out.end();
  out.end(), out.end(), out.end(), out.end();
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{7, 8, 9};
  out.write(std::as_bytes(std::span(a))), out.write(std::as_bytes(std::span(b)));
  out.commit();
  TorchSave state(folder + "/mp_rank_00/distrib_optim.pt");
  distrib(state);
  for (const auto& v : data) state.write(std::as_bytes(std::span(v)));
  state.commit();
}

// {chunk 0: {type: {key: [tensors]}}} and what `extra` writes into the outer dict; `inside` into the inner one.
Values form(const std::vector<std::vector<int64_t>>& sizes, bool list, const Values& extra = {}, const Values& inside = {}) {
  return [=](TorchSave& out) {
    out.begin_dict();
    if (extra) extra(out);
    out.integer(0), out.begin_dict(), out.type(DType::f32), out.begin_dict();
    constexpr const char* kKeys[] = {"param", "exp_avg", "exp_avg_sq"};
    for (size_t k = 0; k < sizes.size(); ++k) {
      out.text(kKeys[k]);
      if (list) out.begin_list();
      for (int64_t n : sizes[k]) out.tensor(DType::f32, {n});
      if (list) out.end();
    }
    if (inside) inside(out);
    out.end(), out.end(), out.end();
  };
}

Values number(const char* key, int64_t n) {
  return [=](TorchSave& out) { out.text(key), out.integer(n); };
}
Values per_bucket(const std::vector<std::pair<const char*, std::vector<int64_t>>>& lists) {
  return [=](TorchSave& out) {
    for (const auto& [key, sizes] : lists) {
      out.text(key), out.begin_list(), out.begin_dict(), out.type(DType::f32), out.begin_list();
      for (int64_t n : sizes) out.integer(n);
      out.end(), out.end(), out.end();
    }
  };
}

std::vector<float> filled(std::vector<float> v, size_t size) {
  v.resize(size, -1);  // padding, which nobody reads
  return v;
}
const std::vector<float> kFlat{7, 8, 9, 1, 2, 3, 4, 5, 6};  // the last parameter first

TEST(MegatronState, FormsOfEveryVersion) {
  std::vector<float> aligned = filled({7, 8, 9}, 64);
  aligned.insert(aligned.end(), {1, 2, 3, 4, 5, 6});
  const struct {
    const char* name;
    std::vector<int64_t> sizes;
    bool list;
    Data masters;
    Values extra, inside;
  } cases[] = {
      {"AscendSpeed", {12}, false, {filled(kFlat, 12)}, {}, {}},
      {"2023, one bucket", {12}, true, {filled(kFlat, 12)}, per_bucket({{"per_bucket_numel", {12}}}), {}},
      {"2023, two buckets",
       {4, 8},
       true,
       {filled({7, 8, 9}, 4), filled({1, 2, 3, 4, 5, 6}, 8)},
       per_bucket({{"per_bucket_numel", {4, 8}}}),
       {}},
      {"core 0.5, padding that has room",
       {128, 8},
       true,
       {filled({7, 8, 9}, 128), filled({1, 2, 3, 4, 5, 6}, 8)},
       per_bucket({{"per_bucket_numel", {128, 8}}, {"per_bucket_numel_unpadded", {3, 6}}}),
       {}},
      {"core 0.7", {9}, false, {kFlat}, number("buckets_coalesced", 1), number("numel_unpadded", 9)},
      {"core 0.8", {70}, false, {aligned}, number("buckets_coalesced", 1), number("numel_unpadded", 70)},
  };
  for (const auto& c : cases) {
    TemporaryFolder folder;
    Data data = c.masters;
    for (const float more : {100.0F, 200.0F})
      for (std::vector<float> v : c.masters) {
        for (float& x : v) x += more;
        data.push_back(v);
      }
    write_files(folder / "x", form({c.sizes, c.sizes, c.sizes}, c.list, c.extra, c.inside), data);
    const auto first = [&](StateKind kind, size_t tensor) {
      const MegatronFolder f = open_megatron(folder / "x", kind);
      EXPECT_EQ(optimizer_steps(*f.ranks[0].file), 8);
      return bits(*f.ranks[0].chunks[0][tensor].elements);
    };
    EXPECT_EQ(first(StateKind::masters, 0), (std::vector<float>{1, 2, 3, 4, 5, 6})) << c.name;
    EXPECT_EQ(first(StateKind::first_moment, 1), (std::vector<float>{107, 108, 109})) << c.name;
    EXPECT_EQ(first(StateKind::second_moment, 0), (std::vector<float>{201, 202, 203, 204, 205, 206})) << c.name;
  }
}

TEST(MegatronState, FormsThatLieAreRefused) {
  const auto all = [](int64_t n) { return std::vector<std::vector<int64_t>>{{n}, {n}, {n}}; };
  const Data flat{kFlat, kFlat, kFlat};
  const struct {
    const char* name;
    Values form;
    Data data;
    const char* words;
  } cases[] = {
      {"another order", form(all(9), false), {{1, 2, 3, 4, 5, 6, 7, 8, 9}, kFlat, kFlat}, "masters, rounded, are the weights"},
      {"too short",
       form(all(8), false),
       {{7, 8, 9, 1, 2, 3, 4, 5}, {7, 8, 9, 1, 2, 3, 4, 5}, {7, 8, 9, 1, 2, 3, 4, 5}},
       "must fill its 1 buckets"},
      {"buckets too many", form({{9, 9, 9}, {9}, {9}}, true), {kFlat, kFlat, kFlat, kFlat, kFlat}, "must fill its 3 buckets"},
      {"no second moment", form({{9}, {9}}, false), {kFlat, kFlat}, "it must hold 'exp_avg_sq'"},
      {"a moment too short", form({{9}, {9}, {8}}, false), {kFlat, kFlat, {7, 8, 9, 1, 2, 3, 4, 5}}, "lies as 'param' does"},
      {"its size", form(all(9), false, {}, number("numel_unpadded", 10)), flat,
       "numel_unpadded is the size of 'param', 9, it is 10"},
      {"sizes of buckets", form(all(9), true, per_bucket({{"per_bucket_numel", {12}}})), flat,
       "per_bucket_numel): for chunk 0"},
      {"sizes without padding", form(all(9), true, per_bucket({{"per_bucket_numel_unpadded", {12}}})), flat,
       "per_bucket_numel_unpadded): for chunk 0"},
      {"sizes of other chunks", form(all(9), true, per_bucket({{"per_bucket_numel", {}}})), flat,
       "per_bucket_numel): for chunk 0"},
      {"no chunk",
       [](TorchSave& out) { out.begin_dict(), out.text("0"), out.integer(1), out.end(); },
       {},
       "dict of dicts by the types"},
      {"a number", [](TorchSave& out) { out.integer(1); }, {}, "it is a dict by chunks"},
      {"several optimizers", [](TorchSave& out) { out.begin_list(), out.end(); }, {}, "several, of which one has the experts"},
      {"a matrix",
       [](TorchSave& out) {
         out.begin_dict(), out.integer(0), out.begin_dict(), out.type(DType::f32), out.begin_dict();
         out.text("param"), out.tensor(DType::f32, {3, 3}), out.end(), out.end(), out.end();
       },
       {kFlat},
       "a flat tensor of f32, got f32 [3, 3]"},
  };
  for (const auto& c : cases) {
    TemporaryFolder folder;
    write_files(folder / "x", c.form, c.data);
    const std::string message = message_of<UserError>([&] { open_megatron(folder / "x", StateKind::second_moment); });
    EXPECT_NE(message.find(c.words), std::string::npos) << c.name << ": " << message;
    EXPECT_NE(message.find("distrib_optim.pt"), std::string::npos) << c.name << ": " << message;
    EXPECT_EQ(open_megatron(folder / "x", StateKind::weights).tensor, 1) << "weights need it not";
  }
  TemporaryFolder folder;
  write_files(folder / "x", form(all(9), false), flat);
  fs::remove(folder / "x/mp_rank_00/distrib_optim.pt");
  EXPECT_NE(
      message_of<UserError>([&] { open_megatron(folder / "x", StateKind::first_moment); }).find("distrib_optim.pt beside it"),
      std::string::npos);
}

}  // namespace test_megatron_state
}  // namespace ravine

// Ravine's checkpoints as DeepSpeed's and back: every tensor bit for bit, at each ZeRO stage, any ranks and types; the
// facts of the run; truncated and inconsistent files.
#include "io/convert/deepspeed_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "files/torch_file.h"
#include "files/torch_save.h"
#include "io/checkpoint.h"
#include "io/convert/deepspeed.h"
#include "io/convert/ravine_checkpoint.h"
#include "io/convert/zero_checkpoint.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/our_checkpoint.h"

namespace ravine {
namespace test_deepspeed_state {

namespace fs = std::filesystem;

Json small_llama(bool tied) {
  return {{"model_type", "llama"},
          {"hidden_size", 10},
          {"intermediate_size", 7},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 1},
          {"num_key_value_heads", 1},
          {"head_dim", 4},
          {"vocab_size", 11},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"max_position_embeddings", 32},
          {"rope_theta", 1e4},
          {"initializer_range", 0.02},
          {"tie_word_embeddings", tied}};
}

std::string written(const TemporaryFolder& folder, const Ours& ours, const Json& model, const DeepSpeedState& s,
                    const std::string& name) {
  TargetFolder target(folder / name, "test");
  write_deepspeed_state(target, ours.folder(5), model, "test", s, [](int64_t) {});
  target.commit();
  return folder / name;
}

TEST(DeepSpeedState, ThereAndBackAtEveryStage) {
  for (const bool tied : {false, true}) {
    TemporaryFolder folder;
    const Json model = small_llama(tied);
    const Ours ours(folder, model, kScalars, {"m", "v"});
    int made = 0;
    for (int64_t stage : {0, 1, 2, 3})
      for (int64_t ranks : {1, 2, 3, 7})
        for (DType compute : {DType::f32, DType::bf16, DType::f16})
          for (const DecayOf decay : {DecayOf::all, DecayOf::matrices})
            for (const bool universal : {false, true}) {
              if (stage == 0 && (ranks > 1 || universal)) continue;
              if (compute != DType::f32 && ranks != 3 && stage > 0) continue;
              DeepSpeedState s{.stage = stage, .ranks = ranks, .universal = universal, .compute = compute, .sub_group = 40};
              s.optimizer.decay = decay;
              s.dynamic_scale = compute == DType::f16;
              const std::string what = fmt::format("stage {}, {} ranks, {}, {}, universal {}, tied {}", stage, ranks,
                                                   name(compute), name(decay), universal, tied);
              const std::string at = written(folder, ours, model, s, fmt::format("out{}", made++));
              for (const std::string& path : {at, at + (universal ? "/global_step5_universal" : "/global_step5")}) {
                const ForeignState got = open_deepspeed_state(path, model, "test", 6);
                expect_same(got, ours.values(), what);
                EXPECT_EQ(got.step, 5) << what;
                EXPECT_EQ(got.scalars.at("optimizer_steps"), 4) << what;
                EXPECT_EQ(got.scalars.at("skipped_steps"), 1) << what;
                EXPECT_EQ(got.scalars.at("samples"), 30) << what;
                EXPECT_EQ(got.scalars.at("lr_scheduler").at("last_batch_iteration"), 3) << what;
                EXPECT_EQ(got.scalars.at("lr_scheduler").at("last_epoch"), 4) << what;
                for (const char* key : {"tokens", "seed", "data"}) EXPECT_EQ(got.scalars.at(key), kScalars.at(key)) << what;
                Json scale = kScalars.at("loss_scale");
                if (stage == 0) scale["hysteresis"] = 1;
                EXPECT_EQ(got.scalars.at("loss_scale"), scale) << what;
              }
              fs::remove_all(at);
            }
    EXPECT_GT(made, 70);
  }
}

TEST(DeepSpeedState, AnotherBatchGoesOnBehindTheSamples) {
  TemporaryFolder folder;
  const Json model = small_llama(false);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  const std::string at = written(folder, ours, model, {}, "out");
  const ForeignState got = open_deepspeed_state(at, model, "test", 10);
  EXPECT_EQ(got.step, 5) << "steps are not counted anew";
  EXPECT_EQ(got.scalars.at("data").at("segments"), Json::parse(R"([{"step": 5, "sample": 30, "global_batch": 10}])"));
  EXPECT_FALSE(got.scalars.contains("seed")) << "what a run of ours has kept is of the other batch";
  EXPECT_EQ(open_deepspeed_state(at, model, "test", 6, 2).scalars.at("data").at("segments")[0].at("sample"), 12);
}

TEST(DeepSpeedState, FrozenParametersAndOneMomentComeBack) {
  TemporaryFolder folder;
  const Json model = small_llama(false);
  const Ours ours(folder, model, kScalars, {"m"}, {"model.norm.weight", "model.layers.0.self_attn.k_proj.weight"});
  for (int64_t stage : {2, 3}) {
    const std::string at = written(folder, ours, model, {.stage = stage, .ranks = 3}, fmt::format("out{}", stage));
    expect_same(open_deepspeed_state(at, model, "test", 6), ours.values(), fmt::format("stage {}", stage));
  }
}

TEST(DeepSpeedState, TwiceTheSameBytes) {
  TemporaryFolder folder;
  const Json model = small_llama(true);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  for (const bool universal : {false, true}) {
    const DeepSpeedState s{.stage = 3, .ranks = 2, .universal = universal};
    const std::string a = written(folder, ours, model, s, universal ? "ua" : "a"),
                      b = written(folder, ours, model, s, universal ? "ub" : "b");
    int files = 0;
    for (const auto& entry : fs::recursive_directory_iterator(a))
      if (entry.is_regular_file()) {
        ++files;
        EXPECT_EQ(slurp(entry.path().string()), slurp(b + entry.path().string().substr(a.size()))) << entry.path();
      }
    EXPECT_GT(files, 8);
  }
}

TEST(DeepSpeedState, OnlyNeededFilesAreThere) {
  TemporaryFolder folder;
  const Json model = small_llama(false);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  const std::string two = written(folder, ours, model, {.stage = 2, .ranks = 2, .compute = DType::bf16}, "two");
  EXPECT_EQ(slurp(two + "/latest"), "global_step5");
  for (const char* file :
       {"config.json", "model.safetensors", "trainer_state.json", "scheduler.pt", "global_step5/mp_rank_00_model_states.pt",
        "global_step5/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt",
        "global_step5/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt"})
    EXPECT_TRUE(fs::exists(two + "/" + file)) << file;
  EXPECT_EQ(Json::parse(slurp(two + "/trainer_state.json")).at("global_step"), 5);
  const std::string three = written(folder, ours, model, {.stage = 3, .ranks = 2}, "three");
  EXPECT_TRUE(fs::exists(three + "/global_step5/zero_pp_rank_1_mp_rank_00_model_states.pt"));
  EXPECT_FALSE(fs::exists(three + "/global_step5/mp_rank_00_model_states.pt"));
}

// DeepSpeed closes a sub-group once it has stage3_sub_group_size elements. DeepSpeed reads groups by their order, so
// Ravine must write the same groups.
TEST(DeepSpeedState, SubGroupsEndWhereDeepSpeedEndsThem) {
  TemporaryFolder folder;
  const Json model = small_llama(false);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  DeepSpeedState s{.stage = 3, .ranks = 2, .sub_group = 20};  // of a rank: q has 20, both norms of a layer 5 each
  s.optimizer.decay = DecayOf::all;
  const std::string at = written(folder, ours, model, s, "out") + "/global_step5/";
  const TorchFile states(at + "zero_pp_rank_0_mp_rank_00_model_states.pt"),
      shard(at + "zero_pp_rank_0_mp_rank_00_optim_states.pt");
  const Pickle &p = states.pickle(), &o = shard.pickle();
  std::vector<size_t> names;
  for (Pickle::Ref group : p.items(*p.find(p.root(), "param_shapes"))) names.push_back(p.fields(group)->size() / 2);
  EXPECT_EQ(names, (std::vector<size_t>{1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1, 1, 1, 1, 4}));
  const Pickle::Ref inner = *o.find(o.root(), "optimizer_state_dict");
  EXPECT_EQ(o.items(*o.find(inner, "fp32_flat_groups")).size(), names.size());
}

// A run that goes on writes a checkpoint of a step again.
TEST(DeepSpeedState, AFolderIsReplacedWhereThatIsAllowed) {
  TemporaryFolder folder;
  const Json model = small_llama(false);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  const std::string at = written(folder, ours, model, {}, "out");
  spill(at + "/global_step5/mp_rank_00_model_states.pt", "damaged");
  EXPECT_NE(message_of<UserError>([&] { written(folder, ours, model, {}, "out"); }).find("not empty"), std::string::npos);
  const auto again = [&](const MayReplace& allowed) {
    TargetFolder target(at, "test", allowed);
    write_deepspeed_state(target, ours.folder(5), model, "test", {}, [](int64_t) {});
    target.commit();
  };
  EXPECT_THROW(again([](const std::string& path) { throw UserError("kept", path, "it is another's", "name another"); }),
               UserError);
  EXPECT_EQ(slurp(at + "/global_step5/mp_rank_00_model_states.pt"), "damaged");
  again([](const std::string&) {});
  expect_same(open_deepspeed_state(at, model, "test", 6), ours.values(), "replaced");
}

TEST(DeepSpeedState, WhatCannotBeWrittenIsRefused) {
  TemporaryFolder folder;
  const Json model = small_llama(false);
  const auto expect_refused = [&](const Ours& ours, const Json& config, const DeepSpeedState& s, const std::string& words) {
    const std::string message = message_of<UserError>([&] { written(folder, ours, config, s, "refused"); });
    EXPECT_NE(message.find(words), std::string::npos) << message;
    EXPECT_FALSE(folder.has("refused"));
  };
  const Ours adam(folder, model, kScalars, {"m", "v"});
  expect_refused(adam, model, {.compute = DType::f64}, "DeepSpeed trains in f32, bf16 and f16");
  DeepSpeedState grouped;
  grouped.optimizer.groups = {ParamGroup{.match = "*"}};
  expect_refused(adam, model, grouped, "optimizer.groups");
  TemporaryFolder other;
  expect_refused(Ours(other, model, kScalars, {"momentum"}), model, {}, "states of adamw, adam and lion are written");
}

// Every file cut anywhere, or with a byte changed: an error that names a file, or what was there; never anything else.
TEST(DeepSpeedState, CutAndChangedFiles) {
  TemporaryFolder folder;
  const Json model = small_llama(true);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  int refused = 0, cuts = 0;
  for (const auto& [stage, universal] : {std::pair{2, false}, {3, false}, {0, false}, {2, true}}) {
    const std::string at = written(
        folder, ours, model, {.stage = stage, .ranks = 2, .universal = universal, .compute = DType::f16, .dynamic_scale = true},
        fmt::format("out{}{}", stage, universal));
    const auto opens = [&](const std::string& what) {
      try {
        const ForeignState got = open_deepspeed_state(at, model, "test", 6);
        for (const auto& [name, e] : got.tensors) bits(*e);
        return true;
      } catch (const UserError& e) {
        EXPECT_NE(std::string(e.what()).find(folder.path()), std::string::npos) << what << ": " << e.what();
        return false;
      }
    };
    int some = 0;
    for (const std::string& file : zero_checkpoint_files(at)) {
      if (universal && ++some % 9 != 0) continue;
      const std::string whole = slurp(file);
      for (size_t n = 0; n < whole.size(); n += 1 + whole.size() / 40) {
        spill(file, whole.substr(0, n));
        EXPECT_FALSE(opens(file)) << file << " cut to " << n;
        ++cuts;
        std::string changed = whole;
        changed[n] = static_cast<char>(changed[n] ^ (1 << (n % 8)));
        spill(file, changed);
        refused += !opens(file);
      }
      spill(file, whole);
    }
    EXPECT_TRUE(opens("whole"));
  }
  EXPECT_GT(cuts, 300);
  EXPECT_GT(refused, 20);
}

TEST(DeepSpeedState, NamesInLatestStayInTheFolder) {
  TemporaryFolder folder;
  const Json model = small_llama(false);
  const Ours ours(folder, model, kScalars, {"m", "v"});
  const std::string at = written(folder, ours, model, {}, "out");
  for (const char* tag : {"../out/global_step5", "global_step5/../global_step5", "", "..", "nowhere"}) {
    spill(at + "/latest", tag);
    const std::string message = message_of<UserError>([&] { open_deepspeed_state(at, model, "test", 6); });
    EXPECT_NE(message.find("latest"), std::string::npos) << message;
  }
}

// parameter_alignment pads behind each parameter: the second begins where the paddings say.
TEST(DeepSpeedState, PaddingsBehindParametersAreLeftOut) {
  const auto write = [](const std::string& at, const std::vector<int64_t>& paddings) {
    fs::create_directories(at);
    {
      TorchSave out(at + "/mp_rank_00_model_states.pt");
      out.begin_dict();
      out.text("module"), out.begin_dict(), out.end();
      out.text("param_shapes"), out.begin_list(), out.begin_ordered_dict();
      out.text("a"), out.size({3}), out.text("b"), out.size({2}), out.end(), out.end();
      out.end();
      out.commit();
    }
    TorchSave out(at + "/zero_pp_rank_0_mp_rank_00_optim_states.pt");
    out.begin_dict(), out.text("optimizer_state_dict"), out.begin_dict();
    out.text("zero_stage"), out.integer(1), out.text("partition_count"), out.begin_list(), out.integer(1), out.end();
    out.text("base_optimizer_state"), out.begin_dict(), out.text("state"), out.begin_dict(), out.end(), out.end();
    out.text("single_partition_of_fp32_groups"), out.begin_list(), out.tensor(DType::f32, {6}), out.end();
    out.text("param_alignment_paddings"), out.begin_list(), out.begin_list();
    for (int64_t p : paddings) out.integer(p);
    out.end(), out.end(), out.end(), out.end();
    const float values[] = {1, 2, 3, 9, 4, 5};
    out.write(std::as_bytes(std::span(values)));
    out.commit();
  };
  TemporaryFolder folder;
  write(folder / "right", {1, 0});
  EXPECT_EQ(bits(*read_zero_weights(folder / "right").at("b")), (std::vector<float>{4, 5}));
  for (const auto& lying : {std::vector<int64_t>{1}, {1, -1}, {1, 100000}, {3, 0}}) {
    fs::remove_all(folder / "lies");
    write(folder / "lies", lying);
    const std::string message = message_of<UserError>([&] { read_zero_weights(folder / "lies"); });
    EXPECT_NE(message.find("padding") == std::string::npos ? message.find("too short") : 0, std::string::npos) << message;
  }
}

// At stage 0 FusedAdam counts in the state of a group's last parameter only.
TEST(DeepSpeedState, UpdatesAreThoseOfTheParameterThatCounts) {
  TemporaryFolder folder;
  {
    TorchSave out(folder / "mp_rank_00_model_states.pt");
    out.begin_dict();
    out.text("module"), out.begin_dict();
    for (const char* name : {"a", "b"}) out.text(name), out.tensor(DType::f32, {1});
    out.end();
    out.text("global_steps"), out.integer(7);
    out.text("optimizer"), out.begin_dict(), out.text("state"), out.begin_dict();
    for (int64_t i : {0, 1}) {
      out.integer(i), out.begin_dict(), out.text("step"), out.integer(i == 0 ? 0 : 6);
      out.text("exp_avg"), out.tensor(DType::f32, {1}), out.end();
    }
    out.end();
    out.text("param_groups"), out.begin_list(), out.begin_dict(), out.text("params"), out.begin_list(), out.integer(0),
        out.integer(1), out.end(), out.end(), out.end();
    out.end(), out.end();
    const float values[] = {1, 2, 3, 4};
    out.write(std::as_bytes(std::span(values)).first(4)), out.write(std::as_bytes(std::span(values)).subspan(4, 4));
    out.write(std::as_bytes(std::span(values)).subspan(8, 4)), out.write(std::as_bytes(std::span(values)).subspan(12, 4));
    out.commit();
  }
  EXPECT_EQ(read_zero_run(folder.path()).updates, 6);
  EXPECT_EQ(bits(*read_zero_state(folder.path(), "exp_avg").at("b")), std::vector<float>{4});
}

}  // namespace test_deepspeed_state
}  // namespace ravine

// Dumps of other programs: their names and figures as records, what is refused, and who is named where two of them
// part.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "base/error.h"
#include "files/npy.h"
#include "probe/compare_dumps.h"
#include "probe/dump_kinds.h"
#include "probe/foreign_tensor.h"
#include "probe/mindspore_dump.h"
#include "probe/msprobe_dump.h"
#include "probe/named_tensors.h"
#include "probe/ptdbg_dump.h"
#include "tests/unit/files_temporary.h"

namespace fs = std::filesystem;

namespace ravine {
namespace test_probe_foreign {

const std::string kGolden = RAVINE_SOURCE_DIR "/tests/golden/msprobe/";

Comparison compared(const std::string& a, const std::string& b) {
  auto [x, y] = read_dumps(a, b);
  return compare_dumps(std::move(x), std::move(y));
}

const DumpRecord* record(const Dump& dump, const std::string& key) {
  for (const RankDump& rank : dump.ranks)
    for (const DumpRecord& r : rank.records)
      if (r.key() == key) return &r;
  return nullptr;
}

void save(const std::string& path, const std::vector<float>& values) {
  fs::create_directories(fs::path(path).parent_path());
  write_npy(path, DType::f32, {static_cast<int64_t>(values.size())}, std::as_bytes(std::span(values)));
}

void replace(const std::string& path, const std::string& old, const std::string& with) {
  std::string text = slurp(path);
  const size_t at = text.find(old);
  ASSERT_NE(at, std::string::npos) << old;
  spill(path, text.replace(at, old.size(), with));
}

TEST(ForeignTensor, FiguresAreThoseThatAreKnown) {
  const TensorFigures f = rough_figures(4, {.min = -3, .max = 2, .mean = 0.5, .l2 = 4, .digest = ""});
  EXPECT_TRUE(f.rough && f.has_statistics && f.all_finite());
  EXPECT_EQ(f.abs_max, 3);
  EXPECT_FALSE(f.same_bits(rough_figures(4, {.min = -3, .max = 2, .mean = 0.5, .l2 = 4.5, .digest = ""})));
  const TensorFigures g = rough_figures(12, {.min = -1, .max = 5, .mean = 1.5, .l2 = 3, .digest = ""});
  const TensorFigures both = joined_figures(std::vector{f, g});
  EXPECT_EQ(both.count, 16);
  EXPECT_EQ(both.min, -3);
  EXPECT_EQ(both.max, 5);
  EXPECT_DOUBLE_EQ(both.mean, 1.25);
  EXPECT_DOUBLE_EQ(both.l2, 5);
  EXPECT_EQ(rough_figures(4, {.min = -3, .max = 2, .mean = 0.5, .l2 = {}, .digest = ""}).l2, 3) << "the least that it can be";
  EXPECT_FALSE(rough_figures(4, {.min = NAN, .max = NAN, .mean = NAN, .l2 = NAN, .digest = ""}).all_finite());
  EXPECT_EQ(foreign_dtype("torch.bfloat16"), DType::bf16);
  EXPECT_EQ(foreign_dtype("Float32"), DType::f32);
  EXPECT_EQ(foreign_dtype("torch.complex64"), std::nullopt);
}

TEST(ForeignTensor, FilesLieInTheDump) {
  EXPECT_EQ(name_inside("a/b.npy", "here"), "a/b.npy");
  for (const char* name : {"", "../x.npy", "a/../../x.npy", "/etc/x.npy"})
    EXPECT_NE(message_of<UserError>([&] { name_inside(name, "dump.json"); }).find("dump.json"), std::string::npos) << name;
}

TEST(Msprobe, ModulesAreOurCalls) {
  const Dump d = read_msprobe_modules(kGolden + "statistics");
  ASSERT_EQ(d.ranks.size(), 1U);
  EXPECT_TRUE(d.of_modules && !d.own_names);
  const DumpRecord* norm = record(d, "1/2/forward/model.layers.1.input_layernorm/rms_norm/0/out/output/");
  ASSERT_TRUE(norm);
  EXPECT_TRUE(norm->figures.rough);
  EXPECT_EQ(norm->shape, (Shape{16, 16}));
  const DumpRecord* joined = record(d, "1/1/forward/model.layers.0.self_attn.q_proj+k_proj+v_proj/matmul/0/out/output/");
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->shape, (Shape{16, 32})) << "16 queries, 8 keys, 8 values";
  ASSERT_TRUE(record(d, "0/1/update/model.norm.weight/state/0/weights/output/"));
  EXPECT_EQ(record(d, "0/1/update/model.norm.weight/state/0/weights/output/")->figures.l2, 4) << "16 ones";
  const DumpRecord* gradient = record(d, "1/1/update/model.norm.weight/gradient/0/grad/output/");
  ASSERT_TRUE(gradient);
  EXPECT_DOUBLE_EQ(gradient->figures.l2, 0.016068274155259132) << "of both micro batches";
}

TEST(Msprobe, NamesAreItsOwnWhereBothAreOfIt) {
  EXPECT_TRUE(compared(kGolden + "statistics", kGolden + "statistics").agrees());
  EXPECT_TRUE(compared(kGolden + "api", kGolden + "api").agrees());
  const Comparison c = compared(kGolden + "statistics/step0/rank0", kGolden + "rope");
  ASSERT_FALSE(c.culprits.empty());
  EXPECT_EQ(c.culprits.front().op, "LlamaRotaryEmbedding");
  EXPECT_EQ(c.culprits.front().path, "model.rotary_emb");
  for (const Culprit& k : c.culprits) EXPECT_NE(k.op, "LlamaDecoderLayer") << "its own modules are at fault";
}

TEST(Msprobe, TensorsAreThoseOfTheFigures) {
  const Dump files = read_msprobe_names(kGolden + "tensors"), figures = read_msprobe_names(kGolden + "statistics");
  int held = 0;
  for (const DumpRecord& r : files.ranks[0].records) {
    const DumpRecord* other = record(figures, r.key());
    if (!other || r.op == kGradientOp) continue;
    EXPECT_FALSE(r.figures.rough);
    EXPECT_NEAR(r.figures.l2, other->figures.no_l2 ? r.figures.l2 : other->figures.l2, 1e-6 * r.figures.l2) << r.key();
    EXPECT_EQ(r.figures.max, other->figures.max) << r.key();
    ++held;
  }
  EXPECT_GE(held, 5);
}

TEST(Msprobe, ScalarArgumentsAreSettings) {
  TemporaryFolder folder;
  fs::copy(kGolden + "api", folder / "api", fs::copy_options::recursive);
  const std::string json = folder / "api/step0/rank0/dump.json";
  replace(json, "\"value\":1e-06", "\"value\":0.001");
  const std::string at = slurp(json);
  const Comparison same = compared(kGolden + "api", folder / "api");
  EXPECT_TRUE(same.agrees()) << "a setting alone, and what is written has the same figures";
  const Dump d = read_msprobe_names(folder / "api");
  bool seen = false;
  for (const DumpRecord& r : d.ranks[0].records)
    for (const auto& [key, value] : r.settings) seen |= key == "input.1" && value == 0.001;
  EXPECT_TRUE(seen);
}

TEST(Msprobe, IsRefusedWhereItIsDamaged) {
  const std::string dump = "x/step0/rank0/dump.json", data = "x/step0/rank0/dump_tensor_data/";
  auto message = [&](const std::string& what, const std::string& name, const std::string& shape, const char* file) {
    TemporaryFolder folder;
    save(folder / (data + "a.npy"), {1, 2});
    fs::create_directories(folder / "x/step0/rank0");
    spill(folder / (data + "o.npy"), std::string("\x93NUMPY\x01\x00\x46\x00", 10) +
                                         "{'descr': '|O', 'fortran_order': False, 'shape': (2,), }              \n" +
                                         std::string(20, '.'));
    spill(folder / (data + "c.pt"),
          "\x80\x02"
          "cos\nsystem\n.");
    spill(
        folder / dump,
        what.empty()
            ? R"({"task":"tensor","level":"L0","data":{"Module.m.Linear.forward.0":{"output":[{"type":"torch.Tensor","dtype":"torch.float32","shape":)" +
                  shape + R"(,"Max":Infinity,"Min":-Infinity,"Mean":NaN,"Norm":NaN,"data_name":")" + name + "\"}]}}}"
            : what);
    return message_of<UserError>([&] { read_msprobe_names(folder / "x"); }) + file;
  };
  auto names = [](const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; };
  EXPECT_PRED2(names, message(R"({"task":"tensor","level":"L0","data":{)", "", "", ""), "dump.json");
  EXPECT_PRED2(names, message(R"({"task":"tensor","level":"L0"})", "", "", ""), "no 'data'");
  EXPECT_PRED2(names, message("", "../../a.npy", "[2]", ""), "outside of the dump");
  EXPECT_PRED2(names, message("", "missing.npy", "[2]", ""), "missing.npy");
  EXPECT_PRED2(names, message("", "a.npy", "[3]", ""), "the dump says that it is [3]");
  EXPECT_PRED2(names, message("", "a.npy", "[-1]", ""), "no shape");
  EXPECT_PRED2(names, message("", "a.npy", "[9223372036854775807,9223372036854775807]", ""), "no shape");
  EXPECT_PRED2(names, message("", "o.npy", "[2]", ""), "'|O'");
  EXPECT_PRED2(names, message("", "c.pt", "[2]", ""), "c.pt");
}

TEST(Msprobe, ReadsWhatPythonWritesForNumbersThatAreNone) {
  TemporaryFolder folder;
  fs::create_directories(folder / "step3/rank2");
  spill(
      folder / "step3/rank2/dump.json",
      R"({"task":"statistics","level":"L1","data":{"Torch.exp.0.forward":{"input_args":[{"type":"str","value":"NaN \\\" Infinity"}],"output":[{"type":"torch.Tensor","dtype":"torch.float32","shape":[2],"Max":Infinity,"Min":NaN,"Mean":-Infinity,"Norm":1}]}}})");
  const Dump d = read_msprobe_names(folder.path());
  ASSERT_EQ(d.ranks.size(), 1U);
  EXPECT_EQ(d.ranks[0].rank, 2);
  const DumpRecord* r = record(d, "4/1/forward/Torch.exp.0/Torch.exp/0/output.0/output/");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->figures.nan, 2);
}

TEST(MindSpore, NamesKnowNoIdsAndTimes) {
  TemporaryFolder folder;
  auto dump = [&](const std::string& name, int64_t time, int task, float wrong) {
    const std::string at = folder / (name + "/rank_0/Net/0/2/");
    auto file = [&](const std::string& op, const std::string& slot) {
      return fmt::format("{}{}.{}.0.{}.{}.DefaultFormat.Float32.npy", at, op, task, time++, slot);
    };
    const std::string matmul = "MatMul.Default_network-Net_fc1-Dense_MatMul-op0", relu = "ReLU.Default_network-Net_ReLU-op0";
    save(file(matmul, "input.0"), {1, 2, 3});
    save(file(matmul, "output.0"), {4, 5, 6});
    save(file(relu, "input.0"), {4, 5, 6});
    save(file(relu, "output.0"), {4, wrong, 6});
    save(file("Parameter.model_layers_0_attention_wq_weight", "output.0"), {7, 8});
  };
  dump("a", 1795246167419159, 0, 5), dump("b", 998, 7, 5), dump("c", 1795246167419159, 3, 9);
  EXPECT_EQ(dump_kind(folder / "a"), DumpKind::mindspore);
  EXPECT_EQ(dump_kind(folder / "a/rank_0/Net/0/2"), DumpKind::mindspore);
  const Comparison clean = compared(folder / "a", folder / "b");
  EXPECT_TRUE(clean.agrees()) << clean.verdict;
  EXPECT_EQ(clean.equal_bits, 5);
  const Comparison c = compared(folder / "a", folder / "c");
  ASSERT_FALSE(c.culprits.empty());
  EXPECT_EQ(c.culprits.front().op, "ReLU");
  EXPECT_EQ(c.culprits.front().step, 3);
  const Dump ours = read_mindspore_parameters(folder / "a");
  EXPECT_TRUE(record(ours, "3/1/update/model.layers.0.self_attn.q_proj.weight/state/0/weights/output/"));
  ASSERT_EQ(ours.aside.size(), 1U);
  EXPECT_NE(ours.aside[0].find("4 tensors"), std::string::npos) << ours.aside[0];
}

TEST(MindSpore, ReadsStatistics) {
  TemporaryFolder folder;
  const std::string head =
      "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,L2Norm Value,\n";
  auto dump = [&](const std::string& name, const std::string& rows) {
    fs::create_directories(folder / (name + "/rank_1/Net/0/0"));
    spill(folder / (name + "/rank_1/Net/0/0/statistic.csv"), head + rows);
  };
  dump(
      "a",
      "Sub,Default/Sub-op0,0,0,1733905446819790,input,0,4,float32,\"(2,3)\",3,-3,5,\nSub,Default/Sub-op0,0,0,1733905446819791,output,0,4,float32,\"()\",2,2,2,\n");
  dump(
      "b",
      "Sub,Default/Sub-op0,5,0,17,input,0,4,float32,\"(2,3)\",3,-3,5,\nSub,Default/Sub-op0,5,0,18,output,0,4,float32,\"()\",2.5,2.5,2.5,\n");
  const Dump d = read_mindspore_names(folder / "a");
  ASSERT_EQ(d.ranks.size(), 1U);
  EXPECT_EQ(d.ranks[0].rank, 1);
  const DumpRecord* r = record(d, "1/1/forward/Default_Sub-op0/Sub/0/input.0/input/");
  ASSERT_TRUE(r);
  EXPECT_EQ(r->shape, (Shape{2, 3}));
  EXPECT_EQ(r->figures.min, -3);
  EXPECT_EQ(r->figures.l2, 5);
  EXPECT_TRUE(r->figures.no_mean);
  const Comparison c = compared(folder / "a", folder / "b");
  ASSERT_FALSE(c.culprits.empty());
  EXPECT_EQ(c.culprits.front().op, "Sub");
  EXPECT_NEAR(c.culprits.front().error, 0.25, 1e-12);
  EXPECT_TRUE(compared(folder / "a", folder / "a").agrees());
  dump("short", "Sub,Default/Sub-op0,0\n");
  EXPECT_NE(message_of<UserError>([&] { read_mindspore_names(folder / "short"); }).find("statistic.csv:2"), std::string::npos);
  dump("shape", "Sub,Default/Sub-op0,0,0,17,input,0,4,float32,\"(two)\",3,3,3,\n");
  EXPECT_NE(message_of<UserError>([&] { read_mindspore_names(folder / "shape"); }).find("(two)"), std::string::npos);
}

TEST(Ptdbg, ReadsLinesAndNoPickle) {
  TemporaryFolder folder;
  auto dump = [&](const std::string& name, const std::string& out) {
    fs::create_directories(folder / (name + "/rank0"));
    spill(folder / (name + "/rank0/api_stack_dump.pkl"),
          R"(["Functional_linear_0_forward_stack_info", [["a.py", "1"]]])"
          "\n"
          R"(["Functional_linear_0_forward_input.0", 1, [], "torch.float32", [2, 3], [2.5, -1.0, 0.25]])"
          "\n"
          R"(["Functional_linear_0_forward_input.2", 1, [], "<class 'float'>", [], [1.0, 1.0, 1.0]])"
          "\n" +
              out +
              "\n"
              R"(["Functional_scaled_dot_product_0_backward_output.0", 1, [], "torch.float32", [2], [1.0, 0.0, 0.5]])"
              "\n");
  };
  const std::string line = R"(["Functional_linear_0_forward_output.0", 1, [], "torch.float32", [2, 4], [3.5, -2.0, 0.5]])";
  dump("a", line);
  dump("b", R"(["Functional_linear_0_forward_output.0", 1, [], "torch.float32", [2, 4], [3.0, -2.0, 0.5]])");
  EXPECT_EQ(dump_kind(folder / "a"), DumpKind::ptdbg);
  EXPECT_EQ(dump_kind(folder / "a/rank0/api_stack_dump.pkl"), DumpKind::ptdbg);
  const Dump d = read_ptdbg_dump(folder / "a");
  ASSERT_TRUE(record(d, "1/1/forward/Functional.linear.0/Functional.linear/0/output.0/output/"));
  EXPECT_TRUE(record(d, "1/1/backward/Functional.scaled_dot_product.0/Functional.scaled_dot_product/0/output.0/output/"));
  EXPECT_TRUE(compared(folder / "a", folder / "a/rank0/api_stack_dump.pkl").agrees());
  const Comparison c = compared(folder / "a", folder / "b");
  ASSERT_FALSE(c.culprits.empty());
  EXPECT_EQ(c.culprits.front().path, "Functional.linear.0");
  dump("file", line);
  save(folder / "file/rank0/api_stack_dump/Functional_linear_0_forward_output.0.npy", {1, 2, 3, 4, 5, 6, 7, 8});
  const Dump with_file = read_ptdbg_dump(folder / "file");
  EXPECT_EQ(record(with_file, "1/1/forward/Functional.linear.0/Functional.linear/0/output.0/output/")->figures.max, 8);
  dump("bad", R"(["Functional_linear_0_forward_output.0", 1)");
  EXPECT_NE(message_of<UserError>([&] { read_ptdbg_dump(folder / "bad"); }).find("api_stack_dump.pkl:4"), std::string::npos);
  fs::create_directories(folder / "pickle");
  spill(folder / "pickle/api_stack_dump.pkl",
        "\x80\x04"
        "cos\nsystem\n.");
  EXPECT_NE(message_of<UserError>([&] { read_ptdbg_dump(folder / "pickle"); }).find("not executed"), std::string::npos);
  EXPECT_NE(message_of<UserError>([&] {
              read_dumps(folder / "a", RAVINE_SOURCE_DIR "/tests/golden/torch_trace/trace");
            }).find("PTDBG"),
            std::string::npos);
}

TEST(NamedTensors, AreTheFilesOfAFolder) {
  TemporaryFolder folder;
  for (const char* side : {"a", "b"}) {
    save(folder / (std::string(side) + "/layer.2.npy"), {1, 2});
    save(folder / (std::string(side) + "/layer.10.npy"), {3, 4});
    save(folder / (std::string(side) + "/grads/w.npy"), {5, 6});
  }
  EXPECT_EQ(dump_kind(folder / "a"), std::nullopt);
  EXPECT_TRUE(is_npy_folder(folder / "a"));
  const NamedTensors t(folder / "a");
  ASSERT_EQ(t.tensors().size(), 3U);
  EXPECT_EQ(t.tensors()[1].name, "layer.2") << "numbers are numbers";
  EXPECT_EQ(t.tensors()[2].name, "layer.10");
  EXPECT_TRUE(t.find("grads/w") && t.find("layer.10") && !t.find("layer.3"));
  EXPECT_TRUE(compare_traces(folder / "a", folder / "b").agrees());
  save(folder / "b/layer.10.npy", {3, 5});
  const Comparison c = compare_traces(folder / "a", folder / "b");
  ASSERT_EQ(c.culprits.size(), 1U);
  EXPECT_EQ(c.culprits[0].path, "layer.10");
  save(folder / "b/extra.npy", {1});
  EXPECT_EQ(compare_traces(folder / "a", folder / "b").unmatched, std::vector<std::string>{"extra, only in B"});
}

// Dumps that were recorded elsewhere.
TEST(Shared, DumpsOfMsprobe) {
  const char* shared = std::getenv("RAVINE_SHARED");
  if (!shared || !*shared) GTEST_SKIP() << "RAVINE_SHARED is not set";
  TemporaryFolder folder;
  for (const char* name : {"L0_statistics", "L1_statistics"}) {
    fs::create_directories(folder / name);
    fs::copy(fmt::format("{}/golden/mindformers/msprobe/{}_dump.json", shared, name),
             folder / (std::string(name) + "/dump.json"));
    const Comparison c = compared(folder / name, folder / name);
    EXPECT_TRUE(c.agrees()) << c.verdict;
    EXPECT_GT(c.pairs.size(), name[1] == '0' ? 150U : 900U);
  }
  const Dump modules = read_msprobe_modules(folder / "L0_statistics");
  EXPECT_TRUE(record(modules, "1/1/backward/model.layers.1.mlp/swiglu_backward/0/dgate/output/"));
  EXPECT_NE(message_of<UserError>([&] {
              read_dumps(folder / "L1_statistics", RAVINE_SOURCE_DIR "/tests/golden/torch_trace/trace");
            }).find("L0 or mix"),
            std::string::npos);
}

}  // namespace test_probe_foreign
}  // namespace ravine

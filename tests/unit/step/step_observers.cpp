// Tests of the observers of kernel calls, on calls made by hand: NaN watch, injected faults, profile and timeline.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <new>
#include <regex>
#include <thread>

#include "base/error.h"
#include "base/json.h"
#include "step/fault_injection.h"
#include "step/nan_observer.h"
#include "step/profile.h"
#include "tests/unit/files_temporary.h"

namespace ravine {
namespace test_step_observers {

constexpr double kInf = std::numeric_limits<double>::infinity();

template <class T>
TensorView matrix(std::vector<T>& v, DType type, int64_t rows, int64_t cols, int64_t stride) {
  TensorView t = view_of(v.data(), type, {rows, cols});
  t.stride = stride;
  return t;
}

void call(Observer& o, const char* path, const char* op, Phase phase, const std::vector<NamedView>& tensors, double flops = 0) {
  const CallInfo info{.phase = phase, .path = path, .op = op, .tensors = tensors, .flops = flops};
  o.before(info);
  o.after(info);
}

TEST(NanObserver, NamesTheFirstElementThatWasWritten) {
  NanObserver observer;
  std::vector<float> out(8, 1), in(8, 1);
  out[3] = NAN;  // between the rows of 3: not of the tensor
  in[1] = NAN;
  const NamedView read{"x", matrix(in, DType::f32, 2, 3, 4), Access::read};
  call(observer, "a", "add", Phase::forward, {read, {"out", matrix(out, DType::f32, 2, 3, 4), Access::write}});
  EXPECT_EQ(observer.found(), "") << "nothing was written but finite numbers";
  out[6] = INFINITY;
  in[1] = 1;
  call(observer, "model.layers.3", "matmul", Phase::recompute,
       {read, {"out", matrix(out, DType::f32, 2, 3, 4), Access::write}});
  EXPECT_EQ(observer.found(), "first: matmul at model.layers.3 (recompute), tensor 'out', row 1, column 2: inf");
  out[0] = NAN;
  call(observer, "later", "add", Phase::backward, {{"out", matrix(out, DType::f32, 2, 3, 4), Access::write}});
  EXPECT_NE(observer.found().find("model.layers.3"), std::string::npos) << "the first stays";
}

TEST(NanObserver, NamesTheInputsThatHaveIt) {
  NanObserver observer;
  std::vector<float> out{1, NAN}, w{1, 1, -INFINITY, 1}, fine{1, 2};
  call(observer, "head", "matmul", Phase::update,
       {{"a", matrix(fine, DType::f32, 1, 2, 2), Access::read},
        {"b", matrix(w, DType::f32, 2, 2, 2), Access::read},
        {"p", matrix(out, DType::f32, 1, 2, 2), Access::update}});
  EXPECT_EQ(
      observer.found(),
      "first: matmul at head (update), tensor 'p', row 0, column 1: nan; its input has it already, tensor 'b', row 1, column 0: -inf");
}

TEST(NanObserver, KnowsEveryTypeAndRowsThatSeeNoKey) {
  std::vector<bf16> b{bf16(1), bf16(NAN)};
  std::vector<f16> h{f16(1), f16(INFINITY)};
  std::vector<double> d{1, NAN};
  std::vector<int32_t> i{1, 0x7fc00000};
  auto found = [](const char* name, TensorView v) {
    NanObserver observer;
    call(observer, "p", "op", Phase::forward, {{name, v, Access::write}});
    return observer.found();
  };
  EXPECT_NE(found("out", matrix(b, DType::bf16, 1, 2, 2)), "");
  EXPECT_NE(found("out", matrix(h, DType::f16, 1, 2, 2)), "");
  EXPECT_NE(found("out", matrix(d, DType::f64, 1, 2, 2)), "");
  EXPECT_EQ(found("out", matrix(i, DType::i32, 1, 2, 2)), "") << "whole numbers have no NaN";
  EXPECT_EQ(found("out", view_of(nullptr, DType::f32, {2, 2})), "") << "no memory";
  std::vector<float> empty{-INFINITY, 1}, full{INFINITY, 1};
  EXPECT_EQ(found("lse", matrix(empty, DType::f32, 1, 2, 2)), "");
  EXPECT_NE(found("lse", matrix(full, DType::f32, 1, 2, 2)), "");
  EXPECT_NE(found("out", matrix(empty, DType::f32, 1, 2, 2)), "");
}

InjectOption fault(int64_t step, const std::string& path, const std::string& op, Phase phase, const std::string& tensor,
                   PlantedValue value, int64_t element) {
  InjectOption o;
  o.step = step, o.path = path, o.op = op, o.phase = phase, o.tensor = tensor, o.value = value, o.element = element;
  return o;
}

TEST(FaultInjection, SpoilsOneElementOfTheFirstCallThatFits) {
  FaultInjection f({fault(2, "a.*", "mat*", Phase::backward, "d*", PlantedValue::minus_infinity, 10),
                    fault(2, "*", "add", Phase::update, "*", PlantedValue::nan, 0)});
  std::vector<float> read(8, 1), out(8, 1), later(8, 1);
  std::vector<int32_t> ids(6, 1);
  const NamedView r{"dx", matrix(read, DType::f32, 2, 3, 4), Access::read},
      i{"di", matrix(ids, DType::i32, 2, 3, 3), Access::write}, x{"x", matrix(later, DType::f32, 2, 3, 4), Access::write},
      w{"dw", matrix(out, DType::f32, 2, 3, 4), Access::update};
  const std::vector<float> ones(8, 1);
  auto run = [&](const char* path, const char* op, Phase phase) { call(f, path, op, phase, {r, i, x, w}); };
  f.begin_step(1);
  run("a.b", "matmul", Phase::backward);
  EXPECT_EQ(f.missed(), "") << "it is of another step";
  f.begin_step(2);
  EXPECT_EQ(f.missed(), "mat* at a.* (backward), tensor d*; add at * (update), tensor *");
  run("b.b", "matmul", Phase::backward);
  run("a.b", "swiglu", Phase::backward);
  run("a.b", "matmul", Phase::forward);
  EXPECT_EQ(out, ones) << "another path, op or phase";
  run("a.b", "matmul", Phase::backward);
  std::vector<float> want = ones;
  want[5] = -INFINITY;  // element 10 of 6: the fifth, in the second row
  EXPECT_EQ(out, want);
  EXPECT_EQ(read, ones);
  EXPECT_EQ(later, ones);
  EXPECT_EQ(ids, std::vector<int32_t>(6, 1));
  EXPECT_EQ(f.missed(), "add at * (update), tensor *");
  out = ones;
  run("a.b", "matmul", Phase::backward);
  EXPECT_EQ(out, ones) << "once in a step";
  f.begin_step(2);
  run("a.b", "matmul", Phase::backward);
  EXPECT_EQ(out, want) << "and again when the step is run again";
}

TEST(FaultInjection, PutsEachValueInEachType) {
  std::vector<bf16> b(2, bf16(1));
  std::vector<double> d(2, 1);
  for (auto [planted, value] :
       {std::pair{PlantedValue::infinity, kInf}, {PlantedValue::minus_infinity, -kInf}, {PlantedValue::nan, std::nan("")}}) {
    FaultInjection f(
        {fault(1, "*", "*", Phase::forward, "*", planted, 1), fault(1, "*", "*", Phase::forward, "d", planted, 0)});
    f.begin_step(1);
    call(f, "p", "add", Phase::forward,
         {{"b", matrix(b, DType::bf16, 1, 2, 2), Access::write}, {"d", matrix(d, DType::f64, 1, 2, 2), Access::write}});
    for (double got : {static_cast<double>(static_cast<float>(b[1])), d[0]})
      EXPECT_TRUE(std::isnan(value) ? std::isnan(got) : got == value) << name(planted) << " " << got;
    EXPECT_TRUE(static_cast<float>(b[0]) == 1 && d[1] == 1) << "the first tensor that fits, and one element";
  }
  FaultInjection f({fault(1, "*", "*", Phase::forward, "*", PlantedValue::bad_alloc, 0)});
  f.begin_step(1);
  EXPECT_THROW(call(f, "p", "add", Phase::forward, {{"b", matrix(b, DType::bf16, 1, 2, 2), Access::write}}), std::bad_alloc);
}

TEST(FaultInjection, AnOpThatIsNoneIsRefused) {
  auto refusal = [](const std::string& op) {
    return message_of<UserError>([&] { FaultInjection f({fault(1, "*", op, Phase::forward, "*", PlantedValue::nan, 0)}); });
  };
  EXPECT_NE(refusal("matmull").find("no op 'matmull' (probe.inject): it must be the name of an op; did you mean 'matmul'?"),
            std::string::npos)
      << refusal("matmull");
  EXPECT_NE(refusal("qqqqqqqqqqqq").find("docs/howto/add-an-op.md"), std::string::npos);
}

TEST(Profile, CountsBytesAndFlopsOfCallsOfOneKind) {
  Profile p(true);
  call(p, "before", "add", Phase::forward, {}, 5);
  p.begin_step();
  auto slow = [&](const char* path, const char* op, Phase phase, double flops, double bytes) {
    const CallInfo info{.phase = phase, .path = path, .op = op, .flops = flops, .bytes = bytes};
    p.before(info);
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    p.after(info);
  };
  slow("a", "matmul", Phase::forward, 1e9, 1.2e9);
  slow("b", "matmul", Phase::forward, 2e9, 1.2e9);
  slow("c", "matmul", Phase::backward, 8e9, 0.2e9);
  const std::string table = p.table(4e11, 1e11);  // of the first by bytes, of the second by FLOPs
  struct Row {
    double calls, ms, share, flops, bytes, roofline;
  };
  std::map<std::string, Row> rows;
  const std::regex line(R"((\w+ \(\w+\)) +(\d+) +([\d.]+) +([\d.]+)% +([\d.]+) +([\d.]+) +([\d.]+)\n)");
  double last = kInf, inside = 0, total_share = 0;
  for (std::sregex_iterator m(table.begin(), table.end(), line), end; m != end; ++m) {
    rows[(*m)[1]] = {std::stod((*m)[2]), std::stod((*m)[3]), std::stod((*m)[4]),
                     std::stod((*m)[5]), std::stod((*m)[6]), std::stod((*m)[7])};
    EXPECT_LE(std::stod((*m)[3]), last) << "longest first";
    last = std::stod((*m)[3]);
    inside += last, total_share += std::stod((*m)[4]);
  }
  ASSERT_EQ(rows.size(), 2u) << "what came before the step is forgotten:\n" << table;
  auto near = [&](double got, double want, double digit) { EXPECT_NEAR(got, want, digit + 0.01 * want) << table; };
  const Row f = rows["matmul (forward)"], b = rows["matmul (backward)"];
  EXPECT_TRUE(f.calls == 2 && b.calls == 1);
  EXPECT_TRUE(f.ms >= 6 && b.ms >= 3);
  near(f.flops * f.ms / 1000, 3, 0.05 * f.ms / 1000);
  near(f.bytes * f.ms / 1000, 2.4, 0.05 * f.ms / 1000);
  near(b.flops * b.ms / 1000, 8, 0.05 * b.ms / 1000);
  near(b.bytes * b.ms / 1000, 0.2, 0.05 * b.ms / 1000);
  near(f.roofline * f.ms, 24, 0.005 * f.ms);
  near(b.roofline * b.ms, 20, 0.005 * b.ms);
  std::smatch between;
  ASSERT_TRUE(std::regex_search(table, between, std::regex(R"(between kernels +([\d.]+) +([\d.]+)%)")));
  EXPECT_NEAR(total_share + std::stod(between[2]), 100, 0.2);
  EXPECT_NEAR(f.share * (inside + std::stod(between[1])) / 100, f.ms, 0.001 * inside + 0.02);

  const Json t = Json::parse(p.timeline_json());
  const Json& e = t.at("traceEvents");
  ASSERT_EQ(e.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(e[i].at("name") == "matmul" && e[i].at("ph") == "X" &&
                e[i].at("args").at("path") == std::string(1, static_cast<char>('a' + i)));
    EXPECT_GE(e[i].at("dur").get<double>(), 3000) << "microseconds";
    if (i > 0) {
      EXPECT_GE(e[i].at("ts").get<double>(), e[i - 1].at("ts").get<double>() + e[i - 1].at("dur").get<double>() - 1e-3);
    }
  }
  EXPECT_NEAR((e[0].at("dur").get<double>() + e[1].at("dur").get<double>()) / 1000, f.ms, 0.006);
  EXPECT_LT(e[0].at("ts").get<double>(), e[2].at("ts").get<double>()) << "since the step began";
  EXPECT_EQ(t.at("otherData").at("program"), "ravine bench");
  Profile without;
  without.begin_step();
  call(without, "a", "add", Phase::forward, {});
  EXPECT_EQ(Json::parse(without.timeline_json()).at("traceEvents").size(), 0u);
}

}  // namespace test_step_observers
}  // namespace ravine

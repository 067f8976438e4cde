// Tests of predicted times against their definitions: every sum over ranks, message, update and micro batch counts
// once. The expected values are computed by hand, with rates that make one part dominate. Also: the cached rates of the
// machine and of messages, and which ranks wait for which.
#include "plan/estimate.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/parallel.h"
#include "kernels/backend.h"
#include "plan/decide.h"
#include "plan/machine.h"
#include "plan/variants.h"
#include "step/traffic.h"
#include "tests/unit/files_temporary.h"
#include "tests/unit/rank_threads.h"

namespace ravine {
namespace test_plan_estimate {

constexpr int64_t kColumns = 8, kLayers = 3, kHidden = 16, kWidth = 32, kVocabulary = 40;

Json shape(const Json& more = Json::object()) {
  Json j{{"model_type", "llama"},        {"hidden_size", kHidden},   {"intermediate_size", kWidth},
         {"num_hidden_layers", kLayers}, {"num_attention_heads", 4}, {"vocab_size", kVocabulary},
         {"max_position_embeddings", 64}};
  j.update(more);
  return j;
}

// Sizes do not matter: a sum takes kExchange, a gathering kGather, a message between stages kSend.
constexpr double kExchange = 1, kGather = 100, kSend = 10000, kFast = 1e300,
                 kSmall = 1e-3;  // kernel calls take microseconds each

Rates messages_only(int ranks) {
  Rates r;
  r.flops_f32 = r.flops_bf16 = r.bytes = kFast;
  r.messages.ranks = ranks;
  r.messages.all_to_all = {{1e15, kExchange}}, r.messages.all_gather = {{1e15, kGather}}, r.messages.send = {{1e15, kSend}};
  return r;
}

struct Estimate : testing::Test {
  Estimate() {
    config.train.global_batch = 12;
    config.train.micro_batch = 1;
    config.train.recompute = Recompute::none;
    config.parallel.data = 1;
    config.parallel.zero_threshold = 0;
    model = make_model(shape(), "test");
    const size_t blocks = model->blocks().size();
    costs.forward.assign(blocks, 0), costs.first = costs.later = costs.forward;
  }
  StepEstimate estimate(const Rates& rates, const Types& types = Types::of(DType::f32)) {
    const int ranks = static_cast<int>(config.parallel.data * config.parallel.tensor * config.parallel.pipeline);
    return estimate_step(*model, config, run_layout(config, ranks, *model), types, kColumns, rates, costs);
  }
  Config config;
  std::unique_ptr<Model> model;
  BlockCosts costs;
};

TEST_F(Estimate, MicroBatchesAndLeavesOfOneRank) {
  for (size_t b = 0; b < costs.forward.size(); ++b) costs.forward[b] = 1, costs.first[b] = 10, costs.later[b] = 100;
  const double blocks = kLayers + 2;
  EXPECT_NEAR(estimate(messages_only(2)).compute, blocks * (12 + 10 + 11 * 100), 1e-9) << "one of 12 begins the sum";
  config.parallel.sum_leaves = 4;
  EXPECT_NEAR(estimate(messages_only(2)).compute, blocks * (12 + 4 * 10 + 8 * 100), 1e-9);
  config.parallel.sum_leaves = 0, config.parallel.data = 2, config.parallel.zero = 2;
  EXPECT_NEAR(estimate(messages_only(2)).compute, blocks * (6 + 6 * 10), 1e-9) << "ZeRO 2 hands on every micro batch";
  const StepEstimate e = estimate(messages_only(2));
  EXPECT_NEAR(e.seconds, e.times.length + e.data + e.leaves + e.update, 1e-9);
}

TEST_F(Estimate, SumsOverTensorRanks) {
  config.parallel.tensor = 2;
  const double sum = kExchange + kGather;
  EXPECT_NEAR(estimate(messages_only(2)).tensor, 12 * (2 + 4 * kLayers) * sum, kSmall)
      << "the embedding's, the head's, four of each layer";
  EXPECT_EQ(estimate(messages_only(2)).data, 0);
  for (const Recompute recompute : {Recompute::none, Recompute::cheap, Recompute::full})
    for (bool sequence : {false, true}) {
      config.train.recompute = recompute, config.parallel.sequence = sequence;
      const bool full = recompute == Recompute::full, none = recompute == Recompute::none;
      EXPECT_NEAR(estimate(messages_only(2)).tensor,
                  12 * ((2 + (full ? 6 : 4) * kLayers) * sum + (sequence && !none ? 2 * kLayers * kGather : 0)), kSmall)
          << name(recompute) << sequence;
    }
  config.train.recompute = Recompute::none, config.parallel.sequence = false, config.parallel.tensor = 4;
  EXPECT_NEAR(estimate(messages_only(2)).tensor, 12 * (2 + 4 * kLayers) * sum, kSmall);
  Rates adding = messages_only(4);  // the sums themselves: two read, one written, of f32 all over
  adding.messages.all_to_all = adding.messages.all_gather = {{1e15, 0}};
  adding.bytes = 1;
  EXPECT_NEAR(estimate(adding).tensor, 12 * (2 + 4 * kLayers) * 3.0 * kColumns * kHidden * 4, 1);
  EXPECT_NEAR(estimate(adding, Types::of(DType::bf16)).tensor, 12 * (4 + (1 + 4 * kLayers) * 2) * 3.0 * kColumns * kHidden, 1)
      << "the embedding's is of the stream, f32";
}

TEST_F(Estimate, StagesWaitAndSend) {
  for (size_t b = 0; b < costs.forward.size(); ++b) costs.forward[b] = 1, costs.first[b] = costs.later[b] = 2;
  config.parallel.pipeline = 3;
  Rates still = messages_only(2);
  still.messages.send = {{1e15, 0}};
  const StepEstimate e = estimate(still);
  EXPECT_NEAR(e.compute, 12 * 2 * 3, 1e-9) << "the embedding or the head and a layer";
  EXPECT_EQ(e.pipeline, 0);
  EXPECT_GT(e.bubble, 0);
  EXPECT_EQ(e.bubble, e.times.bubble);
  EXPECT_EQ(estimate(messages_only(2)).pipeline, 2 * 12 * kSend);
  config.parallel.pipeline = 1;
  EXPECT_EQ(estimate(messages_only(2)).pipeline, 0);
  EXPECT_EQ(estimate(messages_only(2)).bubble, 0);
}

// Buffers of a Llama: the table; matrices and norms of each layer; norm and matrix of the head.
constexpr double kBuffers = 1 + 2 * kLayers + 2;

TEST_F(Estimate, SumsOverDataRanks) {
  config.parallel.data = 2;
  const double micros = 6;
  for (int64_t zero : {0, 1, 2, 3}) {
    config.parallel.zero = zero;
    const double whole = kExchange + kGather, part = kExchange, values = kGather;
    const double want = zero == 0   ? whole
                        : zero == 1 ? part + values
                        : zero == 2 ? micros * part + values
                                    : micros * part + 2 * micros * values;
    EXPECT_NEAR(estimate(messages_only(2)).data, kBuffers * want, kSmall) << "ZeRO " << zero;
  }
  // Copies in bf16 are gathered too: matrices' instead of f32, the table's masters as before; norms have none.
  config.parallel.zero = 1;
  EXPECT_NEAR(estimate(messages_only(2), Types::of(DType::bf16)).data, kBuffers * (kExchange + kGather), kSmall);
  config.parallel.zero_threshold = 1 << 20;
  EXPECT_NEAR(estimate(messages_only(2)).data, kBuffers * (kExchange + kGather), kSmall) << "small ones are summed whole";
  for (Param& p : model->params().params()) p.policy.trainable = p.name == "lm_head.weight";
  EXPECT_NEAR(estimate(messages_only(2)).data, kExchange + kGather, kSmall) << "what is frozen is not summed";
}

// Bytes of norm and update; elements are rounded up to 16 in a buffer.
TEST_F(Estimate, NormUpdateAndLeavesReadAndWriteMemory) {
  Rates memory;
  memory.flops_f32 = memory.flops_bf16 = kFast;
  memory.bytes = 1;
  const double elements =
      2.0 * kVocabulary * kHidden + kHidden + kLayers * (4.0 * kHidden * kHidden + 3.0 * kHidden * kWidth + 2 * kHidden);
  auto update = [&](OptimizerType type, double momentum, const Types& types = Types::of(DType::f32)) {
    config.optimizer.type = type, config.optimizer.momentum = momentum;
    return estimate(memory, types).update;
  };
  EXPECT_NEAR(update(OptimizerType::adamw, 0), elements * 4 * (1 + 1 + 2 + 4), kSmall)
      << "norm; gradient; weight and two moments read and written";
  EXPECT_NEAR(update(OptimizerType::sgd, 0.9), elements * 4 * (1 + 1 + 2 + 2), kSmall);
  EXPECT_NEAR(update(OptimizerType::sgd, 0), elements * 4 * (1 + 1 + 2), kSmall);
  const double matrices = elements - kVocabulary * kHidden - kHidden * (1 + 2 * kLayers);
  EXPECT_NEAR(update(OptimizerType::adamw, 0, Types::of(DType::bf16)), elements * 4 * 8 + matrices * 2, kSmall)
      << "a copy of matrices is written";
  EXPECT_EQ(estimate(memory).leaves, 0);
  std::unique_ptr<Model> whole = std::exchange(model, make_model(shape(), "test"));
  for (Param& p : model->params().params()) p.policy.trainable = p.name == "lm_head.weight";
  EXPECT_NEAR(update(OptimizerType::adamw, 0), static_cast<double>(kVocabulary * kHidden) * 4 * 8, kSmall)
      << "what is frozen is not updated";
  model = std::move(whole);
  config.parallel.sum_leaves = 4;
  EXPECT_NEAR(estimate(memory).leaves, 3 * elements * 3 * 4, kSmall) << "three sums of two into one";
}

// Gradients of matrices have 16 bits: sums, messages, norms and reads count this size. Other gradients have the type of
// the master.
TEST_F(Estimate, GradientsCountAsWideAsTheyAre) {
  Rates memory;
  memory.flops_f32 = memory.flops_bf16 = kFast;
  memory.bytes = 1;
  const Types wide = Types::of(DType::bf16), narrow = Types::of(DType::bf16, GradientType::compute);
  const double matrices =
      static_cast<double>(kVocabulary * kHidden) + kLayers * (4.0 * kHidden * kHidden + 3.0 * kHidden * kWidth);
  EXPECT_NEAR(estimate(memory, wide).update - estimate(memory, narrow).update, matrices * 2 * 2, kSmall) << "norm and update";
  config.parallel.sum_leaves = 4;
  EXPECT_NEAR(estimate(memory, wide).leaves - estimate(memory, narrow).leaves, 3 * matrices * 3 * 2, kSmall);
  config.parallel.sum_leaves = 0, config.parallel.data = 2, config.parallel.zero = 0;
  memory.messages.ranks = 2;  // half of the sum is added here, the other half there; messages take no time
  memory.messages.all_to_all = memory.messages.all_gather = memory.messages.send = {{1e15, 0}};
  // shards of 1024 (engine/flat.h)
  auto parted = [](double elements) { return std::ceil(elements / 2 / 1024) * 1024 * 2; };
  const double exchanged = parted(kVocabulary * kHidden) + kLayers * parted(4.0 * kHidden * kHidden + 3.0 * kHidden * kWidth);
  EXPECT_NEAR(estimate(memory, wide).data - estimate(memory, narrow).data, exchanged / 2 * 3 * 2, kSmall);
  memory.bytes = kFast;
  memory.messages.all_to_all = {{1, 0}, {1e15, 1e15 - 1}};  // a second for each byte
  const double sent = estimate(memory, wide).data - estimate(memory, narrow).data;
  EXPECT_NEAR(sent, exchanged / 2 * 2, 1e-3 * sent + 16 * kBuffers);
}

// One FLOP a second: products are all that counts.
TEST_F(Estimate, BlocksCostTheirProducts) {
  Rates slow;
  slow.flops_f32 = 1, slow.flops_bf16 = 4, slow.bytes = kFast, slow.step_share = 1;
  const double tokens = 2 * kColumns;
  config.train.micro_batch = 2;
  auto costs_of = [&](const Types& types) {
    return block_costs(*model, config, types, backend_kernels(Backend::cpu), kColumns, slow);
  };
  const BlockCosts c = costs_of(Types::of(DType::f32));
  ASSERT_EQ(c.forward.size(), static_cast<size_t>(kLayers + 2));
  const double layer = 2 * tokens * (4 * kHidden * kHidden + 3 * kHidden * kWidth), pairs = 2 * kColumns * (kColumns + 1) / 2.0,
               attention = 4 * kHidden * pairs;
  const double small = tokens * (2 * 4 * kHidden + 2 * 3 * kHidden + 5 * kWidth);  // two norms, two rotations, the gate
  const double head = 2 * tokens * kHidden * kVocabulary;
  for (size_t b = 1; b <= kLayers; ++b) {
    EXPECT_NEAR(c.forward[b], layer + attention + small, kSmall);
    EXPECT_NEAR(c.first[b], 2 * (layer + attention), 3 * small);
    EXPECT_NEAR(c.later[b], c.first[b], small);
  }
  EXPECT_EQ(c.forward[1], c.forward[2]);
  EXPECT_LT(c.forward[0], 0.01 * layer) << "looking up is no product";
  const double all_of_head = c.forward.back() + c.first.back();
  EXPECT_GT(all_of_head, 2.9 * head);
  EXPECT_LT(all_of_head, 4.4 * head);
  config.train.recompute = Recompute::full;
  EXPECT_NEAR(costs_of(Types::of(DType::f32)).later[2], c.later[2] + c.forward[2], small) << "run forward again";
  config.train.recompute = Recompute::none;
  slow.step_share = 0.5;
  EXPECT_NEAR(costs_of(Types::of(DType::f32)).forward[1], 2 * c.forward[1], 1e-3);
  slow.step_share = 1;
  EXPECT_NEAR(costs_of(Types::of(DType::bf16)).forward[1], c.forward[1] / 4, 1e-3) << "at the rate of bf16";
  config.parallel.tensor = 2;
  EXPECT_NEAR(costs_of(Types::of(DType::f32)).forward[1], (layer + attention) / 2, small);
}

TEST(Decisions, SettingsAndReasonsHaveTheirNumbers) {
  std::unique_ptr<Model> model = make_model(shape(), "test");
  Config config;
  config.train.global_batch = 12;
  const Decision none = decide(*model, config, Backend::cpu, 2, kColumns, 1);
  EXPECT_TRUE(none.settings().empty());
  std::vector<std::string> whys;
  for (const DecisionStep& s : none.steps) whys.push_back(s.setting + ": " + s.why);
  EXPECT_EQ(whys,
            (std::vector<std::string>{"train.micro_batch=1: any batch comes of accumulation; nothing else is given up",
                                      "parallel.zero=1: the optimizer's state over 2 data ranks; sends no more",
                                      "train.recompute=full: activations are computed again: a third more arithmetic",
                                      "parallel.zero=2: gradients too; 7 x the parameters are sent per step instead of 2 x",
                                      "parallel.zero=3: weights too, gathered around each layer; 18 x the parameters are sent",
                                      "precision.compute=bf16: activations halve; other rounding"}));
  const Decision all = decide(*model, config, Backend::cpu, 2, kColumns, int64_t{1} << 50);
  EXPECT_EQ(all.settings(),
            (std::vector<std::string>{"parallel.zero=0", "train.recompute=cheap", "train.micro_batch=2",
                                      fmt::format("precision.compute={}", name_or(config.precision.compute, kAuto))}))
      << "of 12 sequences on 2 ranks: 2 at a time, 4 do not divide";
  EXPECT_EQ(decide(*model, config, Backend::cpu, 1, kColumns, int64_t{1} << 50).choice()->trial.micro_batch, 4)
      << "8 do not divide 12";
  std::vector<std::string> alone;
  for (const DecisionStep& s : decide(*model, config, Backend::ref, 1, kColumns, 1).steps) alone.push_back(s.setting);
  EXPECT_EQ(alone, (std::vector<std::string>{"train.micro_batch=1", "train.recompute=full"}))
      << "one rank divides nothing, and ref has no faster type";
}

// Beside the plan as it is: each way to recompute, fewer and more rows where they divide, the other type.
TEST(Neighbours, AreThoseThatTheRunCouldTake) {
  std::unique_ptr<Model> model = make_model(shape(), "test");
  auto neighbours = [&](Recompute recompute, DType compute, int64_t rows, int64_t micros, Backend backend = Backend::cpu) {
    Config c;
    c.train.recompute = recompute, c.precision.compute = compute, c.train.micro_batch = rows,
    c.train.global_batch = rows * micros;
    const Types types = Types::of(compute);
    StepEngine engine(*model, c, types, backend_kernels(backend), {.rows = rows, .columns = kColumns, .micro_batches = micros});
    std::vector<std::string> out;
    for (const Variant& v : Variants(c, backend, types, engine, false).neighbours())
      out.push_back(fmt::format("{}", fmt::join(v.changes, " ")));
    return out;
  };
  using Texts = std::vector<std::string>;
  EXPECT_EQ(neighbours(Recompute::cheap, DType::f32, 6, 4),
            (Texts{"", "train.recompute=none", "train.recompute=full", "train.micro_batch=3", "train.micro_batch=12",
                   "precision.compute=bf16"}));
  EXPECT_EQ(neighbours(Recompute::full, DType::bf16, 9, 3),
            (Texts{"", "train.recompute=none", "train.recompute=cheap", "train.micro_batch=3", "precision.compute=f32"}))
      << "4 do not divide 9, 18 not 27";
  EXPECT_EQ(neighbours(Recompute::none, DType::f32, 1, 2, Backend::ref),
            (Texts{"", "train.recompute=cheap", "train.recompute=full", "train.micro_batch=2"}));
}

TEST(Neighbours, InWords) {
  Variant v;
  v.changes = {"train.recompute=full", "train.micro_batch=2"};
  v.bytes = int64_t{3} << 29, v.time = 1.254;
  EXPECT_EQ(v.text(), "train.recompute=full train.micro_batch=2 (" + human_bytes(static_cast<double>(int64_t{3} << 29)) +
                          ", 1.25 x the time)");
}

struct EmptyCache {
  EmptyCache() { setenv("XDG_CACHE_HOME", folder.path().c_str(), 1); }
  TemporaryFolder folder;
};

TEST(Machine, RatesAreDividedAmongThoseThatShareIt) {
  EmptyCache cache;
  const Rates one = known_rates(1), four = known_rates(4);
  EXPECT_FALSE(one.measured);
  EXPECT_EQ(one.flops_f32, usual_machine().f32_product);
  EXPECT_EQ(one.bytes, usual_machine().copy_bytes);
  EXPECT_EQ(four.flops_f32, one.flops_f32 / 4);
  EXPECT_EQ(four.flops_bf16, one.flops_bf16 / 4);
  EXPECT_EQ(four.bytes, one.bytes / 4);
  EXPECT_EQ(four.local, 4);
  EXPECT_FALSE(four.messages.measured);
  EXPECT_EQ(four.messages.ranks, 4);
}

TEST(Machine, KeepsWhatWasMeasured) {
  EmptyCache cache;
  EXPECT_FALSE(known_step_share());
  EXPECT_FALSE(known_message_rates(3));
  MessageRates r = guessed_messages(1e10, 3);
  keep_message_rates(r);
  ASSERT_TRUE(known_message_rates(3));
  EXPECT_TRUE(known_message_rates(3)->measured);
  EXPECT_EQ(known_message_rates(3)->json(), r.json());
  EXPECT_FALSE(known_message_rates(2)) << "of other ranks nothing is known";
  const int threads = thread_count();
  set_thread_count(3);
  keep_step_share(0.5);
  EXPECT_EQ(known_step_share(), 0.5);
  set_thread_count(2);
  EXPECT_EQ(known_step_share(), 0.5) << "of another number of threads, where there is no better";
  keep_step_share(0.25);
  EXPECT_EQ(known_step_share(), 0.25);
  EXPECT_EQ(known_rates(1).step_share, 0.25);
  set_thread_count(3);
  EXPECT_EQ(known_step_share(), 0.5) << "each keeps its own";
  set_thread_count(threads);
  EXPECT_TRUE(known_message_rates(3)) << "what is kept later leaves the rest";
  EXPECT_FALSE(known_machine_peaks());
}

TEST(Messages, AGuessMovesEveryByteTwiceThroughOneMemory) {
  const MessageRates r = guessed_messages(8e9, 4);
  EXPECT_EQ(r.ranks, 4);
  const double rate = 8e9 / 16;
  EXPECT_NEAR(r.exchange(1 << 20, 4), 2e-5 + 3 * (1 << 20) / rate, 1e-9);
  EXPECT_NEAR(r.gather(1 << 20, 4), 2e-5 + 3 * (1 << 20) / rate, 1e-9);
  EXPECT_NEAR(r.message(1 << 20), 2e-5 + (1 << 20) / rate, 1e-9);
  EXPECT_EQ(guessed_messages(8e9, 1).ranks, 2) << "two talk at least";
}

// Three ranks that waited 0.1, 0.6 and 0.2 of two seconds, over several axes.
TEST(Waiting, TheOneThatWaitsLeastIsWaitedFor) {
  std::mutex mutex;
  std::vector<StepTraffic> all(4);
  on_ranks({2, 1, 2}, [&](const Ranks& ranks) {
    TrafficMeter meter;
    auto waited = [&](const Group& g, double seconds) { dynamic_cast<const ThreadGroup&>(g).waited(seconds); };
    waited(ranks.along(Axis::tensor), 77);  // before the step
    meter.begin(ranks);
    const double tensor[] = {0.4, 0.2, 1.0, 0.3}, pipeline[] = {0.1, 0.2, 0.3, 0.1}, back[] = {0.3, 0, 0.1, 0};
    const size_t me = static_cast<size_t>(ranks.rank());
    waited(ranks.along(Axis::tensor), tensor[me]), waited(ranks.along(Axis::pipeline), pipeline[me]),
        waited(ranks.back(), back[me]);
    std::vector<char> bytes(4000000);
    const Group& group = ranks.along(Axis::tensor);
    if (ranks.rank() == 1) group.send(bytes.data(), 3000000, 0).wait();
    if (ranks.rank() == 0) group.send(bytes.data(), 1000000, 1).wait(), group.receive(bytes.data(), 3000000, 1).wait();
    if (ranks.rank() == 1) group.receive(bytes.data(), 1000000, 0).wait();
    const StepTraffic t = meter.end(ranks, ranks.rank() == 3 ? 4 : 2);
    std::lock_guard lock(mutex);
    all[me] = t;
  });
  for (const StepTraffic& t : all) {
    // Shares of a step: 0.8/2, 0.4/2, 1.4/2, 0.4/4.
    EXPECT_EQ(t.slowest, 3);
    EXPECT_NEAR(t.wait, 0.7, 1e-12);
    EXPECT_NEAR(t.wait_least, 0.1, 1e-12);
    EXPECT_NEAR(t.bubble, (0.4 / 2 + 0.2 / 2 + 0.4 / 2 + 0.1 / 4) / 4, 1e-12) << "ahead and back";
    ASSERT_EQ(t.parts.size(), 3u) << "no data axis";
    EXPECT_EQ(t.parts[0].axis, "tensor");
    EXPECT_NEAR(t.parts[0].seconds, (0.4 + 0.2 + 1.0 + 0.3) / 4, 1e-12);
    EXPECT_NEAR(t.parts[0].mb, 3, 1e-12) << "of the rank that sent most";
    EXPECT_EQ(t.parts[1].axis, "pipeline");
    EXPECT_NEAR(t.parts[1].seconds, (0.4 + 0.2 + 0.4 + 0.1) / 4, 1e-12);
    EXPECT_EQ(t.parts[2].axis, "all");
  }
  EXPECT_NEAR(all[0].sent_mb, 1, 1e-12);
  EXPECT_NEAR(all[1].sent_mb, 3, 1e-12);
  TrafficMeter alone;
  alone.begin(Ranks());
  EXPECT_TRUE(alone.end(Ranks(), 1).parts.empty());
  EXPECT_EQ(alone.end(Ranks(), 1).bubble, -1);
}

}  // namespace test_plan_estimate
}  // namespace ravine

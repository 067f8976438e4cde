// The translation of command lines and files of other programs into a Config, and Megatron's translation.
#include "dialects/dialect.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "dialects/launch_script.h"
#include "dialects/megatron.h"
#include "dialects/megatron_tables.h"
#include "styles/megatron_log.h"

using namespace ravine;

namespace test_dialects {

std::vector<std::string> words_of_line(const std::string& line) {
  std::vector<std::string> words;
  for (size_t at = 0; at < line.size();) {
    const size_t end = std::min(line.find(' ', at), line.size());
    if (end > at) words.push_back(line.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

std::string refusal(const std::function<void()>& f) {
  try {
    f();
  } catch (const UserError& e) {
    return e.what();
  }
  return "";
}

void expect_words(const std::string& text, std::initializer_list<const char*> words) {
  for (const char* w : words) EXPECT_NE(text.find(w), std::string::npos) << w << " in " << text;
}

DialectTable small_table() {
  return {copied("--steps", KeyType::whole, "train.steps"),
          copied("--freeze", KeyType::texts, "train.freeze"),
          used("--half", KeyType::on, "precision.compute"),
          used("--kind", KeyType::text, "optimizer.type", "adam", {"adam", "sgd"}),
          inert("--idle", KeyType::number, "it has nothing to do"),
          refused("--no", KeyType::on, "it cannot be", "write --yes")};
}

Translation small(const std::string& line) {
  return translate(small_table(), read_flags(small_table(), placed(words_of_line(line)), "small"), "small");
}

TEST(Dialect, FlagsAreReadAsArgparseReadsThem) {
  Translation t = small("--steps 5 --freeze a b --half --idle=-1.5 --steps=7");
  EXPECT_EQ(t.whole("--steps"), 7);  // the last value is used
  EXPECT_EQ(t.value("--freeze"), Json({"a", "b"}));
  EXPECT_TRUE(t.is_on("--half"));
  EXPECT_EQ(t.number("--idle"), -1.5);
  EXPECT_EQ(t.text("--kind"), "adam");  // its default
  EXPECT_FALSE(t.has("--kind"));
  const Config c = config_of(t);
  EXPECT_EQ(c.train.steps, 7);
  EXPECT_EQ(c.train.freeze, (std::vector<std::string>{"a", "b"}));
  expect_words(refusal([] { small("5"); }), {"'5'", "no flag"});
  expect_words(refusal([] { small("--steps"); }), {"--steps", "no value"});
}

TEST(Dialect, AllThatIsRefusedIsNamedAtOnce) {
  const Translation t = small("--stepz 5 --no --kind adamm --steps many");
  ASSERT_EQ(t.refusals().size(), 4U);
  expect_words(refusal([&] { config_of(t); }), {"4 keys", "--stepz", "did you mean '--steps'", "--no", "write --yes", "adamm",
                                                "'adam'", "many", "whole number"});
  const Translation abbreviated = small("--step 5");
  expect_words(refusal([&] { refuse_all(abbreviated); }), {"--step", "did you mean '--steps'"});
}

TEST(Dialect, EveryKeyHasALine) {
  Translation t = small("--idle 2 --half --steps 3");
  t.set("precision.compute", "bf16", "--half");
  t.derive("derived.lr", {{"1", 0.5}});
  EXPECT_EQ(explanation(t),
            "{\"key\":\"--idle\",\"value\":2,\"status\":\"inert\",\"option\":\"\",\"reason\":\"it has nothing to do\"}\n"
            "{\"key\":\"--half\",\"value\":true,\"status\":\"used\",\"option\":\"precision.compute\",\"reason\":\"\"}\n"
            "{\"key\":\"--steps\",\"value\":3,\"status\":\"used\",\"option\":\"train.steps\",\"reason\":\"\"}\n"
            "{\"key\":\"derived.lr\",\"value\":{\"1\":0.5},\"status\":\"derived\",\"option\":\"\",\"reason\":\"\"}\n");
}

TEST(LaunchScript, IsReadAsBashReadsIt) {
  const LaunchScript s = parse_launch_script(
      "#!/bin/bash\n"
      "N=2 WORDS=\"x y\"   # a comment\n"
      "export OUT=${UNSET_HERE:-out/$N}\n"
      "ALL=$(( (N + 2) * ${N} - 1 ))\n"
      "LIST=(--a 1 # of the list\n"
      "  '--b' \"$WORDS\")\n"
      "LIST+=(--c)\n"
      "LINE=\"--d 1\"\n"
      "LINE+=\" --e\"\n"
      "cat <<END > $OUT/file.json\n"
      "{\"n\": $N}\n"
      "END\n"
      "torchrun --nproc_per_node $N --nnodes=3 tool/run.py \"${LIST[@]}\" $LINE \\\n"
      "  --f='$N' --all $ALL 2>&1 | tee log &\n",
      "run.sh");
  const LaunchedProgram p = launched_program(s);
  EXPECT_EQ(p.program.text, "tool/run.py");
  EXPECT_EQ(p.ranks, 6);
  std::vector<std::string> flags;
  for (const PlacedWord& w : p.flags) flags.push_back(w.text);
  EXPECT_EQ(flags, (std::vector<std::string>{"--a", "1", "--b", "x y", "--c", "--d", "1", "--e", "--f=$N", "--all", "7"}));
  EXPECT_EQ(p.flags.back().source, "run.sh:14");
  ASSERT_TRUE(s.written.contains("out/2/file.json"));
  EXPECT_EQ(s.written.at("out/2/file.json").text, "{\"n\": 2}\n");
}

TEST(LaunchScript, OfTwoLaunchesOneIsChosenByItsNumber) {
  const auto message = [](const std::string& text) {
    return refusal([&] { launched_program(parse_launch_script(text, "run.sh")); });
  };
  const std::string two = "torchrun a.py --x 1\n\npython b.py\n";
  expect_words(message(two), {"starts 2 programs", "1: a.py (run.sh:1); 2: b.py (run.sh:3)", "--launch NUMBER"});
  LaunchScript script = parse_launch_script(two, "run.sh");
  script.launch = 2;
  EXPECT_EQ(launched_program(script).program.text, "b.py");
  script.launch = 3;
  expect_words(refusal([&] { launched_program(script); }), {"--launch 3", "starts 2"});
  EXPECT_EQ(launched_program(parse_launch_script("echo python a.py\ntorchrun b.py\n", "run.sh")).program.text, "b.py");
}

TEST(LaunchScript, ADecisionOnWhatIsKnownIsFollowed) {
  const auto program = [](const std::string& text) {
    return launched_program(parse_launch_script(text, "run.sh")).program.text;
  };
  for (const char* text :
       {"if false; then\npython b.py\nelse\npython a.py\nfi\n",
        "N=2\ncase $N in\n1|3) python b.py ;;\n2) python a.py ;;\nesac\n", "for i in 1; do python a.py; done\n",
        "mkdir -p out && python a.py\n", "[ -d . ] || exit 1\npython a.py\n", "{ python a.py; } | tee log\n",
        "if [ -d x ]; then\n python b.py\nfi\npython a.py\n", "cd . && python a.py\n", "python a.py\ncd /\n",
        "for i in 1; do\n echo\ndone; python a.py || exit 1\n", "f() { [ \"$1\" = 2 ] && python a.py; }\nf 1\nf 2\n",
        "[[ $((1 << 4)) == 1? && ! -e /nowhere ]] && python a.py\n", "RUN='python a.py'\n$RUN --x\n", "eval \"python a.py\"\n",
        "bash -c 'python a.py'\n", "nohup torchrun a.py &\n",
        "i=0\nwhile [ $i -lt 3 ]; do i=$((i+1)); done\n[ $i = 3 ] && python a.py\n",
        "exit_now=0\nif [ $exit_now = 1 ]; then exit; fi\npython a.py\n"})
    EXPECT_EQ(program(text), "a.py") << text;
  const auto message = [](const std::string& text) {
    return refusal([&] { launched_program(parse_launch_script(text, "run.sh")); });
  };
  expect_words(message("[ -d /nowhere ] || exit 1\npython a.py\n"), {"no program is launched before it ends", "run.sh:1"});
}

TEST(LaunchScript, WhatAProgramDecidesOrAFolderChangesIsRefused) {
  const auto message = [](const std::string& text) {
    return refusal([&] { launched_program(parse_launch_script(text, "run.sh")); });
  };
  for (const char* text :
       {"if grep -q x y; then\npython a.py\nfi\n", "\nmake || python a.py\n", "case $(uptime) in\n*1*) python a.py ;;\nesac\n",
        "while make\ndo python a.py\ndone\n", "if [[ $(uptime) =~ x ]]\nthen python a.py\nfi\n"})
    expect_words(message(text), {"run.sh:2", "only a shell can tell"});
  expect_words(message("if make; then\n N=1\nfi\npython a.py --b $N\n"), {"run.sh:2", "condition"});
  expect_words(message("A=/\ncd $A && python a.py\n"), {"cd /", "run.sh:2", "where ravine is started"});
  expect_words(message("cd\npython a.py\n"), {"run.sh:1"});
  expect_words(message("cd /nowhere/at/all || exit\npython a.py\n"), {"run.sh:1"});
  expect_words(message("\ncd $(make)\npython a.py\n"), {"run.sh:2", "needs a shell"});
}

TEST(LaunchScript, NothingIsRunAndWhatNeedsAShellIsReportedWhereItMatters) {
  const auto run = [](const std::string& text) {
    return refusal([&] { launched_program(parse_launch_script(text, "run.sh")); });
  };
  EXPECT_EQ(run("NOW=$(make)\npython a.py --b 1 > $NOW.log\n"), "");  // a redirection needs no known word
  expect_words(run("N=1\nNOW=`make`\npython a.py --b $NOW\n"), {"run.sh:2", "$(make) needs a shell"});
  expect_words(run("python a.py --b $1\n"), {"run.sh:1", "$1"});
  EXPECT_EQ(run("if true; then\n N=1\nfi\npython a.py --b $N\n"), "");
  EXPECT_EQ(run("touch made-by-this-test $(touch made-by-this-test)\npython a.py\n"), "");
  EXPECT_FALSE(std::filesystem::exists("made-by-this-test"));
  expect_words(run("python a.py --b $NOT_SET_ANYWHERE\n"), {"run.sh:1", "NOT_SET_ANYWHERE"});
  expect_words(run("python a.py --b $((1/0))\n"), {"run.sh:1", "zero"});
  expect_words(run("echo 1\n"), {"no program"});
  expect_words(run("A=(1\n"), {"run.sh:1", "not closed"});
  expect_words(run("A='1\n"), {"run.sh:1", "not closed"});
  std::string doubling = "A=xxxxxxxx\n";
  for (int i = 0; i < 40; ++i) doubling += "A=$A$A\n";
  expect_words(run(doubling + "python a.py --b $A\n"), {"too long"});
  std::string opened, closed;  // brackets in quotes do not close brackets
  for (int i = 0; i < 6000; ++i) opened += "$((${NOT_SET_ANYWHERE:-\")))\"", closed += "}))";
  expect_words(run("A=" + opened + "1" + closed + "\npython a.py --b $A\n"), {"too deep"});
}

// ---- Megatron ----

const char* const kMegatronBase =
    "--num-layers 8 --hidden-size 512 --ffn-hidden-size 1376 --num-attention-heads 8 --seq-length 64 --max-position-embeddings 64 "
    "--micro-batch-size 2 --global-batch-size 16 --train-iters 100 --lr 1e-4 --data-path a_document";

Translation megatron(const std::string& line, const MegatronJob& job = {.ranks = 8}) {
  return translate_megatron(placed(words_of_line(std::string(kMegatronBase) + " " + line)), job);
}

Json model_of(const Translation& t) { return parse_json(config_of(t).model.config, "model.config"); }

TEST(Megatron, FamiliesFollowFromHowANetworkIsBuilt) {
  const std::string llama = "--position-embedding-type rope --normalization RMSNorm --swiglu ";
  const std::string bare = "--disable-bias-linear --untie-embeddings-and-output-weights ";
  EXPECT_EQ(model_of(megatron(""))["model_type"], "gpt2");
  EXPECT_EQ(model_of(megatron("--position-embedding-type rope"))["model_type"], "gpt_neox");
  EXPECT_EQ(model_of(megatron("--position-embedding-type alibi --embed-layernorm --ffn-hidden-size 2048"))["model_type"],
            "bloom");
  EXPECT_EQ(model_of(megatron(llama + bare))["model_type"], "llama");
  EXPECT_EQ(model_of(megatron(llama + bare + "--add-qkv-bias"))["model_type"], "qwen2");
  EXPECT_EQ(model_of(megatron(llama + bare + "--num-experts 4"))["model_type"], "mixtral");
  EXPECT_EQ(model_of(megatron(llama + bare + "--lm-norm-weight"))["model_type"], "baichuan");
  const Json biased = model_of(megatron(llama + bare + "--add-qkv-bias --add-dense-bias"));
  EXPECT_EQ(biased["model_type"], "llama");
  EXPECT_EQ(biased["attention_bias"], true);
  EXPECT_EQ(biased["mlp_bias"], false);
  EXPECT_EQ(biased["tie_word_embeddings"], false);
  expect_words(refusal([&] { config_of(megatron("--normalization RMSNorm")); }), {"no family", "RMSNorm", "learned"});
}

// A program of 2023 has other defaults: gated MLPs without biases, an untied head, no dropout.
TEST(Megatron, TheProgramDecidesTheDefaults) {
  const MegatronJob classic{.program = "pretrain_llama.py", .ranks = 8};
  const Config c = config_of(megatron("--position-embedding-type rope --normalization RMSNorm", classic));
  const Json model = parse_json(c.model.config, "model.config");
  EXPECT_EQ(model["model_type"], "llama");
  EXPECT_EQ(model["tie_word_embeddings"], false);
  EXPECT_EQ(c.train.dropout, 0);
  EXPECT_EQ(c.data.order, SampleOrder::megatron_2023);
  const Config core = config_of(megatron(""));
  EXPECT_EQ(core.train.dropout, 0.1);
  EXPECT_EQ(core.data.order, SampleOrder::megatron);
}

TEST(Megatron, VocabulariesAreFilledUpForTheTensorRanks) {
  MegatronJob job{.ranks = 8, .vocabulary = [](const std::string& path) { return path == "tok" ? 1000 : 0; }};
  EXPECT_EQ(model_of(megatron("--tokenizer-name-or-path tok", job))["vocab_size"], 1024);
  EXPECT_EQ(model_of(megatron("--tokenizer-name-or-path tok --tensor-model-parallel-size 4 --make-vocab-size-divisible-by 3",
                              job))["vocab_size"],
            1008);
  EXPECT_EQ(model_of(megatron("--tokenizer-type NullTokenizer --vocab-size 1024", job))["vocab_size"], 1152);
  EXPECT_EQ(model_of(megatron("--tokenizer-name-or-path tok --padded-vocab-size 1001", job))["vocab_size"], 1001);
  EXPECT_FALSE(model_of(megatron("--tokenizer-name-or-path gone", job)).contains("vocab_size"));
}

TEST(Megatron, EveryRowIsWhole) {
  for (const MegatronAge age : {MegatronAge::classic, MegatronAge::core})
    for (const DialectKey& row : megatron_training_table(age)) {
      EXPECT_TRUE(row.status != KeyStatus::inert || !row.reason.empty()) << row.key;
      EXPECT_TRUE(row.status != KeyStatus::refused || (!row.reason.empty() && !row.fix.empty())) << row.key;
      EXPECT_FALSE(row.reason.ends_with('.')) << row.key;
    }
}

TEST(Megatron, ProgramsThatDoNotTrainLeadToOurCommands) {
  const auto command = [](const std::string& program, const std::string& line) {
    const Translation t = translate_megatron(placed(words_of_line(line)), {.program = program});
    refuse_all(t);
    return t.command;
  };
  using Words = std::vector<std::string>;
  EXPECT_EQ(command("evaluation_llama.py",
                    "--task boolq --task-data-path data/boolq/test --load m --max-new-tokens 1 --num-layers 2 --bf16"),
            (Words{"eval", "--model", "m", "--tasks", "boolq", "--data", "data/boolq/test", "--output", "eval-boolq",
                   "--max-new-tokens", "1", "precision.compute=bf16"}));
  EXPECT_EQ(command("inference_llama.py", "--task do_sample --load m --top-k 5 --max-new-tokens 9"),
            (Words{"generate", "--model", "m", "--prompt", "how are you?", "--max-new-tokens", "9", "--sample", "--temperature",
                   "0.7", "--top-k", "5", "--top-p", "0.95"}));
  EXPECT_EQ(command("convert_weights_from_huggingface.py",
                    "--input-model-dir a --output-model-dir b --tensor-model-parallel-size 2 --type 7B"),
            (Words{"convert", "--input", "a", "--output", "b", "--to", "megatron-legacy", "--tensor", "2"}));
  EXPECT_EQ(preprocess_words({"--input", "a.jsonl", "--tokenizer-name-or-path", "tok", "--output-prefix", "o", "--json-key",
                              "body", "--append-eod", "--overwrite"}),
            (Words{"--input", "a.jsonl", "--tokenizer", "tok", "--output-prefix", "o", "--json-keys", "body", "--append-eod",
                   "--overwrite"}));
  EXPECT_EQ(preprocess_words({"--input", "a.jsonl", "--tokenizer", "tok"}),
            (Words{"--input", "a.jsonl", "--tokenizer", "tok"}));
  expect_words(refusal([&] { command("train.py", ""); }), {"train.py", "pretrain_"});
}

// Tools read this format, so every character is compared.
TEST(Megatron, IterationLinesHaveItsForm) {
  EXPECT_EQ(
      iteration_line({.iteration = 5,
                      .iterations = 100,
                      .samples = 80,
                      .milliseconds = 12.34,
                      .lr = 1.5e-5,
                      .batch = 16,
                      .loss = 4.25,
                      .loss_scale = 65536,
                      .grad_norm = 1.0625,
                      .skipped = 1}),
      " iteration        5/     100 | consumed samples:           80 | elapsed time per iteration (ms): 12.3 | learning rate: "
      "1.500E-05 | global batch size:    16 | lm loss: 4.250000E+00 | loss scale: 65536.0 | grad norm: 1.062 | number of "
      "skipped iterations:   1 | number of nan iterations:   0 |");
  EXPECT_EQ(iteration_line({.iteration = 1, .iterations = 2, .samples = 3, .batch = 3, .loss = 0}).find("lm loss"),
            std::string::npos);
  EXPECT_EQ(validation_lines("iteration 10", 2.0),
            std::string(94, '-') +
                "\n validation loss at iteration 10 | lm loss value: 2.000000E+00 | lm loss PPL: 7.389056E+00 | \n" +
                std::string(94, '-'));
}

}  // namespace test_dialects

// Translates --data-path and its companions: the files to read, their form, and the data held out for validation.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/text.h"
#include "dialects/megatron_run.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

// PREFIX_packed_input_ids_document and its two siblings, as preprocess_data.py leaves them for instructions.
constexpr std::array kInstructionEnds = {"_packed_input_ids_document", "_packed_attention_mask_document",
                                         "_packed_labels_document"};

bool holds_tokens(const std::string& prefix) {
  std::error_code error;
  return fs::exists(prefix + ".idx", error) || fs::exists(prefix + ".bin", error);
}

bool names_instructions(const std::string& prefix) {
  return std::any_of(kInstructionEnds.begin(), kInstructionEnds.end(), [&](const char* end) { return prefix.ends_with(end); });
}

// Returns the source for a prefix, with or without --is-instruction-dataset, whatever other files are next to it. Files
// are looked at only if the run is on this machine, or if they are here.
Json resolve_prefix(Translation& t, const char* key, const Json& word, bool runs) {
  if (!word.is_string()) return word;
  const std::string prefix = word.get<std::string>();
  const bool plain = holds_tokens(prefix) && !names_instructions(prefix),
             packed = std::any_of(kInstructionEnds.begin(), kInstructionEnds.end(),
                                  [&](const char*end) { return holds_tokens(prefix + end); });
  if (!t.is_on("--is-instruction-dataset")) {
    if (packed && !plain && runs)
      t.notice(fmt::format(
          "{} {}: its files are of instructions, and read as with --is-instruction-dataset; Megatron finds no {}.idx", key,
          prefix, prefix));
    return word;
  }
  if (packed) return plain ? Json(prefix + kInstructionEnds[0]) : word;
  if (names_instructions(prefix) || (!plain && !runs)) return word;
  t.refuse(
      "--is-instruction-dataset", fmt::format("--is-instruction-dataset with {} {}", key, prefix),
      fmt::format("instructions lie in {}_packed_*_document.bin and .idx, and there are none", prefix),
      "make them by preprocess_data.py with --handler-name GeneralInstructionHandler, or leave --is-instruction-dataset out");
  return word;
}

// "PREFIX", "PREFIX PREFIX", or "WEIGHT PREFIX WEIGHT PREFIX".
Json megatron_sources(Translation& t, const char* key, bool runs) {
  const Json& words = t.value(key);
  Json sources = Json::array();
  const auto is_number = [&](size_t i) {
    const YamlNode::Kind kind = resolve_scalar(words[i].get<std::string>()).kind;
    return kind == YamlNode::Kind::integer || kind == YamlNode::Kind::real;
  };
  const bool weighted = words.size() > 1 && is_number(0);
  if (weighted && words.size() % 2 != 0)
    return t.refuse(key, fmt::format("{} has {} words", key, words.size()), "a weight stands before each prefix", "correct it"),
           sources;
  for (size_t i = 0; i < words.size(); i += weighted ? 2 : 1)
    if (weighted) {
      const YamlNode w = resolve_scalar(words[i].get<std::string>());
      sources.push_back({{"path", resolve_prefix(t, key, words[i + 1], runs)}, {"weight", w.real}});
    } else {
      sources.push_back(resolve_prefix(t, key, words[i], runs));
    }
  return sources;
}

}  // namespace

void set_megatron_data(Translation& t, const MegatronSizes& s, const MegatronJob& job, MegatronAge age) {
  if (!t.has("--data-path") && !t.has("--train-data-path"))
    t.refuse("--data-path", "--data-path is not given", "training needs data", "write --data-path PREFIX");
  for (const char* key : {"--data-path", "--train-data-path"})
    if (t.has(key)) {
      t.set("data.train", megatron_sources(t, key, job.runs), key);
      if (t.value(key).size() == 1) t.shows(key, t.value(key)[0]);
    }
  if (t.has("--valid-data-path")) t.set("data.valid", megatron_sources(t, "--valid-data-path", job.runs), "--valid-data-path");
  t.set("data.order", age == MegatronAge::classic ? "megatron-2023" : "megatron", "--data-path");
  t.set("data.split", t.value("--split"), "--split");
  t.set("data.sequence_length", t.value("--seq-length"), "--seq-length");
  for (const auto& [key, option] : {std::pair{"--reset-position-ids", "data.reset_position_ids"},
                                    {"--reset-attention-mask", "data.reset_attention_mask"},
                                    {"--eod-mask-loss", "data.eod_mask_loss"}})
    if (t.is_on(key)) t.set(option, true, key);
  if (t.has("--data-cache-path")) t.set("data.index_cache", t.value("--data-cache-path"), "--data-cache-path");
  if (t.is_on("--variable-seq-lengths"))
    t.becomes("--variable-seq-lengths", KeyStatus::inert,
              "rows of instruction data are as long as the longest of their micro batch");
  if (t.has("--dataloader-type")) {
    if (t.text("--dataloader-type") == "single")
      t.becomes("--dataloader-type", KeyStatus::inert, "single is what runs");
    else
      t.refuse("--dataloader-type", "--dataloader-type cyclic", "samples come in the order of their index", "leave it out");
  }
  // The share of validation data in the split; without any nothing is validated.
  const std::vector<std::string> shares = split(t.text("--split"), ',');
  const bool held = t.has("--valid-data-path") ||
                    (shares.size() > 1 && resolve_scalar(shares[1].substr(shares[1].find_first_not_of(' ') == std::string::npos
                                                                              ? 0
                                                                              : shares[1].find_first_not_of(' ')))
                                                  .real > 0);
  const int64_t every = held ? t.whole("--eval-interval") : 0, batches = t.whole("--eval-iters");
  if (every > 0 && batches > 0 && s.micro > 0) {
    t.set("train.valid_every", every, "--eval-interval");
    t.set("train.valid_batches", batches * std::max<int64_t>(1, s.global / s.micro), "--eval-iters");
  } else {
    for (const char* key : {"--eval-interval", "--eval-iters"})
      if (t.has(key))
        t.becomes(key, KeyStatus::inert,
                  held ? "no batches of validation are asked for" : "the split leaves no data to validate on");
  }
  if (t.has("--test-data-path")) {
    if (batches > 0)
      t.refuse("--test-data-path", "--test-data-path", "the end of a run has no test on data of its own",
               "leave it out, or name it by --valid-data-path");
    else
      t.becomes("--test-data-path", KeyStatus::inert, "--eval-iters 0 tests nothing");
  }
}

}  // namespace ravine

// Translates the files of a MindFormers job: data, weights, checkpoints.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <optional>

#include "base/counted.h"
#include "dialects/mindformers_run.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

bool is_there(const std::string& path) {
  std::error_code error;
  return fs::exists(path, error);
}

}  // namespace

std::pair<std::vector<std::string>, std::string> mindformers_paths(const Translation& t, const std::string& data_set) {
  const std::string dir = data_set + ".data_loader.dataset_dir", files = data_set + ".data_loader.dataset_files";
  if (!t.text(dir).empty() || !t.has(files))
    return {t.text(dir).empty() ? std::vector<std::string>{} : std::vector{t.text(dir)}, dir};
  std::vector<std::string> paths;
  const Json& given = t.value(files);
  for (const Json& path : given.is_array() ? given : Json::array({given}))
    if (path.is_string() && !path.get<std::string>().empty()) paths.push_back(path.get<std::string>());
  return {paths, files};
}

namespace {

// Returns a weight: a number, or a text that is a number as a whole ("../data" is a path).
std::optional<double> weight_in(const Json& value) {
  if (value.is_number()) return value.get<double>();
  const std::string text = value.is_string() ? value.get<std::string>() : "";
  double weight = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), weight, std::chars_format::fixed);
  return error == std::errc() && end == text.data() + text.size() && std::isfinite(weight) && weight >= 0
             ? std::optional(weight)
             : std::nullopt;
}

}  // namespace

Json mindformers_sources(Translation& t, const std::string& at, bool runs) {
  const std::string type = t.text(at + ".data_loader.type"), dir = at + ".data_loader.dataset_dir";
  if (type == "BlendedMegatronDatasetDataLoader") {
    const std::string key = at + ".data_loader.config.data_path";
    const Json& given = t.value(key);
    Json out = Json::array();
    // a weight is before its prefix, as in Megatron
    for (size_t i = 0; given.is_array() && i < given.size(); ++i) {
      Json source = {{"path", nullptr}};
      if (const auto weight = i + 1 < given.size() ? weight_in(given[i]) : std::nullopt) source["weight"] = *weight, ++i;
      if (i < given.size() && given[i].is_string()) source["path"] = given[i];
      if (!source["path"].is_null()) out.push_back(source);
    }
    if (out.empty() && given.is_string()) out.push_back({{"path", given}});
    if (out.empty()) t.refuse(key, "no data_path", "it names prefixes of .bin/.idx files, weights before them", "write it");
    return out;
  }
  if (type.empty()) {
    if (!gives(t, at + ".data_loader.type"))
      t.refuse({.key = at + ".data_loader.type",
                .what = fmt::format("{} lacks data_loader.type", at),
                .where = "configuration",
                .rule = "known are MindDataset and BlendedMegatronDatasetDataLoader",
                .fix = "write the section"});
    return Json();
  }
  const auto [paths, from] = mindformers_paths(t, at);
  if (paths.empty()) {
    t.refuse(dir, "no dataset_dir", "it names a MindRecord file or a folder of them",
             at == "train_dataset" ? "give --train_dataset_dir" : "give --eval_dataset_dir");
    return Json();
  }
  const std::string files = at + ".data_loader.dataset_files";
  if (from == dir && gives(t, files)) t.becomes(files, KeyStatus::inert, "dataset_dir counts before it, in MindFormers too");
  for (const std::string& path : paths)
    if (runs && !is_there(path)) {
      t.refuse(from, fmt::format("no data set {}", path), "it names a MindRecord file or a folder of them", "correct the path");
      return Json();
    }
  return Json(paths);
}

void set_mindformers_columns(Translation& t, const std::string& set) {
  const bool megatron = t.text(set + ".data_loader.type") == "BlendedMegatronDatasetDataLoader";
  const std::string pad = "model.model_config.pad_token_id", ignored = "model.model_config.ignore_token_id",
                    sliced = "model.model_config.input_sliced_sig", columns = set + ".input_columns";
  const bool counts = set == (t.evaluates ? "eval_dataset" : "train_dataset");
  if (counts) {
    if (!megatron) t.set("data.pad", t.has(pad) && t.value(pad).is_number_integer() ? t.whole(pad) : 0, pad);
    if (t.has(ignored) && t.whole(ignored) != -100)
      t.refuse(ignored, fmt::format("ignore_token_id is {}", t.whole(ignored)), "a label that counts nothing is -100",
               "write -100 into the data");
    if (t.is_on(sliced) && megatron)  // labels of token files are the next tokens already
      t.becomes(sliced, KeyStatus::used, "data.order");
    else if (t.is_on(sliced))
      t.refuse(sliced, "input_sliced_sig", "labels stand at the places of their tokens, and are shifted here",
               "give rows of seq_length + 1 tokens");
  }
  if (!t.has(columns)) return;
  const Json& names = t.value(columns);
  // The model reads columns by position: ids, labels, and columns that training does not need.
  const auto is_labels = [](const Json& name) { return name == "labels" || name == "target_ids"; };
  static constexpr std::string_view kOfTokenFiles[] = {"input_ids", "labels", "loss_mask", "position_ids"};
  const bool of_token_files =
      megatron && names.size() >= 4 && std::equal(std::begin(kOfTokenFiles), std::end(kOfTokenFiles), names.begin()) &&
      (names.size() == 4 || (names.size() == 5 && (names[4] == "attention_mask" || names[4] == "actual_seq_len")));
  const bool fits = of_token_files || (!names.empty() && names[0] == "input_ids" && (names.size() < 2 || is_labels(names[1])) &&
                                       (names.size() < 3 || names[2] == "attention_mask") && names.size() <= 3);
  if (!fits)
    t.refuse(columns, fmt::format("input_columns is {}", names.dump()),
             "a row has input_ids, may have labels (target_ids) behind them, and then attention_mask, which is not read",
             "name these");
  else if (!megatron && counts)
    t.set("data.labels", names.size() > 1, columns);
}

bool has_mindformers_weights(Translation& t, const std::string& key, bool runs) {
  const std::string path = t.text(key);
  if (!runs || is_there(path)) return true;
  t.refuse(key, fmt::format("no {}", path), "it is a file of weights, or a folder of them", "correct the path");
  return false;
}

namespace {

// Translates the keys of token files that decide which documents a token sees.
void hold_masks(Translation& t) {
  const std::string config = "train_dataset.data_loader.config.", model = "model.model_config.";
  const std::string compressed = config + "create_compressed_eod_mask", resets = config + "reset_attention_mask",
                    mask = config + "create_attention_mask", causal = model + "use_attn_mask_compression";
  if (t.is_on(compressed)) {
    t.set("data.reset_attention_mask", true, compressed);
    return;
  }
  if (t.has(mask) && !t.is_on(mask) && t.is_on(resets))
    t.refuse(mask, "reset_attention_mask is on, and create_attention_mask off",
             "MindFormers resets the mask that it creates, so its documents would not be kept apart",
             "set create_attention_mask: True, or reset_attention_mask: False");
  if (t.has(causal) && t.is_on(causal) && t.is_on(resets) && t.has("use_legacy") && !t.is_on("use_legacy"))
    t.refuse(causal, "reset_attention_mask and use_attn_mask_compression are on",
             "MindFormers puts the causal mask in place of that of reset_attention_mask",
             "set use_attn_mask_compression: False, or create_compressed_eod_mask: True");
}

// True if all documents are in the first part of a split: "100", "1, 0, 0".
bool is_whole_split(const std::string& text) {
  double rest = 0;
  bool first = true;
  for (size_t at = 0; (at = text.find_first_not_of(" ,/", at)) != std::string::npos;) {
    const size_t end = std::min(text.find_first_of(" ,/", at), text.size());
    double share = 0;
    std::from_chars(text.data() + at, text.data() + end, share);
    if (!first) rest += share;
    first = false, at = end;
  }
  return rest == 0;
}

// Compares the keys of token files of eval_dataset with the keys of train_dataset, by which both are read.
void hold_eval_config(Translation& t) {
  const std::string train = "train_dataset.data_loader.config.", eval = "eval_dataset.data_loader.config.";
  for (const std::string& at : {train, eval})
    if (const std::string split = at + "split"; t.has(split) && !is_whole_split(t.text(split)))
      t.refuse(split, fmt::format("split is {}, and eval_dataset has files of its own", t.text(split)),
               "all of data_path is read where a validation has its own files", "write split: '1, 0, 0'");
    else if (t.has(split) && at == eval)
      t.becomes(split, KeyStatus::inert, "all of data_path is evaluated");
  for (const char* key : {"seed", "seq_length", "eod", "eod_mask_loss", "reset_position_ids", "reset_attention_mask",
                          "create_compressed_eod_mask"}) {
    if (!t.has(eval + key)) continue;
    const Json& own = t.value(eval + key);
    Json other = t.value(train + key);
    if (other.is_null() && own.is_boolean()) other = false;
    if (other.is_null() && std::string_view(key) == "seq_length") other = t.value("model.model_config.seq_length");
    if (own != other)
      t.refuse(eval + key, fmt::format("{} is {}, and {} in train_dataset", key, own.dump(), other.dump()),
               "rows of both data sets are made by the keys of train_dataset", "write the same value in both");
  }
}

void choose_data(Translation& t, const MindFormersSizes& s, bool runs) {
  const std::string at = "train_dataset";
  const Json sources = mindformers_sources(t, at, runs);
  const std::string loader = at + ".data_loader.";
  const bool megatron = t.text(loader + "type") == "BlendedMegatronDatasetDataLoader";
  const std::string from = megatron ? loader + "config.data_path" : mindformers_paths(t, at).second;
  if (sources.is_array()) t.set("data.train", sources, from);
  if (megatron) {
    t.set("data.order", "megatron", loader + "type");
    if (const std::string shuffle = loader + "shuffle"; gives(t, shuffle)) {
      t.becomes(shuffle, KeyStatus::inert, "token files are in Megatron's order, drawn by config.seed");
      if (t.is_on(shuffle))
        t.refuse(shuffle, "shuffle is True, of token files", "token files are in Megatron's order, drawn by config.seed",
                 "set it to False");
    }
    for (const auto& [key, option] : {std::pair{"split", "data.split"},
                                      {"seq_length", "data.sequence_length"},
                                      {"eod", "data.eod"},
                                      {"eod_mask_loss", "data.eod_mask_loss"},
                                      {"reset_position_ids", "data.reset_position_ids"},
                                      {"reset_attention_mask", "data.reset_attention_mask"}})
      if (t.has(loader + "config." + key)) t.set(option, t.value(loader + "config." + key), loader + "config." + key);
    hold_masks(t);
    const std::string seed = loader + "config.seed";
    if (t.whole(seed) == t.whole("seed"))
      t.shows(seed, t.value(seed));  // one seed for both
    else
      t.set("data.seed", t.whole(seed), t.has(seed) ? seed : loader + "type");
    if (gives(t, at + ".seed")) t.becomes(at + ".seed", KeyStatus::inert, "data_loader.config.seed orders token files");
    const Json& sizes = t.value(loader + "sizes");
    if (sizes.is_array() && !sizes.empty() && sizes[0].is_number_integer()) t.set("data.samples", sizes[0], loader + "sizes");
  } else {
    // each rank reads a shard, except with full_batch, where one program gets whole batches
    const bool whole = s.semi && (!gives(t, "parallel.full_batch") || t.is_on("parallel.full_batch"));
    t.set("data.order", whole ? "mindspore-whole" : "mindspore", loader + "type");
    t.set("data.shuffle", t.is_on(loader + "shuffle"), loader + "shuffle");
    if (t.whole(loader + "num_samples") > 0) t.set("data.samples", t.whole(loader + "num_samples"), loader + "num_samples");
  }
  for (const char* set : {"train_dataset", "eval_dataset"}) set_mindformers_columns(t, set);
  if (!t.is_on("do_eval")) return;
  hold_mindformers_metric(t);
  const Json valid = mindformers_sources(t, "eval_dataset", runs);
  if (valid.is_array()) t.set("data.valid", valid, mindformers_paths(t, "eval_dataset").second);
  if (megatron) hold_eval_config(t);
  if (const std::string limit = "eval_dataset.data_loader.num_samples"; t.whole(limit) > 0)
    t.set("train.valid_batches", std::max<int64_t>(1, t.whole(limit) / std::max<int64_t>(1, s.micro)), limit);
  const int64_t steps = t.whole("eval_step_interval"), epochs = t.whole("eval_epoch_interval");
  if (steps > 0)
    t.set("train.valid_every", steps, "eval_step_interval");
  else if (epochs > 0 && s.steps_per_epoch > 0)
    t.set("train.valid_every", epochs * s.steps_per_epoch, "eval_epoch_interval");
}

// Handles an empty load_checkpoint: the weights are initialized. Fine-tuning is refused. A training with other keys on
// weights gets a notice, since load_checkpoint may be missing by mistake.
void say_new_weights(Translation& t) {
  const std::string folder = t.text("pretrained_model_dir");
  if (t.text("run_mode") == "finetune")
    return t.refuse("load_checkpoint", "run_mode is finetune, and load_checkpoint empty", "weights that are there are tuned",
                    fmt::format("set load_checkpoint to {}, or run_mode to train, which begins with new weights",
                                folder.empty() ? "their file or folder" : folder));
  std::string speaks;
  if (!folder.empty())
    speaks = fmt::format("pretrained_model_dir is {}, of which the config alone is read", folder);
  else if (t.is_on("auto_trans_ckpt"))
    speaks = "auto_trans_ckpt is on";
  else if (!t.text("src_strategy_path_or_dir").empty())
    speaks = fmt::format("src_strategy_path_or_dir is {}", t.text("src_strategy_path_or_dir"));
  if (!speaks.empty())
    t.notice(fmt::format("load_checkpoint is empty, so training begins with new weights, drawn by the seed; {}", speaks));
}

constexpr const char* kFormat = "load_ckpt_format";

// Returns the path to read. In a folder with both formats it is the single file of load_ckpt_format; else it is `path`.
std::string of_format(Translation& t, const std::string& path) {
  std::error_code error;
  if (!gives(t, kFormat) || !fs::is_directory(path, error)) return path;
  const std::string ending = "." + t.text(kFormat);
  std::vector<std::string> own, other;
  for (const auto& entry : fs::directory_iterator(path, error))
    if (const std::string kind = entry.path().extension().string(); kind == ".ckpt" || kind == ".safetensors")
      (kind == ending ? own : other).push_back(entry.path().string());
  if (own.size() == 1 && !other.empty()) return own[0];
  if (!own.empty() && !other.empty())
    t.refuse(kFormat, fmt::format("{} has {} and files of the other format", path, counted(own.size(), ending + " file")),
             "files of one format are read as a whole", "keep files of one format in a folder");
  else if (own.empty() && !other.empty())
    t.notice(fmt::format("load_ckpt_format is {}, and {} has files of the other format alone: those are read", t.text(kFormat),
                         path));
  return path;
}

void choose_weights(Translation& t, bool runs) {
  std::string key = "load_checkpoint", path = t.text(key);
  if (path.empty() && !t.text("model.model_config.checkpoint_name_or_path").empty())
    key = "model.model_config.checkpoint_name_or_path", path = t.text(key);
  const Json& resume = t.value("resume_training");
  const bool named = resume.is_string(), goes_on = named || (resume.is_boolean() && resume.get<bool>());
  if (path.empty()) {
    t.set("checkpoint.resume", "none", "resume_training");
    if (goes_on)
      t.refuse("load_checkpoint", "resume_training is on, and load_checkpoint empty", "a run goes on from a checkpoint",
               "set load_checkpoint to the file or folder");
    else
      say_new_weights(t);
    return;
  }
  path = of_format(t, path);
  if (!has_mindformers_weights(t, key, runs)) return;
  if (!goes_on) {
    t.set("checkpoint.resume", "none", "resume_training");
    t.set("model.weights", path, key);
    return;
  }
  std::error_code error;
  if (named && fs::is_directory(path, error)) {
    std::string name = resume.get<std::string>();
    if (!name.ends_with(".safetensors") && !name.ends_with(".ckpt"))
      name += gives(t, kFormat) && t.text(kFormat) == "ckpt" ? ".ckpt" : ".safetensors";
    // rank 0's file leads to the files of all ranks
    if (is_there(path + "/rank_0")) path += "/rank_0";
    path += "/" + name;
    if (runs && !is_there(path)) {
      t.refuse("resume_training", fmt::format("no {}", path), "it is the name of a checkpoint in load_checkpoint",
               "correct the name");
      return;
    }
  }
  t.set("checkpoint.resume", resume_path(path), named ? "resume_training" : key);
  if (t.is_on("ignore_data_skip"))
    t.set("checkpoint.data_steps", 0, "ignore_data_skip");
  else if (t.has("data_skip_steps"))
    t.set("checkpoint.data_steps", t.whole("data_skip_steps"), "data_skip_steps");
}

// Refuses a second callback of the classes that a run has once.
void refuse_second_callbacks(Translation& t) {
  for (const char* type : {"CheckpointMonitor", "MFLossMonitor", "TrainCallBack", "MoEDropRateCallback"})
    for (const std::string& key : t.given())
      if (key.starts_with("callbacks[") && key.ends_with("].type") && t.text(key) == type &&
          key.substr(0, key.find(']') + 1) != callback_of(t, type))
        t.refuse(key, fmt::format("two callbacks are {}", type), "a run has one of them", "leave one out");
}

void choose_checkpoints(Translation& t) {
  t.set("checkpoint.layout", "mindformers", "output_dir");
  const std::string at = callback_of(t, "CheckpointMonitor");
  if (at.empty()) {
    t.set("checkpoint.every", 0, "output_dir");
    return;
  }
  const auto key = [&](const char* name) { return at + "." + name; };
  const auto from = [&](const char* name) { return t.has(key(name)) ? key(name) : at + ".type"; };
  t.set("checkpoint.prefix", t.text(key("prefix")), from("prefix"));
  const int64_t every = t.whole(key("save_checkpoint_steps")), keep = t.whole(key("keep_checkpoint_max"));
  if (every < 1)
    t.refuse(key("save_checkpoint_steps"), fmt::format("save_checkpoint_steps is {}", every), "it is 1 or more", "correct it");
  t.set("checkpoint.every", every, from("save_checkpoint_steps"));
  t.set("checkpoint.keep", std::max<int64_t>(0, keep), from("keep_checkpoint_max"));
  // models of parallel_core always write safetensors
  t.set("checkpoint.format", t.is_on("use_legacy") ? t.text(key("checkpoint_format")) : "safetensors",
        from("checkpoint_format"));
  Json copies = Json::array();
  if (t.is_on(key("save_network_params"))) copies.push_back("network");
  if (t.is_on(key("save_trainable_params"))) copies.push_back("trainable");
  if (!copies.empty())
    t.set("checkpoint.copies", copies, copies[0] == "network" ? key("save_network_params") : key("save_trainable_params"));
  const std::string directory = t.text(key("directory"));
  if (t.is_on(key("remove_redundancy")) && t.is_on("use_legacy") && t.text(key("checkpoint_format")) == "ckpt")
    t.refuse(key("remove_redundancy"), "remove_redundancy is on, and checkpoint_format ckpt",
             "files of this format hold all tensors, in MindFormers too", "write checkpoint_format: safetensors");
  if (t.text(key("prefix")).find('/') != std::string::npos)
    t.refuse(key("prefix"), fmt::format("prefix is {}", t.text(key("prefix"))), "files begin with it, so it has no slash",
             "name a folder by output_dir");
  if (!directory.empty() && directory != t.text("output_dir"))
    t.refuse(key("directory"), fmt::format("directory is {}", directory), "checkpoints lie in output_dir", "leave it out");
}

}  // namespace

void set_mindformers_files(Translation& t, const MindFormersSizes& s, bool runs) {
  choose_data(t, s, runs);
  choose_weights(t, runs);
  refuse_second_callbacks(t);
  choose_checkpoints(t);
  set_mindformers_outputs(t, runs);
  mark_idle_keys(t);
}

}  // namespace ravine

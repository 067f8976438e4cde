// --load and --save of Megatron's training programs: the files in these folders decide the start of a run.
#include <fmt/format.h>

#include <charconv>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "base/text.h"
#include "dialects/megatron_held.h"
#include "dialects/megatron_run.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

constexpr const char* kTracker = "latest_checkpointed_iteration.txt";
constexpr uintmax_t kTrackerBytes = 4096;

// The contents of a folder of Megatron's checkpoints.
struct Place {
  bool ranks = false;                // has folders of ranks, or a tracker file that names one
  std::optional<int64_t> iteration;  // empty: a release, which has weights alone
  std::string tracker, trouble;      // the tracker file, and the mistake in it; "" if none
};

std::optional<int64_t> number_in(std::string_view word) {
  int64_t n = -1;
  const auto [end, code] = std::from_chars(word.data(), word.data() + word.size(), n);
  return code == std::errc{} && end == word.data() + word.size() && n >= 0 ? std::optional(n) : std::nullopt;
}

// Returns 12 for the folder name "iter_0000012"; nothing for another name.
std::optional<int64_t> iteration_of(const std::string& name) {
  return name.starts_with("iter_") ? number_in(std::string_view(name).substr(5)) : std::nullopt;
}

bool holds_name(const std::string& folder, bool (*fits)(const std::string& name)) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (fits(entry.path().filename().string())) return true;
  return false;
}

Place place_in(const std::string& folder) {
  Place out;
  if (folder.empty()) return out;
  std::error_code error;
  for (const char* name : {kTracker, "latest"}) {
    const fs::path file = fs::path(folder) / name;
    if (!fs::exists(file, error)) continue;
    out.ranks = true, out.tracker = file.string();
    const bool regular = fs::is_regular_file(file, error);
    const uintmax_t bytes = regular ? fs::file_size(file, error) : 0;
    if (!regular || bytes > kTrackerBytes) {
      out.trouble = regular ? fmt::format("a file of {} bytes", bytes) : "no regular file";
      return out;
    }
    if (std::string_view(name) != kTracker) return out;
    std::ifstream in(file);
    std::string word;
    in >> word;
    out.iteration = number_in(word);
    if (!out.iteration && word != "release") out.trouble = fmt::format("'{}'", escaped(word.substr(0, 40)));
    return out;
  }
  if (holds_name(folder, [](const std::string& name) { return name.starts_with("mp_rank_") || name == ".metadata"; })) {
    fs::path whole = fs::weakly_canonical(fs::absolute(folder, error), error);
    if (!whole.has_filename()) whole = whole.parent_path();
    out.ranks = true, out.iteration = iteration_of(whole.filename().string());
  }
  return out;
}

void refuse_bad_tracker(Translation& t, const char* key, const Place& place) {
  if (place.trouble.empty()) return;
  const bool own = fs::path(place.tracker).filename() == kTracker;
  t.refuse(key, fmt::format("bad tracker file {}", place.tracker),
           fmt::format("it holds {}, got {}", own ? "'release' or a number" : "the name of a folder", place.trouble),
           "correct it");
}

bool same_place(const std::string& a, const std::string& b) {
  const auto place = [](const std::string& path) {
    std::error_code error;
    const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
    return whole.has_filename() ? whole : whole.parent_path();
  };
  return !a.empty() && !b.empty() && place(a) == place(b);
}

bool holds_own_checkpoints(const std::string& folder) {
  std::error_code error;
  return !folder.empty() && fs::exists(fs::path(folder) / "checkpoints", error);
}

// Returns the model folder of a Ravine run in --load; "" if --load is no run. A run without a model is refused.
std::string model_of_own_form(Translation& t, const std::string& load) {
  std::error_code error;
  const fs::path folder = load;
  const bool run = fs::exists(folder / "config.yaml", error) || holds_own_checkpoints(load);
  if (run && fs::exists(folder / "model/config.json", error)) return (folder / "model").lexically_normal().string();
  const auto refuse = [&](const std::string& what, const std::string& rule, const std::string& fix) {
    t.refuse("--load", fmt::format("--load {}, {}", load, what), rule, fix);
  };
  if (fs::exists(folder / "manifest.json", error)) {
    const fs::path made = folder / "../../model";
    refuse("a checkpoint in Ravine's own form", "--load names folders of Megatron's ranks or a Hugging Face model",
           fmt::format("{}make a model of it by `ravine convert --input {} --output DIR --to hf`, and write --load DIR",
                       fs::exists(made / "config.json", error)
                           ? fmt::format("write --load {}, or ", made.lexically_normal().string())
                           : "",
                       load));
  } else if (run && fs::exists(folder / "adapter/adapter_config.json", error)) {
    refuse("a run that has trained an adapter", "--load names weights of a whole model",
           fmt::format("write --lora-load {}, and as --load the model that it was trained on",
                       (folder / "adapter").lexically_normal().string()));
  } else if (holds_own_checkpoints(load)) {
    refuse("a run without a model", fmt::format("{} is written at its end", (folder / "model").lexically_normal().string()),
           fmt::format("make a model of its newest checkpoint by `ravine convert --input {} --output DIR --to hf`, and write "
                       "--load DIR",
                       load));
  }
  return "";
}

// Handles a --load without weights: a notice or a refusal. `why`: the reason, for the message.
void begins_anew(Translation& t, const std::string& load, const std::string& why) {
  const std::string save = t.text("--save");
  const bool goes_on = place_in(save).iteration || holds_own_checkpoints(save);
  const std::string then = goes_on ? "the run goes on from the newest of --save" : "training begins with new weights";
  if (!goes_on && t.is_on("--finetune"))
    t.refuse("--finetune", fmt::format("--finetune with --load {}", load), why + ", and nothing to fine-tune",
             "correct the path, or leave --finetune out");
  else if (!goes_on && t.is_on("--exit-on-missing-checkpoint"))
    t.refuse("--exit-on-missing-checkpoint", fmt::format("--exit-on-missing-checkpoint with --load {}", load), why,
             "correct the path");
  else if (!same_place(load, save))
    t.notice(fmt::format("--load {}: {}; {}", load, why, then));
  t.becomes("--load", KeyStatus::inert,
            same_place(load, save) && !goes_on
                ? why + ": training begins with new weights, and goes on from the newest of --save"
                : fmt::format("{}: {}", why, then));
  for (const char* key : {"--use-checkpoint-args", "--exit-on-missing-checkpoint"})
    if (t.has(key)) t.becomes(key, KeyStatus::inert, "--load names no weights here");
}

// Returns why the run's checkpoints cannot have Megatron's format; "" if they can.
std::string beyond_files(const Translation& t, const MegatronJob& job) {
  if (t.is_on("--deepspeed")) return "with --deepspeed they would be DeepSpeed's, which are not written by these flags";
  std::error_code error;
  if (t.has("--save") && fs::exists(fs::path(t.text("--save")) / "checkpoints", error))
    return "--save holds such already, from which the run goes on";
  if (!job.beyond_files || !t.refusals().empty()) return "";
  try {
    return job.beyond_files(config_of(t));
  } catch (const UserError&) {  // reported when the config is run
    return "";
  }
}

}  // namespace

bool holds_megatron_ranks(const std::string& folder) { return place_in(folder).ranks; }

bool set_megatron_load(Translation& t, const MegatronJob& job) {
  const std::string load = t.text("--load"), save = t.text("--save");
  const bool same = same_place(load, save);
  for (const char* key : {"--use-checkpoint-args", "--exit-on-missing-checkpoint"})
    if (t.has(key) && !t.has("--load")) t.becomes(key, KeyStatus::inert, "--load is not given");
  if (t.has("--save")) refuse_bad_tracker(t, "--save", place_in(save));
  if (!t.has("--load")) return false;
  const Place place = place_in(load);
  if (!same) refuse_bad_tracker(t, "--load", place);
  if (place.ranks) return false;  // set_megatron_checkpoints() uses them; the flags describe the model
  std::error_code error;
  if (fs::exists(fs::path(load) / "config.json", error)) {
    t.set("model.path", load, "--load");
    hold_megatron_network(t, job, load, LoadedAs::model);
    return true;
  }
  if (!same) {
    const size_t before = t.refusals().size();
    if (const std::string model = model_of_own_form(t, load); !model.empty()) {
      t.set("model.path", model, "--load");
      hold_megatron_network(t, job, model, LoadedAs::model);
      t.notice(fmt::format("--load {}: a run of Ravine, the weights of {} are taken", load, model));
      return true;
    }
    if (t.refusals().size() > before) return false;
  }
  if (holds_name(load, [](const std::string& name) { return iteration_of(name).has_value(); })) {
    const std::string why = fmt::format("it holds iterations, and no {} that names one", kTracker);
    if (same)
      t.notice(fmt::format("--load {}: {}; training begins with new weights", load, why));
    else
      t.refuse("--load", "--load " + load, why + ", by which Megatron finds them",
               fmt::format("write the number of the iteration into {}", (fs::path(load) / kTracker).string()));
  }
  begins_anew(t, load, fs::exists(load, error) ? "there is no checkpoint in it" : "there is no such folder");
  return false;
}

namespace {

// Sets `goes_on_from` to the folder of checkpoints that the run resumes from; a new run leaves it unchanged.
void choose_checkpoint(Translation& t, const MegatronJob& job, std::string& goes_on_from) {
  std::string load = t.text("--load");
  while (load.size() > 1 && load.ends_with('/')) load.pop_back();
  const std::string save = t.text("--save");
  const Place from = place_in(load), to = place_in(save);
  if (!from.trouble.empty() || !to.trouble.empty()) return;  // refused
  const bool ranks = t.has("--load") && from.ranks, same = same_place(load, save);
  const std::optional<int64_t> loaded = from.iteration, saved = to.iteration;
  bool goes_on = loaded.has_value();
  for (const char* key : {"--finetune", "--no-load-optim"}) {
    if (!t.has(key)) continue;
    if (loaded)
      goes_on = false;
    else
      t.becomes(key, KeyStatus::inert, "what --load names are weights alone, if it is given");
  }
  const std::string beyond = t.has("--save") || goes_on ? beyond_files(t, job) : "";
  if (!beyond.empty()) t.notice("checkpoints have Ravine's own form: " + beyond);
  if (beyond.empty() && (t.has("--save") || goes_on))
    t.set("checkpoint.layout", "megatron", t.has("--save") ? "--save" : "--load");
  if (const char* alone = "--no-save-optim"; t.is_on(alone) && t.has("--save")) {
    if (beyond.empty())
      t.set("checkpoint.optimizer", false, alone);
    else
      t.becomes(alone, KeyStatus::inert, "checkpoints of Ravine's own form always hold the state of the optimizer");
  }
  const bool newest = beyond.empty() && saved.has_value();
  if (newest) goes_on_from = save;
  if (!beyond.empty() && holds_own_checkpoints(save)) goes_on_from = save;
  if (newest && t.has("--load"))
    for (const char* key : {"--finetune", "--no-load-optim"}) {
      if (!t.is_on(key)) continue;
      const std::string why = fmt::format(
          "--save {} holds iteration {}, and the run goes on from it with its moments: {} counts at a run's first start", save,
          *saved, key);
      t.becomes(key, KeyStatus::inert, why);
      if (same)
        t.notice(fmt::format("{}; Megatron would begin {} anew", why,
                             std::string_view(key) == "--finetune" ? "its iterations" : "its optimizer"));
    }
  if (newest && t.has("--load") && !same) {
    const std::string why = fmt::format(
        "--save {} holds iteration {}, and a run always goes on from the newest of --save; Megatron would read --load", save,
        *saved);
    t.notice(why);
    if (ranks) return t.becomes("--load", KeyStatus::inert, why);
  }
  if (!ranks) return;
  if (newest && same) return t.set("checkpoint.resume", kResumeNewest, "--load");
  if (goes_on && beyond.empty()) {
    goes_on_from = load;
    return t.set("checkpoint.resume", resume_path(load), "--load");
  }
  if (same && holds_own_checkpoints(save))
    return t.becomes("--load", KeyStatus::inert, "the run goes on from the newest of --save, in Ravine's own form");
  if (same)
    t.refuse("--save", fmt::format("--save {}, the folder of --load", save),
             "a run takes weights alone from there, and writes into another folder", "choose another --save");
  t.set("model.weights", load, "--load");
  if (!loaded && from.tracker.empty() && fs::path(load).filename() != "release")
    t.notice(
        fmt::format("--load {}: the folder's name is no iteration; its weights are taken, and the run begins at step 0", load));
  if (!loaded) return;
  if (t.is_on("--finetune")) return t.set("model.weights", load, "--finetune");
  if (t.is_on("--no-load-optim")) t.set("model.weights", load, "--no-load-optim");
  t.notice(fmt::format("--load {}: its weights are taken, and the run begins at step 0{}", load,
                       t.is_on("--no-load-optim") ? fmt::format("; Megatron would count on from iteration {}", *loaded) : ""));
}

}  // namespace

void set_megatron_checkpoints(Translation& t, const MegatronJob& job) {
  std::string from;
  choose_checkpoint(t, job, from);
  std::string weights = from;
  for (const Setting& setting : t.settings())
    if (weights.empty() && setting.key == "model.weights") weights = t.text("--load");
  if (!weights.empty()) hold_megatron_network(t, job, weights, LoadedAs::weights);
  set_megatron_scheduler(t, job, from);
}

}  // namespace ravine

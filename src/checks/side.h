// A side of `ravine check config`: a training as one program describes it, and the config that Ravine makes of it.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/config.h"
#include "model/decoder.h"

namespace ravine {

enum class Program : uint8_t { ravine, megatron, mindformers, trainer };
std::string_view name(Program program);  // "Megatron"

// A key or flag that a side sets: its value as the other program spells it, and its place: FILE:LINE.
struct GivenValue {
  Json value;
  std::string where;
};

// Facts that a side may lack: the number of samples of an epoch, if its data are not here; the number of ranks, if
// nothing says it. 0: not known.
struct SideFacts {
  int64_t samples = 0, ranks = 0;
};

// A training as one program describes it: the result of load_side().
struct Side {
  std::string path, kind;  // as typed; "YAML of MindFormers"
  Program program = Program::ravine;
  Config config;                                   // resolved, with the program's defaults
  std::map<std::string, GivenValue> given;         // keys and flags of another program, by name
  std::map<std::string, std::string> environment;  // variables that a launch script sets
  int64_t ranks = 0;                               // 0: not known
  bool steps_known = true;                         // false: the number of steps follows from data that are not here
  Json model;                                      // config.json; null if the side names no model, or a missing one
  std::string model_file;                          // the file of `model`; "": the side describes the model itself
  bool rows_known = true;                          // false: the number of rows of the vocabulary is not known
  std::shared_ptr<Model> built;                    // null if `model` cannot be built
  std::vector<std::string> refused;                // untranslated keys, each with its place and the reason
  std::vector<std::string> notes;                  // facts about how the side was read

  bool sets(const std::string& key) const { return given.contains(key); }
  // Returns the value of a key that the side sets; null for other keys.
  const Json& value(const std::string& key) const;
  // True if the side sets the switch to true.
  bool is_on(const std::string& key) const { return value(key).is_boolean() && value(key).get<bool>(); }
  std::string text(const std::string& key) const;  // "" if the value is no text
  // Returns the place of a value: of the first of `keys` that the side sets, else of an option or a field of
  // config.json; "default of PROGRAM" if the side sets none of them.
  std::string where(const std::string& option, const std::vector<std::string>& keys, const std::string& field = "") const;
  // The decoder's spec; null if it is not known.
  const DecoderSpec* spec() const { return built ? built->decoder() : nullptr; }
};

// Reads a side and recognises its program by content. `given` is one of these:
// - a YAML of Ravine or of MindFormers; the folder of a run;
// - a file with the flags of a program, or a launch script (.sh), which is never run;
// - a folder with config.json, TrainingArguments as JSON, a DeepSpeed config, or several of them, joined by commas.
// An unreadable side is a UserError. A key that Ravine refuses to run is in Side::refused.
Side load_side(const std::string& given, const SideFacts& facts);

// Returns a side without its model: program, config, given keys, environment and notes. Reads the files
// of a side (side_parts.cpp): recognises the program by content and translates its keys.
Side read_side(const std::string& given, const SideFacts& facts);

}  // namespace ravine

// Translates command lines and files of other programs into a Config. Each program has a table with a row per key, and
// functions for results of several keys. Both are in separate files, and no other file has the program's name.
//
//   std::vector<GivenKey> given = read_flags(table, words, "NAME");      // or from a file of the other program
//   Translation t = translate(table, given, "NAME");                     // checks keys and types, sets copied options
//   if (t.has("--a")) t.set("train.steps", t.whole("--a") * 2, "--a");   // all other options
//   Config config = config_of(t);                                        // or a UserError that names all refused keys
//
// Every given key has a line in the explanation, with its effect.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/load.h"
#include "dialects/trainer_outputs.h"

namespace ravine {

// The type of the value of a key or flag of another program. `on`: a switch without a value, which means true. `any`:
// any value in a file of the other program.
enum class KeyType : uint8_t { on, boolean, whole, number, text, wholes, numbers, texts, map, any };
std::string_view words_of(KeyType type);  // "a whole number"

// The effect of a key or flag of another program. used: it sets options. inert: no effect, for a reason. refused: an
// error, for a reason. Two more statuses are for lines of an explanation. standard: the default is used. derived: a
// result of several keys.
enum class KeyStatus : uint8_t { used, inert, refused, standard, derived };
std::string_view name(KeyStatus status);  // "default" for `standard`

// A row of the table of a program's keys. option: the options of Ravine that the key sets, as text for the user; with
// `copied` it is one option, which gets the key's value unchanged.
struct DialectKey {
  std::string key;  // the user's spelling: "--num-layers", "optimizer.params.lr"
  KeyType type = KeyType::text;
  KeyStatus status = KeyStatus::used;
  std::string option = "";
  std::string reason = "";                // inert, refused: a sentence without a full stop
  Json standard = nullptr;                // default of the other program; null: none
  std::vector<std::string> choices = {};  // allowed texts
  bool copied = false;                    // true: translate() sets the option to the key's value
  bool same = false;                      // true: the option gets the key's own value, by `copied` or by a function
  std::string fix = "leave it out";       // refused: advice on how to solve it
};
using DialectTable = std::vector<DialectKey>;

// Return a row of a table by its effect. copied: the option gets the key's value. renamed: a function sets the option
// to the key's value. used: a function sets options. Example: copied("--train-iters", KeyType::whole, "train.steps").
DialectKey copied(std::string key, KeyType type, std::string option, Json standard = nullptr);
DialectKey renamed(std::string key, KeyType type, std::string option, Json standard = nullptr);
DialectKey used(std::string key, KeyType type, std::string option, Json standard = nullptr,
                std::vector<std::string> choices = {});
DialectKey inert(std::string key, KeyType type, std::string reason, Json standard = nullptr);
DialectKey refused(std::string key, KeyType type, std::string reason, std::string fix = "leave it out");
DialectTable joined(std::vector<DialectTable> tables);  // concatenates tables; a key in two tables is an Error

// A key or flag that the user has set, with its value. source: its place, FILE:LINE, or "command line".
struct GivenKey {
  std::string key;
  Json value;
  std::string source;
};

// A line of the explanation of a translation: a key, and its effect in Ravine. option: for used keys; reason: for
// others. agrees: an inert key that a user of the other program has to give, and that agrees with the files of the job.
struct ExplainedKey {
  std::string key;
  Json value;
  KeyStatus status = KeyStatus::used;
  std::string option, reason;
  bool agrees = false;
};

// The refusal of a key: the parts of its UserError. key: the line of the explanation that shows the refusal.
struct KeyRefusal {
  std::string key, what, where, rule, fix;
};

// A translation of another program's keys, in progress or complete: settings of options, refusals and notices.
class Translation {
 public:
  Translation(DialectTable table, std::string program);

  // Return the value of a key: the last value that the user has set, else the default in its row. A key that is in no
  // table is an Error. If there is no value, a number is 0 and a text is "".
  bool has(const std::string& key) const;  // true if the user has set the key
  bool is_on(const std::string& key) const;
  const Json& value(const std::string& key) const;  // null if there is none
  int64_t whole(const std::string& key) const;
  double number(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::string source(const std::string& key) const;  // place of the value; "default" if the user has not set the key
  std::vector<std::string> given() const;            // the keys that the user has set, in order of first appearance

  // Sets an option to a value. `from`: the key that leads to it, whose line of the explanation then names the option.
  void set(const std::string& option, const Json& value, const std::string& from);
  // Sets an option to a value that does not come from a key.
  void set_option(const std::string& option, const Json& value, const std::string& source);
  // Replaces the status, and the option (used) or reason (inert, refused), of a key's row in this translation.
  void becomes(const std::string& key, KeyStatus status, const std::string& option_or_reason);
  // Makes a key inert that is no news: the user has to give it, and it agrees with the files of the job.
  void agrees(const std::string& key, const std::string& reason);
  void shows(const std::string& key, Json value);   // sets the value of a key that the explanation shows
  void derive(const std::string& key, Json value);  // adds a line for a result of several keys: "derived.lr"
  void refuse(const std::string& key, const std::string& what, const std::string& rule, const std::string& fix);
  void refuse(KeyRefusal refusal);  // adds a refusal; its key may have no row
  void notice(std::string text);

  const std::vector<Setting>& settings() const { return settings_; }  // in order; a later setting of an option wins
  const std::vector<KeyRefusal>& refusals() const { return refusals_; }
  const std::vector<std::string>& notices() const { return notices_; }  // lines for the user, on stderr
  std::vector<ExplainedKey> lines() const;  // given keys in order, then refusals of other keys, then derived lines

  int64_t ranks = 0;       // number of ranks that the job has; 0: not set, any number may run it
  bool evaluates = false;  // true: the job only computes the loss on data.valid
  TrainerOutputs trainer;  // settings for files, set by `ravine trainer` only
  // For a program that does not train: the words of Ravine's command that does the same, {"eval", ..}.
  std::vector<std::string> command;
  std::vector<std::vector<std::string>> then;  // commands to run after it, in order

 private:
  friend Translation translate(DialectTable table, const std::vector<GivenKey>& given, const std::string& program);
  struct Entry {
    DialectKey row;
    Json value;  // null: not given
    std::string source;
    Json shown;
    bool agrees = false;
  };
  const Entry& entry(const std::string& key) const;
  Entry& entry(const std::string& key);

  std::string program_;
  std::vector<Entry> entries_;  // in order of the table
  std::vector<size_t> given_;
  std::vector<Setting> settings_;
  std::vector<KeyRefusal> refusals_;
  std::vector<ExplainedKey> derived_;
  std::vector<std::string> notices_;
};

// Begins the translation of the keys `given`: checks them by the table, with types and choices, and sets the options of
// `copied` rows. program: the other program's name in messages. Unknown keys (with the nearest known key) and refused
// keys are stored as refusals in the result, not thrown: config_of() throws them.
Translation translate(DialectTable table, const std::vector<GivenKey>& given, const std::string& program);

// Returns the config of a translation: its settings, then `over` (settings of the command line), which override them.
// If the translation has refusals, they are one UserError that names all of them.
Config config_of(const Translation& translation, const std::vector<Setting>& over = {});
void refuse_keys(const std::vector<KeyRefusal>& refusals);  // throws one UserError for all; returns if there are none
// Throws one UserError for all refusals of a translation; returns if there are none.
void refuse_all(const Translation& translation);

// Returns the explanation of a translation as a JSON line per key: {"key", "value", "status", "option", "reason"}.
std::string explanation(const Translation& translation);
// Returns the explanation of a translation as a table for the user, ordered by status, refused keys first. Lines have
// about `width` letters.
std::string explanation_table(const Translation& translation, size_t width);

// A word of a command line, and its place: FILE:LINE, or "command line".
struct PlacedWord {
  std::string text, source;
};
// Returns the words with the place "command line".
std::vector<PlacedWord> placed(const std::vector<std::string>& words);

// Parses the words of a command line like Python's argparse without abbreviations: --key VALUE or --key=VALUE, lists up
// to the next flag, and switches without a value. `-1` is a value. A word that belongs to no flag and a flag without
// its value are UserErrors. Unknown flags are returned with the words after them; translate() refuses them.
std::vector<GivenKey> read_flags(const DialectTable& table, const std::vector<PlacedWord>& words, const std::string& program);

}  // namespace ravine

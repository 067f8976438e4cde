// How command lines and files of other programs become a Config. Each program has a table, one row per key that it knows, and
// functions for what follows from several keys; both lie in files of its own, and its name stands nowhere else.
//
//   std::vector<GivenKey> given = read_flags(table, words, "NAME");      // or from a file of the other program
//   Translation t = translate(table, given, "NAME");                     // known, of the right type, copied where that is all
//   if (t.has("--a")) t.set("train.steps", t.whole("--a") * 2, "--a");   // the rest
//   Config config = config_of(t);                                        // or one UserError that names all that is refused
//
// Every key that was given has a line that says what becomes of it (explanation).
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "config/load.h"
#include "dialects/trainer_outputs.h"

namespace ravine {

// What a value must be. A switch stands alone and means true. `any`: whatever a file of the other program holds.
enum class KeyType : uint8_t { on, boolean, whole, number, text, wholes, numbers, texts, map, any };
std::string_view words_of(KeyType type);  // "a whole number"

// What becomes of a key: it has an effect; it has none, for a reason; it is refused, for a reason. A line of an explanation may
// also say that nobody gave the key, or that several keys gave a result.
enum class KeyStatus : uint8_t { used, inert, refused, standard, derived };
std::string_view name(KeyStatus status);  // "default" of `standard`

// A row. `option` names what the key leads to, for people; with `copied` the value goes there as it is.
struct DialectKey {
  std::string key;  // as users write it: "--num-layers", "optimizer.params.lr"
  KeyType type = KeyType::text;
  KeyStatus status = KeyStatus::used;
  std::string option = "";
  std::string reason = "";                // inert, refused: why, in a sentence without a full stop
  Json standard = nullptr;                // what the other program takes where the key is not given; null: nothing
  std::vector<std::string> choices = {};  // of a text
  bool copied = false;
  bool same = false;                 // the option gets the value that the key has, by `copied` or by the functions
  std::string fix = "leave it out";  // refused: what to do instead
};
using DialectTable = std::vector<DialectKey>;

// Rows in one line each: copied("--train-iters", KeyType::whole, "train.steps").
DialectKey copied(std::string key, KeyType type, std::string option, Json standard = nullptr);
DialectKey renamed(std::string key, KeyType type, std::string option, Json standard = nullptr);  // used, and the same value
DialectKey used(std::string key, KeyType type, std::string option, Json standard = nullptr,
                std::vector<std::string> choices = {});
DialectKey inert(std::string key, KeyType type, std::string reason, Json standard = nullptr);
DialectKey refused(std::string key, KeyType type, std::string reason, std::string fix = "leave it out");
DialectTable joined(std::vector<DialectTable> tables);  // a key in two of them is an Error

// A key with its value, as it was given: `source` is FILE:LINE, or the command line.
struct GivenKey {
  std::string key;
  Json value;
  std::string source;
};

struct ExplainedKey {
  std::string key;
  Json value;
  KeyStatus status = KeyStatus::used;
  std::string option, reason;
};

// Of a UserError; `key` names what it is about, for the explanation.
struct KeyRefusal {
  std::string key, what, where, rule, fix;
};

// What the keys have come to so far.
class Translation {
 public:
  Translation(DialectTable table, std::string program);

  // The value that counts: the last one given, else the row's standard. Keys that are in no table are an Error. A number of a
  // key without value is 0, a text "".
  bool has(const std::string& key) const;  // given
  bool is_on(const std::string& key) const;
  const Json& value(const std::string& key) const;  // null: none
  int64_t whole(const std::string& key) const;
  double number(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::string source(const std::string& key) const;  // "default" if not given
  std::vector<std::string> given() const;            // keys, in order of first appearance

  // The option takes the value; `from` is the key that says so, whose line then names the option too.
  void set(const std::string& option, const Json& value, const std::string& from);
  // The option takes the value that something beside the keys says.
  void set_option(const std::string& option, const Json& value, const std::string& source);
  // What becomes of a key in this run, where that is not what its row says.
  void becomes(const std::string& key, KeyStatus status, const std::string& option_or_reason);
  void shows(const std::string& key, Json value);   // the value that counts in the end, filled in from others
  void derive(const std::string& key, Json value);  // a line of its own, "derived.lr"
  void refuse(const std::string& key, const std::string& what, const std::string& rule, const std::string& fix);
  void refuse(KeyRefusal refusal);  // of a key in no row too
  void notice(std::string text);

  const std::vector<Setting>& settings() const { return settings_; }  // in order, the later wins
  const std::vector<KeyRefusal>& refusals() const { return refusals_; }
  const std::vector<std::string>& notices() const { return notices_; }  // for stderr
  std::vector<ExplainedKey> lines() const;                              // of keys given, in order; then of what was derived

  int64_t ranks = 0;                 // that the job is to have, if anything says so; 0: as many as run it
  bool evaluates = false;            // nothing is trained: the loss on data.valid is asked for
  TrainerOutputs trainer;            // of `ravine trainer`
  std::vector<std::string> command;  // of a program that does not train: the words of ours that does the same, {"eval", ..}
  std::vector<std::vector<std::string>> then;  // further ones, each behind the one before

 private:
  friend Translation translate(DialectTable table, const std::vector<GivenKey>& given, const std::string& program);
  struct Entry {
    DialectKey row;
    Json value;  // null: not given
    std::string source;
    Json shown;
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

// Looks every given key up, checks types and choices, and copies what is copied. Keys in no row are refused with the nearest
// one; so are those that a row refuses. Nothing throws: config_of does.
Translation translate(DialectTable table, const std::vector<GivenKey>& given, const std::string& program);

// The config that the settings lead to, then `over` (of the command line). What was refused is one UserError that names all.
Config config_of(const Translation& translation, const std::vector<Setting>& over = {});
void refuse_keys(const std::vector<KeyRefusal>& refusals);  // all of them in one UserError; returns if there are none
void refuse_all(const Translation& translation);            // throws that UserError; returns if nothing was refused

// One JSON line per key: {"key", "value", "status", "option", "reason"}.
std::string explanation(const Translation& translation);
// The same for people: by status, refused keys first, in columns; words wrap at so many letters.
std::string explanation_table(const Translation& translation, size_t width);

// A word of a command line, and where it stands.
struct PlacedWord {
  std::string text, source;
};
std::vector<PlacedWord> placed(const std::vector<std::string>& words);  // of the command line

// Reads words as Python's argparse does without abbreviations: --key VALUE or --key=VALUE, lists up to the next flag, switches
// alone; `-1` is a value. Words that belong to no flag, and flags without their value, are UserErrors; flags in no row are kept
// with the words behind them, for translate to refuse.
std::vector<GivenKey> read_flags(const DialectTable& table, const std::vector<PlacedWord>& words, const std::string& program);

}  // namespace ravine

// Follows sequences, conditions, loops, assignments and simple commands of a script.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/read_text.h"
#include "base/text.h"
#include "dialects/shell_follower.h"
#include "dialects/shell_run.h"
#include "dialects/shell_substitution.h"
#include "dialects/shell_test.h"

namespace ravine {

namespace {

constexpr int kMostTurns = 4096;  // most iterations of a loop

bool is_quoted(const std::string& raw) { return raw.starts_with('"') || raw.starts_with('\''); }

// Returns a pattern of bash that matches this text only.
std::string as_literal(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("*?[\\").find(c) != std::string_view::npos) out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

ShellFollower::ShellFollower(LaunchScript& out, const std::string& name, const ShellArguments& arguments, int depth)
    : out_(out), name_(name), depth_(depth) {
  variables_.script = name;
  variables_.arguments = arguments.words;
  variables_.arguments_given = arguments.given;
  variables_.set("BASH_SOURCE", {.items = {name}, .array = true, .problem = {}});
  variables_.substitute = [this](const std::string& inside, int line) { return substituted(inside, line); };
}

ShellFollower::Status ShellFollower::follow(std::string_view text, int line) {
  const ShellNodePtr tree = parse_shell(text, name_, line);
  note_assigned(*tree);
  return run(*tree);
}

void ShellFollower::note_assigned(const ShellNode& n) {
  for (const ShellWord& w : n.words)
    if (const size_t at = assigned_at(w.text); at > 0)
      variables_.assigned.insert(w.text.substr(0, w.text.find_first_of("[+=")));
  for (const ShellNodePtr& p : n.parts) note_assigned(*p);
  for (const ShellBranch& b : n.branches) {
    if (b.condition) note_assigned(*b.condition);
    note_assigned(*b.body);
  }
}

ShellFollower::Status ShellFollower::run(const ShellNode& n) {
  if (stopped()) return Status::ok;
  struct Level {
    int& depth;
    ~Level() { --depth; }
  } level{++out_.depth};
  if (out_.depth > kMostShellLevels)
    throw UserError("the script is nested too deep", location(n.line),
                    fmt::format("{} commands stand in each other at most", kMostShellLevels), "write it flatter");
  if (++out_.steps > kMostShellSteps)
    throw UserError("the script does too much", location(n.line),
                    fmt::format("{} commands of it are followed", kMostShellSteps),
                    "write the launch line into a script of its own");
  Status s = Status::ok;
  switch (n.kind) {
    case ShellKind::simple:
      s = simple(n);
      break;
    case ShellKind::sequence:
      s = sequence(n);
      break;
    case ShellKind::group:
      s = run(*n.parts[0]);
      break;
    case ShellKind::subshell: {
      spend(variables_.bytes(), n.line);
      const ShellVariables kept = variables_;
      s = run(*n.parts[0]);
      variables_ = kept;
      ended_ = false;
      break;
    }
    case ShellKind::if_:
      s = condition(n);
      break;
    case ShellKind::for_:
      s = loop(n);
      break;
    case ShellKind::counted:
      s = counted(n);
      break;
    case ShellKind::while_:
      s = repeated(n);
      break;
    case ShellKind::case_:
      s = chosen(n);
      break;
    case ShellKind::function:
      functions_[n.text] = n.parts[0];
      break;
    case ShellKind::arithmetic: {
      const ExpandedWord v = arithmetic(n.text, variables_, n.line);
      s = v.problem ? Status::unknown : v.text == "0" ? Status::failed : Status::ok;
      break;
    }
    case ShellKind::test:
      s = tested(n.words, true);
      break;
  }
  if (n.negated) s = s == Status::ok ? Status::failed : s == Status::failed ? Status::ok : Status::unknown;
  return s;
}

ShellFollower::Status ShellFollower::in_doubt(const ShellNode& n) {
  ++doubt_;
  run(n);
  --doubt_;
  return Status::unknown;
}

ShellFollower::Status ShellFollower::sequence(const ShellNode& n) {
  Status s = Status::ok;
  for (size_t i = 0; i < n.parts.size() && !stopped(); ++i) {
    const std::string sign = i == 0 ? ";" : n.signs[i - 1];
    const bool last_of_pipe = sign == "|";
    if (sign == "&&" && s == Status::failed) continue;
    if (sign == "||" && s == Status::ok) continue;
    const bool decides =
        (sign == "&&" && s == Status::unknown) || (sign == "||" && (s == Status::unknown || s == Status::assumed));
    const Status now = decides ? in_doubt(*n.parts[i]) : run(*n.parts[i]);
    s = last_of_pipe && now == Status::ok ? Status::assumed : now;
    const bool chain = i + 1 < n.parts.size() && (n.signs[i] == "&&" || n.signs[i] == "||" || n.signs[i] == "|");
    if (errexit_ && s == Status::failed && !chain && !n.parts[i]->negated && judged_ == 0 && doubt_ == 0 && !stopped())
      ended_ = true, out_.ended = {.text = "set -e", .line = n.parts[i]->line, .problem = "", .problem_line = 0, .file = name_};
  }
  return s;
}

ShellFollower::Status ShellFollower::condition(const ShellNode& n) {
  bool doubt = false;
  for (const ShellBranch& b : n.branches) {
    ++judged_;
    const Status s = doubt ? in_doubt(*b.condition) : run(*b.condition);
    --judged_;
    if (stopped()) return s;
    if (!doubt && s == Status::ok) return run(*b.body);
    if (!doubt && s == Status::failed) continue;
    doubt = true;
    in_doubt(*b.body);
  }
  if (n.parts.empty()) return doubt ? Status::unknown : Status::ok;
  return doubt ? in_doubt(*n.parts[0]) : run(*n.parts[0]);
}

bool ShellFollower::turn(const ShellNode& body) {
  run(body);
  if (breaks_ > 0) return --breaks_, false;
  if (continues_ > 1) return --continues_, false;  // continue 2 continues the outer loop
  continues_ = 0;
  return !ended_ && !returns_;
}

ShellFollower::Status ShellFollower::loop(const ShellNode& n) {
  std::vector<std::string> items = variables_.arguments;
  ShellProblem problem;
  if (!n.bare) {
    items.clear();
    for (const ShellWord& w : n.words)
      for (ExpandedWord& e : expanded_braces(w)) {
        if (e.problem && !problem) problem = e.problem;
        items.push_back(std::move(e.text));
      }
  }
  if (problem || items.size() > kMostTurns) {
    variables_.set(n.text, {.problem = {fmt::format("{} is set by a loop, which needs a shell", n.text), n.line}});
    return in_doubt(*n.parts[0]);
  }
  for (const std::string& item : items) {
    assign(n.text, {.items = {item}}, false, n.line);
    if (!turn(*n.parts[0])) break;
  }
  return Status::ok;
}

std::vector<ExpandedWord> ShellFollower::expanded_braces(const ShellWord& w) {
  const size_t open = w.text.find('{'), dots = w.text.find("..");
  if (open != 0 || dots == std::string::npos || !w.text.ends_with('}')) return expanded(w);
  const std::string a = w.text.substr(1, dots - 1), b = w.text.substr(dots + 2, w.text.size() - dots - 3);
  if (a.find('$') != std::string::npos || b.find('$') != std::string::npos)
    return expanded(w);  // bash does not expand it either
  const bool down = std::strtoll(a.c_str(), nullptr, 10) > std::strtoll(b.c_str(), nullptr, 10);
  const auto all = answer_of({"seq", a, down ? "-1" : "1", b}, ".", "");
  if (!all || all->empty()) return expanded(w);
  const bool zeros = (a.size() > 1 && a[0] == '0') || (b.size() > 1 && b[0] == '0');
  std::vector<ExpandedWord> out;
  for (std::string& number : split(*all, '\n'))
    if (!number.empty())
      out.push_back(
          {zeros ? std::string(std::max({a.size(), b.size(), number.size()}) - number.size(), '0') + number : number, {}});
  return out;
}

ExpandedWord ShellFollower::first_of(const std::string& raw, int line) {
  std::vector<ExpandedWord> words = variables_.expand(raw, line, false);
  return words.empty() ? ExpandedWord{} : words[0];
}

ShellFollower::Status ShellFollower::counted(const ShellNode& n) {
  const std::vector<std::string> parts = split(n.text, ';');
  if (parts.size() != 3) return in_doubt(*n.parts[0]);
  arithmetic(parts[0], variables_, n.line);
  for (int i = 0; i < kMostTurns; ++i) {
    const ExpandedWord more =
        arithmetic(parts[1].find_first_not_of(" \t") == std::string::npos ? "1" : parts[1], variables_, n.line);
    if (more.problem) return in_doubt(*n.parts[0]);
    if (more.text == "0" || !turn(*n.parts[0])) return Status::ok;
    arithmetic(parts[2], variables_, n.line);
  }
  return Status::unknown;
}

ShellFollower::Status ShellFollower::repeated(const ShellNode& n) {
  const Status goes_on = n.text == "while" ? Status::ok : Status::failed;
  for (int i = 0; i < kMostTurns; ++i) {
    ++judged_;
    const Status s = run(*n.parts[0]);
    --judged_;
    if (stopped()) return s;
    if (s == Status::unknown || s == Status::assumed) return in_doubt(*n.parts[1]);
    if (s != goes_on || !turn(*n.parts[1])) return Status::ok;
  }
  return in_doubt(*n.parts[1]);  // the loop may not end
}

ShellFollower::Status ShellFollower::chosen(const ShellNode& n) {
  const bool was = std::exchange(variables_.unset_is_empty, true);
  const ExpandedWord subject = first_of(n.words[0].text, n.line);
  variables_.unset_is_empty = was;
  for (const ShellBranch& b : n.branches) {
    if (subject.problem) {
      in_doubt(*b.body);
      continue;
    }
    for (const ShellWord& p : b.patterns)
      if (ExpandedWord pattern = first_of(p.text, p.line);
          !pattern.problem && fits_shell_pattern(is_quoted(p.text) ? as_literal(pattern.text) : pattern.text, subject.text))
        return run(*b.body);
  }
  return subject.problem ? Status::unknown : Status::ok;
}

ShellFollower::Status ShellFollower::tested(const std::vector<ShellWord>& words, bool patterns) {
  const bool was = std::exchange(variables_.unset_is_empty, true);
  std::vector<ExpandedWord> all;
  bool is_equality = false;  // the previous word is an equality operator
  for (const ShellWord& w : words) {
    std::vector<ExpandedWord> found = variables_.expand(w.text, w.line, !patterns);
    if (patterns && is_equality && is_quoted(w.text))
      for (ExpandedWord& e : found) e.text = as_literal(e.text);
    is_equality = w.text == "==" || w.text == "=" || w.text == "!=";
    if (patterns && found.empty()) found.emplace_back();  // [[ ]] has an empty word, [ ] has none
    for (ExpandedWord& e : found) all.push_back(std::move(e));
  }
  variables_.unset_is_empty = was;
  const std::optional<bool> result = shell_test(all, patterns);
  return !result ? Status::unknown : *result ? Status::ok : Status::failed;
}

void ShellFollower::spend(size_t bytes, int line) {
  out_.spent += static_cast<int64_t>(bytes);
  if (out_.spent > 16 * kScriptBytes)
    throw UserError("the script becomes too long", location(line), "its words have 16 MiB at most, variables put in",
                    "use a shorter script");
}

std::vector<ExpandedWord> ShellFollower::expanded(const ShellWord& word, bool splits) {
  std::vector<ExpandedWord> words = variables_.expand(word.text, word.line, splits);
  for (const ExpandedWord& w : words) spend(w.text.size() + 1, word.line);
  return words;
}

void ShellFollower::assign(const std::string& name, ShellValue value, bool append, int line) {
  if (doubt_ > 0 && !value.problem)
    value.problem = {fmt::format("{} is set in a condition or a loop, which needs a shell", name), line};
  if (append)
    variables_.append(name, value);
  else
    variables_.set(name, std::move(value));
}

// Assigns A=([key]=value ..) or A[key]=value, of an array declared by -A.
std::string ShellFollower::named_items(const ShellWord& w, const std::string& name, ShellValue had) {
  const auto put = [&](const std::string& text, size_t at, int line) {  // the value begins at text[at]
    const size_t open = text.find('[');
    const ExpandedWord key = first_of(text.substr(open + 1, text.find(']', open) - open - 1), line),
                       value = first_of(text.substr(at), line);
    if (key.problem || value.problem) had.problem = key.problem ? key.problem : value.problem;
    had.names[key.text] = value.text;
  };
  if (w.array) {
    if (w.text[w.text.size() - 2] != '+') had.names.clear();
    for (const ShellWord& item : w.items)
      if (const size_t close = item.text.find("]="); item.text.starts_with('[') && close != std::string::npos)
        put(item.text, close + 2, item.line);
  } else {
    put(w.text, assigned_at(w.text), w.line);
  }
  const std::string plain = name.substr(0, name.find('['));
  assign(plain, std::move(had), false, w.line);
  return plain;
}

std::string ShellFollower::assignment(const ShellWord& w) {
  const size_t at = assigned_at(w.text);
  const bool append = w.text[at - 2] == '+';
  std::string name = w.text.substr(0, at - (append ? 2 : 1));
  ShellValue value;
  if (const auto had = variables_.own(name.substr(0, name.find('['))); had && had->named) return named_items(w, name, *had);
  if (w.array) {
    value.array = true, value.items.clear();
    for (const ShellWord& item : w.items)
      for (ExpandedWord& e : expanded(item)) {
        if (e.problem && !value.problem) value.problem = e.problem;
        value.items.push_back(std::move(e.text));
      }
  } else {
    std::vector<ExpandedWord> words = expanded({w.text.substr(at), w.line}, false);
    if (!words.empty()) value.items = {std::move(words[0].text)}, value.problem = words[0].problem;
  }
  if (const size_t open = name.find('['); open != std::string::npos) {
    const ExpandedWord index = arithmetic(name.substr(open + 1, name.size() - open - 2), variables_, w.line);
    name.resize(open);
    if (index.problem) value.problem = {fmt::format("{} has items under names, which are not followed", name), w.line};
    if (doubt_ > 0 && !value.problem)
      value.problem = {fmt::format("{} is set in a condition or a loop, which needs a shell", name), w.line};
    int64_t i = 0;
    if (!index.text.empty()) i = std::strtoll(index.text.c_str(), nullptr, 10);
    variables_.set_item(name, i, value, append);
    return name;
  }
  assign(name, std::move(value), append, w.line);
  return name;
}

ShellFollower::Status ShellFollower::simple(const ShellNode& n) {
  size_t first = 0;
  while (first < n.words.size() && assigned_at(n.words[first].text) > 0) ++first;
  if (first == n.words.size()) {
    for (const ShellWord& w : n.words)
      if (const std::string name = assignment(w); exports_.contains(name)) exported(name, w.line);
    return Status::ok;
  }
  const std::string keyword = n.words[first].text;
  if (keyword == "export" || keyword == "declare" || keyword == "local" || keyword == "readonly" || keyword == "typeset")
    return declaration(n, first, keyword);
  if (keyword == "[" || keyword == "test") {
    std::vector<ShellWord> words(n.words.begin() + static_cast<std::ptrdiff_t>(first) + 1, n.words.end());
    if (keyword == "[" && !words.empty() && words.back().text == "]") words.pop_back();
    return tested(words, false);
  }
  for (size_t i = 0; i < first; ++i) {  // A=1 program: only the program sees A
    const std::string own = n.words[i].text.substr(0, n.words[i].text.find_first_of("[+="));
    std::optional<ShellValue> kept = variables_.own(own);
    const std::string name = assignment(n.words[i]);
    const ShellValue v = variables_.get(name, n.line);
    if (name == "IFS" && !v.items.empty()) separators_ = v.items[0];
    out_.environment[name] = {v.items.empty() ? "" : v.items[0], n.line, v.problem.text, v.problem.line};
    variables_.restore(own, std::move(kept));
  }
  ScriptCommand words;
  for (size_t i = first; i < n.words.size(); ++i)
    for (ExpandedWord& w : expanded(n.words[i]))
      words.push_back({std::move(w.text), n.words[i].line, std::move(w.problem.text), w.problem.line, name_});
  if (words.empty()) return Status::ok;
  for (const ScriptWord& w : words) {
    const bool demanded = w.problem.ends_with("and the script ends there");
    if (doubt_ == 0 && (demanded || (nounset_ && w.problem.find("is set neither") != std::string::npos)))
      throw UserError(w.problem, location(w.problem_line),
                      demanded ? "${NAME:?} ends a script" : "set -u ends a script at a variable that is not set",
                      "set it in the script, or in the environment");
  }
  if (const auto done = builtin(words, n)) return *done;
  files_written(words, n);
  if (doubt_ > 0)
    for (ScriptWord& w : words)
      if (w.problem.empty()) w.problem = "whether this command runs, only a shell can tell", w.problem_line = w.line;
  out_.commands.push_back(std::move(words));
  return Status::assumed;
}

LaunchScript follow_shell(std::string_view text, const std::string& name, const ShellArguments& arguments) {
  LaunchScript out;
  out.name = name;
  ShellFollower(out, name, arguments, 0).follow(text);
  return out;
}

}  // namespace ravine

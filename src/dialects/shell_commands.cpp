// Follows builtin commands of a shell, other scripts, files that a script writes, and $( ).
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/error.h"
#include "base/read_text.h"
#include "base/text.h"
#include "dialects/shell_follower.h"
#include "dialects/shell_substitution.h"
#include "dialects/shell_test.h"

namespace ravine {

namespace fs = std::filesystem;

void ShellFollower::exported(const std::string& name, int line) {
  exports_.insert(name);
  const ShellValue v = variables_.get(name, line);
  if (variables_.is_set(name))
    out_.environment[name] = {v.items.empty() ? "" : v.items[0], line, v.problem.text, v.problem.line};
}

ShellFollower::Status ShellFollower::declaration(const ShellNode& n, size_t first, const std::string& keyword) {
  bool by_name = false;
  for (size_t i = first + 1; i < n.words.size(); ++i) {
    const ShellWord& w = n.words[i];
    if (w.text.starts_with('-')) {
      by_name = by_name || w.text.find('A') != std::string::npos;
      continue;
    }
    const std::string name = w.text.substr(0, w.text.find_first_of("[+="));
    const bool own = keyword == "local" || keyword == "declare" || keyword == "typeset";
    if (own && !locals_.empty()) locals_.back().try_emplace(name, variables_.own(name));
    if (by_name) variables_.set(name, {.items = {}, .array = true, .problem = {}, .named = true});
    if (assigned_at(w.text) > 0)
      assignment(w);
    else if (keyword == "local" && !by_name && !locals_.empty())
      variables_.set(name, {});
    if (keyword == "export") exported(name, w.line);
  }
  return Status::assumed;
}

std::optional<ShellFollower::Status> ShellFollower::builtin(ScriptCommand& words, const ShellNode& n) {
  const auto strip = [](const std::string& name) {
    for (const char* wrapper : {"exec", "command", "builtin", "nohup", "time", "sudo"})
      if (name == wrapper) return true;
    return false;
  };
  size_t at = 0;
  while (at + 1 < words.size() && strip(words[at].text)) ++at;
  const std::string& name = words[at].text;
  const size_t count = words.size() - at - 1;
  const auto word = [&](size_t i) -> const ScriptWord& { return words[at + i]; };
  if (!words[at].problem.empty()) return {};
  if (name == ":" || name == "true") return Status::ok;
  if (name == "false") return Status::failed;
  if (name == "[" || name == "test") return Status::unknown;
  if (name == "exit" || name == "return" || name == "break" || name == "continue") {
    const Status s = count == 0 || word(1).text == "0" ? Status::ok : Status::failed;
    if (doubt_ > 0) return s;
    if (name == "exit") ended_ = true, out_.ended = {.text = "exit", .line = n.line, .file = name_};
    if (name == "return") returns_ = true;
    if (name == "break") breaks_ = count > 0 && word(1).text == "2" ? 2 : 1;
    if (name == "continue") continues_ = count > 0 && word(1).text == "2" ? 2 : 1;
    return s;
  }
  if (name == "unset") {
    for (size_t i = 1; i <= count; ++i)
      if (!word(i).text.starts_with('-')) variables_.unset(word(i).text);
    return Status::ok;
  }
  if (name == "shift") return shift(count > 0 ? word(1).text : "1", n.line);
  if (name == "set") return set_arguments(words, at);
  if (name == "let") {
    Status s = Status::unknown;
    for (size_t i = 1; i <= count; ++i)
      s = arithmetic(word(i).text, variables_, n.line).text == "0" ? Status::failed : Status::ok;
    return s;
  }
  if (name == "read" || name == "mapfile" || name == "readarray" || name == "getopts") {
    if (name == "read" && read_words(words, at, n)) return Status::ok;
    if (name == "getopts") variables_.set("OPTARG", {.problem = {"OPTARG is set by getopts, which is not followed", n.line}});
    for (size_t i = 1; i <= count; ++i)
      if (!word(i).text.starts_with('-') && assigned_at(word(i).text + "=") > 0)
        variables_.set(word(i).text,
                       {.problem = {fmt::format("{} is read by {}, which needs a shell", word(i).text, name), n.line}});
    return Status::unknown;
  }
  if (const auto f = functions_.find(name); f != functions_.end()) return call(*f->second, words, at, n.line);
  if (name == "eval") return evaluated(words, at, n.line);
  if (name == "source" || name == ".") return sourced(words, at);
  return other_script(words, at);
}

ShellFollower::Status ShellFollower::shift(const std::string& by, int line) {
  const ExpandedWord n = arithmetic(by, variables_, line);
  const auto count = static_cast<size_t>(std::max(0LL, std::strtoll(n.text.c_str(), nullptr, 10)));
  if (n.problem || count > variables_.arguments.size()) return Status::failed;
  variables_.arguments.erase(variables_.arguments.begin(), variables_.arguments.begin() + static_cast<std::ptrdiff_t>(count));
  return Status::ok;
}

ShellFollower::Status ShellFollower::set_arguments(const ScriptCommand& words, size_t at) {
  for (size_t i = at + 1; i < words.size() && words[i].text.size() > 1 && words[i].text != "--"; ++i) {
    const std::string& w = words[i].text;
    const bool on = w[0] == '-';
    if (w[0] != '-' && w[0] != '+') break;
    const std::string option = (w == "-o" || w == "+o") && i + 1 < words.size() ? words[++i].text : "";
    if (option == "errexit" || (w.find('e') != std::string::npos && option.empty())) errexit_ = on;
    if (option == "nounset" || w.find('u') != std::string::npos) nounset_ = on;
    if (w.size() > 2 && w.ends_with('o')) ++i;  // -euo pipefail
  }
  const auto dashes = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(at), words.end(),
                                   [](const ScriptWord& w) { return w.text == "--"; });
  if (dashes == words.end()) return Status::ok;  // set -ex
  variables_.arguments.clear();
  for (auto w = dashes + 1; w != words.end(); ++w) variables_.arguments.push_back(w->text);
  return Status::ok;
}

bool ShellFollower::read_words(const ScriptCommand& words, size_t at, const ShellNode& n) {
  std::optional<std::string> text;
  for (const auto& r : n.redirects) {
    if (r->sign == "<<<") text = first_of(r->target.text, n.line).text;
    if (r->sign == "<<") text = r->plain ? r->target.text : variables_.expand_body(r->target.text, r->target.line).text;
  }
  const std::string by = std::exchange(separators_, " \t\n");
  bool all = false, lines = true;
  std::vector<std::string> names;
  for (size_t i = at + 1; i < words.size(); ++i) {
    const std::string& w = words[i].text;
    if (w == "-d")
      lines = false, ++i;  // read -d '': to the end
    else if (w.starts_with('-'))
      all = all || w.find('a') != std::string::npos;
    else
      names.push_back(w);
  }
  if (!text || names.empty() || (all && names.size() != 1)) return false;
  std::string rest = lines ? text->substr(0, text->find('\n')) : *text;
  rest.erase(rest.find_last_not_of(" \t\n") + 1);
  std::vector<std::string> items;
  while (all || items.size() + 1 < names.size()) {
    rest.erase(0, std::min(rest.find_first_not_of(" \t\n"), rest.size()));
    const size_t end = rest.find_first_of(by);
    if (rest.empty()) break;
    items.push_back(rest.substr(0, end));
    rest.erase(0, end == std::string::npos ? end : end + 1);
  }
  if (all) return assign(names[0], {.items = items, .array = true}, false, n.line), true;
  rest.erase(0, std::min(rest.find_first_not_of(" \t\n"), rest.size()));
  items.push_back(rest);
  for (size_t i = 0; i < names.size(); ++i) assign(names[i], {.items = {i < items.size() ? items[i] : ""}}, false, n.line);
  return true;
}

ShellFollower::Status ShellFollower::call(const ShellNode& body, const ScriptCommand& words, size_t at, int line) {
  if (++depth_ > kDeepestShell)
    throw UserError("functions call each other too deep", location(line), fmt::format("{} calls deep at most", kDeepestShell),
                    "write the script flatter");
  std::vector<std::string> own;
  for (size_t i = at + 1; i < words.size(); ++i) own.push_back(words[i].text);
  std::swap(own, variables_.arguments);
  const bool given = std::exchange(variables_.arguments_given, true);
  locals_.emplace_back();
  const Status s = run(body);
  for (auto& [name, value] : locals_.back()) variables_.restore(name, std::move(value));
  locals_.pop_back();
  std::swap(own, variables_.arguments);
  variables_.arguments_given = given;
  returns_ = false;
  --depth_;
  return s;
}

ShellFollower::Status ShellFollower::evaluated(const ScriptCommand& words, size_t at, int line) {
  std::string text;
  for (size_t i = at + 1; i < words.size(); ++i) {
    if (!words[i].problem.empty()) {
      out_.commands.push_back({words.begin() + static_cast<std::ptrdiff_t>(i), words.end()});
      return Status::unknown;
    }
    text += words[i].text + " ";
  }
  if (++depth_ > kDeepestShell)
    throw UserError("eval in eval too deep", location(line), "32 deep at most", "write the script flatter");
  const Status s = follow(text, line);
  --depth_;
  return s;
}

std::optional<std::string> ShellFollower::text_of_file(const ScriptWord& w) {
  std::error_code ec;
  if (!w.problem.empty() || !fs::is_regular_file(w.text, ec) || w.text.starts_with("/proc/")) return {};
  std::string text = read_text(w.text, kScriptBytes, "a script");
  spend(text.size(), w.line);
  return text;
}

ShellFollower::Status ShellFollower::sourced(const ScriptCommand& words, size_t at) {
  if (words.size() < at + 2) return Status::failed;
  const std::optional<std::string> text = text_of_file(words[at + 1]);
  if (!text || depth_ + 1 > kDeepestShell) {
    // The variables of a missing file are not known: a word that needs one is refused like an unset variable.
    out_.missing.push_back(words[at + 1]);
    out_.commands.push_back(words);
    return words[at + 1].problem.empty() ? Status::failed : Status::assumed;
  }
  const std::string own = std::exchange(name_, words[at + 1].text);
  ++depth_;
  std::vector<std::string> arguments = variables_.arguments;
  if (words.size() > at + 2) {  // source FILE WORDS
    arguments.clear();
    for (size_t i = at + 2; i < words.size(); ++i) arguments.push_back(words[i].text);
    std::swap(arguments, variables_.arguments);
  }
  const Status s = follow(*text);
  if (words.size() > at + 2) variables_.arguments = arguments;
  name_ = own;
  returns_ = false;
  --depth_;
  return s;
}

std::optional<ShellFollower::Status> ShellFollower::other_script(const ScriptCommand& words, size_t at) {
  // srun and mpirun may start a shell.
  const auto is_shell = [](const ScriptWord& w) {
    return w.text == "bash" || w.text == "sh" || w.text == "/bin/bash" || w.text == "/bin/sh";
  };
  const size_t begin = at;
  for (const char* launcher : {"srun", "mpirun", "mpiexec"})
    if (words[at].text == launcher)
      at = std::min(static_cast<size_t>(std::find_if(words.begin() + static_cast<std::ptrdiff_t>(at), words.end(), is_shell) -
                                        words.begin()),
                    words.size() - 1);
  const std::string& name = words[at].text;
  const bool shell = name == "bash" || name == "sh" || name == "/bin/bash" || name == "/bin/sh" || name == "zsh";
  size_t file = shell ? at + 1 : at;
  while (shell && file < words.size() && words[file].text.starts_with('-') && words[file].text != "-c") ++file;
  if (file >= words.size() || doubt_ > 0) return {};
  std::optional<std::string> text;
  std::string inner = name_;
  if (shell && words[file].text == "-c") {
    if (file + 1 >= words.size() || !words[file + 1].problem.empty()) return {};
    text = words[++file].text;
  } else if ((shell || name.ends_with(".sh")) && !words[file].text.ends_with("msrun_launcher.sh")) {
    text = text_of_file(words[file]);
    inner = words[file].text;
    if (!text && words[file].problem.empty()) out_.missing.push_back(words[file]);
  }
  if (!text || depth_ + 1 > kDeepestShell) return {};
  for (size_t i = file; i < words.size(); ++i)
    if (!words[i].problem.empty()) return {};
  ShellArguments arguments{.given = true};
  for (size_t i = file + 1; i < words.size(); ++i) arguments.words.push_back(words[i].text);
  ShellFollower child(out_, inner, arguments, depth_ + 1);
  for (const std::string& e : exports_) child.variables_.set(e, variables_.get(e, words[at].line)), child.exports_.insert(e);
  for (const auto& [e, value] : out_.environment)
    child.variables_.set(e, {.items = {value.text}, .problem = {value.problem, value.problem_line}});
  const size_t before = out_.commands.size();
  child.follow(*text);
  for (size_t i = before; i < out_.commands.size() && at > begin; ++i)  // the launcher starts each of its commands
    out_.commands[i].insert(out_.commands[i].begin(), words.begin() + static_cast<std::ptrdiff_t>(begin),
                            words.begin() + static_cast<std::ptrdiff_t>(at));
  return Status::assumed;
}

void ShellFollower::files_written(const ScriptCommand& words, const ShellNode& n) {
  const ShellRedirect *document = nullptr, *to = nullptr;
  for (const auto& r : n.redirects) {
    if (r->sign == "<<") document = r.get();
    if (r->sign == ">" || r->sign == ">>") to = r.get();
  }
  const bool tee = words[0].text == "tee" && words.size() == 2;
  if (!(to || tee) || (words[0].text != "cat" && words[0].text != "echo" && words[0].text != "printf" && !tee)) return;
  ExpandedWord file =
      tee ? ExpandedWord{words[1].text, {words[1].problem, words[1].problem_line}} : first_of(to->target.text, n.line);
  if (file.problem) return;
  ScriptWord text{.text = "", .line = n.line, .problem = "", .problem_line = 0, .file = name_};
  if (document) {
    ExpandedWord body = document->plain ? ExpandedWord{document->target.text, {}}
                                        : variables_.expand_body(document->target.text, document->target.line);
    text = {std::move(body.text), document->target.line, body.problem.text, body.problem.line, name_};
  } else if (words[0].text == "cat" || tee) {
    return;
  } else {
    std::vector<std::string> plain;
    for (const ScriptWord& w : words) {
      if (!w.problem.empty()) text.problem = w.problem, text.problem_line = w.problem_line;
      plain.push_back(w.text);
    }
    text.text = answer_of(plain, ".", "").value_or("");
  }
  if (doubt_ > 0 && text.problem.empty())
    text.problem = "whether this file is written, only a shell can tell", text.problem_line = n.line;
  if (to && to->sign == ">>")
    if (const auto had = out_.written.find(file.text); had != out_.written.end()) text.text = had->second.text + text.text;
  spend(text.text.size(), n.line);
  out_.written[file.text] = std::move(text);
}

ExpandedWord ShellFollower::substituted(const std::string& inside, int line) {
  const ShellProblem unknown{fmt::format("$({}) needs a shell", inside.substr(0, 60)), line};
  if (++depth_ > kDeepestShell || ++out_.steps > kMostShellSteps) return --depth_, ExpandedWord{"", unknown};
  std::string folder = ".";
  std::optional<std::string> text;
  ShellProblem problem;
  spend(variables_.bytes(), line);
  const ShellVariables kept = variables_;  // a subshell: what it sets ends with it
  try {
    const ShellNodePtr tree = parse_shell(inside, name_, line);
    text = output_of(*tree, folder, "", problem);
  } catch (const UserError&) {
    text.reset();
  }
  variables_ = kept;
  --depth_;
  if (problem) return {"", problem};
  if (!text) return {"", unknown};
  while (text->ends_with('\n')) text->pop_back();
  return {*text, {}};
}

std::optional<std::string> ShellFollower::output_of(const ShellNode& n, std::string& folder, const std::string& input,
                                                    ShellProblem& problem) {
  if (n.kind == ShellKind::group) return output_of(*n.parts[0], folder, input, problem);
  if (n.kind == ShellKind::sequence) {
    std::string out, piped = input;
    bool failed = false;  // the previous part failed; only cat of a missing file is known to fail
    for (size_t i = 0; i < n.parts.size(); ++i) {
      const std::string sign = i > 0 ? n.signs[i - 1] : ";";
      if ((sign == "||" && !failed) || (sign == "&&" && failed)) continue;
      failed = fails(*n.parts[i], folder);
      const auto part = failed ? std::string() : output_of(*n.parts[i], folder, piped, problem);
      if (!part) return {};
      const bool into_pipe = i + 1 < n.parts.size() && n.signs[i] == "|";
      piped = into_pipe ? *part : input;
      if (!into_pipe) out += *part;
    }
    return out;
  }
  if (n.kind != ShellKind::simple || n.words.empty()) return {};
  std::string given = input;
  for (const auto& r : n.redirects) {
    if (r->sign == "<<<") given = first_of(r->target.text, n.line).text + "\n";
    if (r->sign == "<<") {
      const ExpandedWord body =
          r->plain ? ExpandedWord{r->target.text, {}} : variables_.expand_body(r->target.text, r->target.line);
      if (body.problem && !problem) problem = body.problem;
      given = body.text;
    }
    if (r->sign == "<") {
      const auto file = answer_of({"cat", first_of(r->target.text, n.line).text}, folder, "");
      if (!file) return {};
      given = *file;
    }
  }
  size_t first = 0;
  while (first < n.words.size() && assigned_at(n.words[first].text) > 0) assignment(n.words[first++]);
  if (first == n.words.size()) return std::string();
  if (n.words[first].text == "local") return declaration(n, first, "local"), std::string();
  std::vector<std::string> words;
  for (const ShellWord& w : n.words)
    for (ExpandedWord& e : variables_.expand(w.text, w.line)) {
      if (e.problem && !problem) problem = e.problem;
      words.push_back(std::move(e.text));
    }
  if (problem || words.empty()) return {};
  if (words[0] == "cd" && words.size() == 2) return folder = (fs::path(folder) / words[1]).string(), std::string();
  if (const auto f = functions_.find(words[0]); f != functions_.end() && ++depth_ <= kDeepestShell) {
    std::vector<std::string> own(words.begin() + 1, words.end());
    std::swap(own, variables_.arguments);
    locals_.emplace_back();
    const auto out = output_of(*f->second, folder, given, problem);
    for (auto& [name, value] : locals_.back()) variables_.restore(name, std::move(value));
    locals_.pop_back();
    std::swap(own, variables_.arguments);
    --depth_;
    return out;
  }
  return answer_of(words, folder, given);
}

bool ShellFollower::fails(const ShellNode& n, const std::string& folder) {
  if (n.kind != ShellKind::simple || n.words.size() != 2 || n.words[0].text != "cat") return false;
  const ExpandedWord file = first_of(n.words[1].text, n.line);
  std::error_code ec;
  return !file.problem && !fs::exists(fs::path(folder) / file.text, ec);
}

}  // namespace ravine

#include "dialects/shell_run.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>

#include "base/error.h"
#include "base/read_text.h"
#include "base/text.h"
#include "dialects/shell_asks.h"
#include "dialects/shell_test.h"
#include "dialects/shell_tree.h"
#include "dialects/shell_value.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;

// How a command ended. `assumed`: a program that is expected to succeed; `unknown`: it decides what only a shell can tell.
enum class Status : uint8_t { ok, failed, assumed, unknown };

constexpr int64_t kMostSteps = 200'000;  // commands that are followed
constexpr int kMostTurns = 4096;         // of a loop

class ShellFollower {
 public:
  ShellFollower(LaunchScript& out, const std::string& name, const ShellArguments& arguments, int depth)
      : out_(out), name_(name), depth_(depth) {
    variables_.script = name;
    variables_.arguments = arguments.words;
    variables_.arguments_given = arguments.given;
    variables_.set("BASH_SOURCE", {.items = {name}, .array = true, .trouble = {}});
    variables_.substitute = [this](const std::string& inside, int line) { return substituted(inside, line); };
  }

  Status follow(std::string_view text, int line = 1) {
    const ShellNodePtr tree = parse_shell(text, name_, line);
    note_assigned(*tree);
    return run(*tree);
  }

 private:
  // Names that the script sets anywhere: where it did not, they are empty, and no slip.
  void note_assigned(const ShellNode& n) {
    for (const ShellWord& w : n.words)
      if (const size_t at = assigned_at(w.text); at > 0)
        variables_.assigned.insert(w.text.substr(0, w.text.find_first_of("[+=")));
    for (const ShellNodePtr& p : n.parts) note_assigned(*p);
    for (const ShellBranch& b : n.branches) {
      if (b.condition) note_assigned(*b.condition);
      note_assigned(*b.body);
    }
  }

  Status run(const ShellNode& n) {
    if (stopped()) return Status::ok;
    if (++out_.steps > kMostSteps)
      throw UserError("the script does too much", place(n.line), fmt::format("{} commands of it are followed", kMostSteps),
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
        const ShellVariables kept = variables_;
        s = run(*n.parts[0]);
        const auto ask = variables_.substitute;
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
        s = v.trouble ? Status::unknown : v.text == "0" ? Status::failed : Status::ok;
        break;
      }
      case ShellKind::test:
        s = tested(n.words, true);
        break;
    }
    if (n.negated) s = s == Status::ok ? Status::failed : s == Status::failed ? Status::ok : Status::unknown;
    return s;
  }

  std::string place(int line) const { return fmt::format("{}:{}", name_, line); }
  bool stopped() const { return ended_ || returns_ || breaks_ > 0 || continues_; }

  // Follows what may or may not run.
  Status in_doubt(const ShellNode& n) {
    ++doubt_;
    run(n);
    --doubt_;
    return Status::unknown;
  }

  Status sequence(const ShellNode& n) {
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
    }
    return s;
  }

  Status condition(const ShellNode& n) {
    bool doubt = false;
    for (const ShellBranch& b : n.branches) {
      const Status s = doubt ? in_doubt(*b.condition) : run(*b.condition);
      if (stopped()) return s;
      if (!doubt && s == Status::ok) return run(*b.body);
      if (!doubt && s == Status::failed) continue;
      doubt = true;
      in_doubt(*b.body);
    }
    if (n.parts.empty()) return doubt ? Status::unknown : Status::ok;
    return doubt ? in_doubt(*n.parts[0]) : run(*n.parts[0]);
  }

  // One turn of a loop; false: the loop ends.
  bool turn(const ShellNode& body) {
    run(body);
    if (breaks_ > 0) return --breaks_, false;
    continues_ = false;
    return !ended_ && !returns_;
  }

  Status loop(const ShellNode& n) {
    std::vector<std::string> items = variables_.arguments;
    ShellTrouble trouble;
    if (!n.bare) {
      items.clear();
      for (const ShellWord& w : n.words)
        for (ExpandedWord& e : expanded_braces(w)) {
          if (e.trouble && !trouble) trouble = e.trouble;
          items.push_back(std::move(e.text));
        }
    }
    if (trouble || items.size() > kMostTurns) {
      variables_.set(n.text, {.trouble = {fmt::format("{} is set by a loop, which needs a shell", n.text), n.line}});
      return in_doubt(*n.parts[0]);
    }
    for (const std::string& item : items) {
      assign(n.text, {.items = {item}}, false, n.line);
      if (!turn(*n.parts[0])) break;
    }
    return Status::ok;
  }

  // {1..8}, beside quotes and $ left as it is.
  std::vector<ExpandedWord> expanded_braces(const ShellWord& w) {
    const size_t open = w.text.find('{'), dots = w.text.find("..");
    if (open == 0 && dots != std::string::npos && w.text.ends_with('}')) {
      const ExpandedWord a = first_of(w.text.substr(1, dots - 1), w.line),
                         b = first_of(w.text.substr(dots + 2, w.text.size() - dots - 3), w.line);
      if (const auto all = answer_of({"seq", a.text, b.text}, ".", ""); all && !all->empty() && !a.trouble && !b.trouble) {
        std::vector<ExpandedWord> out;
        for (std::string& line : split(*all, '\n'))
          if (!line.empty()) out.push_back({std::move(line), {}});
        return out;
      }
    }
    return expanded(w);
  }
  ExpandedWord first_of(const std::string& raw, int line) {
    std::vector<ExpandedWord> words = variables_.expand(raw, line, false);
    return words.empty() ? ExpandedWord{} : words[0];
  }

  Status counted(const ShellNode& n) {
    const std::vector<std::string> parts = split(n.text, ';');
    if (parts.size() != 3) return in_doubt(*n.parts[0]);
    arithmetic(parts[0], variables_, n.line);
    for (int i = 0; i < kMostTurns; ++i) {
      const ExpandedWord more =
          arithmetic(parts[1].find_first_not_of(" \t") == std::string::npos ? "1" : parts[1], variables_, n.line);
      if (more.trouble) return in_doubt(*n.parts[0]);
      if (more.text == "0" || !turn(*n.parts[0])) return Status::ok;
      arithmetic(parts[2], variables_, n.line);
    }
    return Status::unknown;
  }

  Status repeated(const ShellNode& n) {
    const Status goes_on = n.text == "while" ? Status::ok : Status::failed;
    for (int i = 0; i < kMostTurns; ++i) {
      const Status s = run(*n.parts[0]);
      if (stopped()) return s;
      if (s == Status::unknown || s == Status::assumed) return in_doubt(*n.parts[1]);
      if (s != goes_on || !turn(*n.parts[1])) return Status::ok;
    }
    return in_doubt(*n.parts[1]);  // a loop without an end, as far as can be seen
  }

  Status chosen(const ShellNode& n) {
    const bool was = std::exchange(variables_.unset_is_empty, true);
    const ExpandedWord subject = first_of(n.words[0].text, n.line);
    variables_.unset_is_empty = was;
    for (const ShellBranch& b : n.branches) {
      if (subject.trouble) {
        in_doubt(*b.body);
        continue;
      }
      for (const ShellWord& p : b.patterns)
        if (const ExpandedWord pattern = first_of(p.text, p.line);
            !pattern.trouble && fits_shell_pattern(pattern.text, subject.text))
          return run(*b.body);
    }
    return subject.trouble ? Status::unknown : Status::ok;
  }

  Status tested(const std::vector<ShellWord>& words, bool patterns) {
    const bool was = std::exchange(variables_.unset_is_empty, true);
    std::vector<ExpandedWord> all;
    for (const ShellWord& w : words)
      for (ExpandedWord& e : variables_.expand(w.text, w.line, !patterns)) all.push_back(std::move(e));
    variables_.unset_is_empty = was;
    const std::optional<bool> result = shell_test(all, patterns);
    return !result ? Status::unknown : *result ? Status::ok : Status::failed;
  }

  std::vector<ExpandedWord> expanded(const ShellWord& word, bool splits = true) {
    std::vector<ExpandedWord> words = variables_.expand(word.text, word.line, splits);
    for (const ExpandedWord& w : words) out_.spent += static_cast<int64_t>(w.text.size()) + 1;
    if (out_.spent > 16 * kScriptBytes)
      throw UserError("the script becomes too long", place(word.line), "its words have 16 MiB at most, variables put in",
                      "use a shorter script");
    return words;
  }

  void assign(const std::string& name, ShellValue value, bool append, int line) {
    if (doubt_ > 0 && !value.trouble)
      value.trouble = {fmt::format("{} is set in a condition or a loop, which needs a shell", name), line};
    if (append)
      variables_.append(name, value);
    else
      variables_.set(name, std::move(value));
  }

  // NAME=value, NAME+=value, NAME=( .. ), NAME[i]=value. Returns the name.
  std::string assignment(const ShellWord& w) {
    const size_t at = assigned_at(w.text);
    const bool append = w.text[at - 2] == '+';
    std::string name = w.text.substr(0, at - (append ? 2 : 1));
    ShellValue value;
    if (w.array) {
      value.array = true, value.items.clear();
      for (const ShellWord& item : w.items)
        for (ExpandedWord& e : expanded(item)) {
          if (e.trouble && !value.trouble) value.trouble = e.trouble;
          value.items.push_back(std::move(e.text));
        }
    } else {
      std::vector<ExpandedWord> words = expanded({w.text.substr(at), w.line}, false);
      if (!words.empty()) value.items = {std::move(words[0].text)}, value.trouble = words[0].trouble;
    }
    if (const size_t open = name.find('['); open != std::string::npos) {
      const ExpandedWord index = arithmetic(name.substr(open + 1, name.size() - open - 2), variables_, w.line);
      name.resize(open);
      if (index.trouble) value.trouble = {fmt::format("{} has items under names, which are not followed", name), w.line};
      if (doubt_ > 0 && !value.trouble)
        value.trouble = {fmt::format("{} is set in a condition or a loop, which needs a shell", name), w.line};
      int64_t i = 0;
      if (!index.text.empty()) i = std::strtoll(index.text.c_str(), nullptr, 10);
      variables_.set_item(name, i, value, append);
      return name;
    }
    assign(name, std::move(value), append, w.line);
    return name;
  }

  // A value that the programs of the script see.
  void exported(const std::string& name, int line) {
    exports_.insert(name);
    const ShellValue v = variables_.get(name, line);
    if (variables_.is_set(name))
      out_.environment[name] = {v.items.empty() ? "" : v.items[0], line, v.trouble.text, v.trouble.line};
  }

  Status simple(const ShellNode& n) {
    size_t first = 0;
    while (first < n.words.size() && assigned_at(n.words[first].text) > 0) ++first;
    if (first == n.words.size()) {
      for (const ShellWord& w : n.words)
        if (const std::string name = assignment(w); exports_.contains(name)) exported(name, w.line);
      return Status::assumed;
    }
    const std::string keyword = n.words[first].text;
    if (keyword == "export" || keyword == "declare" || keyword == "local" || keyword == "readonly" || keyword == "typeset")
      return declaration(n, first, keyword);
    if (keyword == "[" || keyword == "test") {
      std::vector<ShellWord> words(n.words.begin() + static_cast<std::ptrdiff_t>(first) + 1, n.words.end());
      if (keyword == "[" && !words.empty() && words.back().text == "]") words.pop_back();
      return tested(words, false);
    }
    for (size_t i = 0; i < first; ++i) {  // A=1 program: seen by the program alone
      const ShellVariables kept = variables_;
      const std::string name = assignment(n.words[i]);
      const ShellValue v = variables_.get(name, n.line);
      out_.environment[name] = {v.items.empty() ? "" : v.items[0], n.line, v.trouble.text, v.trouble.line};
      variables_ = kept;
    }
    ScriptCommand words;
    for (size_t i = first; i < n.words.size(); ++i)
      for (ExpandedWord& w : expanded(n.words[i]))
        words.push_back({std::move(w.text), n.words[i].line, std::move(w.trouble.text), w.trouble.line, name_});
    if (words.empty()) return Status::ok;
    if (const auto done = builtin(words, n)) return *done;
    files_written(words, n);
    if (doubt_ > 0)
      for (ScriptWord& w : words)
        if (w.trouble.empty()) w.trouble = "whether this command runs, only a shell can tell", w.trouble_line = w.line;
    out_.commands.push_back(std::move(words));
    return Status::assumed;
  }

  Status declaration(const ShellNode& n, size_t first, const std::string& keyword) {
    bool by_name = false;
    for (size_t i = first + 1; i < n.words.size(); ++i) {
      const ShellWord& w = n.words[i];
      if (w.text.starts_with('-')) {
        by_name = by_name || w.text.find('A') != std::string::npos;
        continue;
      }
      const std::string name = assigned_at(w.text) > 0 ? assignment(w) : w.text;
      if (by_name)
        variables_.set(name, {.trouble = {fmt::format("{} has items under names, which are not followed", name), w.line}});
      if (keyword == "export") exported(name, w.line);
    }
    return Status::assumed;
  }

  // What a shell does itself; nothing if the command is a program.
  std::optional<Status> builtin(ScriptCommand& words, const ShellNode& n) {
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
    if (!words[at].trouble.empty()) return {};
    if (name == ":" || name == "true") return Status::ok;
    if (name == "false") return Status::failed;
    if (name == "[" || name == "test") return Status::unknown;
    if (name == "exit" || name == "return" || name == "break" || name == "continue") {
      const Status s = count == 0 || word(1).text == "0" ? Status::ok : Status::failed;
      if (doubt_ > 0) return s;
      if (name == "exit") ended_ = true, out_.ended = {.text = "exit", .line = n.line, .file = name_};
      if (name == "return") returns_ = true;
      if (name == "break") breaks_ = count > 0 && word(1).text == "2" ? 2 : 1;
      if (name == "continue") continues_ = true;
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
      for (size_t i = 1; i <= count; ++i)
        if (!word(i).text.starts_with('-') && assigned_at(word(i).text + "=") > 0)
          variables_.set(word(i).text,
                         {.trouble = {fmt::format("{} is read by {}, which needs a shell", word(i).text, name), n.line}});
      return Status::unknown;
    }
    if (const auto f = functions_.find(name); f != functions_.end()) return call(*f->second, words, at, n.line);
    if (name == "eval") return evaluated(words, at, n.line);
    if (name == "source" || name == ".") return sourced(words, at, n.line);
    return other_script(words, at);
  }

  Status shift(const std::string& by, int line) {
    const ExpandedWord n = arithmetic(by, variables_, line);
    const auto count = static_cast<size_t>(std::max(0LL, std::strtoll(n.text.c_str(), nullptr, 10)));
    if (n.trouble || count > variables_.arguments.size()) return Status::failed;
    variables_.arguments.erase(variables_.arguments.begin(), variables_.arguments.begin() + static_cast<std::ptrdiff_t>(count));
    return Status::ok;
  }

  Status set_arguments(const ScriptCommand& words, size_t at) {
    const auto dashes = std::find_if(words.begin() + static_cast<std::ptrdiff_t>(at), words.end(),
                                     [](const ScriptWord& w) { return w.text == "--"; });
    if (dashes == words.end()) return Status::ok;  // set -ex
    variables_.arguments.clear();
    for (auto w = dashes + 1; w != words.end(); ++w) variables_.arguments.push_back(w->text);
    return Status::ok;
  }

  Status call(const ShellNode& body, const ScriptCommand& words, size_t at, int line) {
    if (++depth_ > kDeepestShell)
      throw UserError("functions call each other too deep", place(line), fmt::format("{} calls deep at most", kDeepestShell),
                      "write the script flatter");
    std::vector<std::string> own;
    for (size_t i = at + 1; i < words.size(); ++i) own.push_back(words[i].text);
    std::swap(own, variables_.arguments);
    const bool given = std::exchange(variables_.arguments_given, true);
    const Status s = run(body);
    std::swap(own, variables_.arguments);
    variables_.arguments_given = given;
    returns_ = false;
    --depth_;
    return s;
  }

  Status evaluated(const ScriptCommand& words, size_t at, int line) {
    std::string text;
    for (size_t i = at + 1; i < words.size(); ++i) {
      if (!words[i].trouble.empty()) {
        out_.commands.push_back({words.begin() + static_cast<std::ptrdiff_t>(i), words.end()});
        return Status::unknown;
      }
      text += words[i].text + " ";
    }
    if (++depth_ > kDeepestShell)
      throw UserError("eval in eval too deep", place(line), "32 deep at most", "write the script flatter");
    const Status s = follow(text, line);
    --depth_;
    return s;
  }

  // Another file that a word names, where it is there.
  std::optional<std::string> text_of_file(const ScriptWord& w) {
    std::error_code ec;
    if (!w.trouble.empty() || !fs::is_regular_file(w.text, ec)) return {};
    return read_text(w.text, kScriptBytes, "a script");
  }

  Status sourced(const ScriptCommand& words, size_t at, int line) {
    if (words.size() < at + 2) return Status::failed;
    const std::optional<std::string> text = text_of_file(words[at + 1]);
    if (!text || ++depth_ > kDeepestShell) {
      // What it sets is not known; only what needs it is refused, as a variable that is nowhere set.
      out_.commands.push_back(words);
      return Status::assumed;
    }
    const std::string own = std::exchange(name_, words[at + 1].text);
    (void)line;
    const Status s = follow(*text);
    name_ = own;
    returns_ = false;
    --depth_;
    return s;
  }

  // bash FILE WORDS, bash -c TEXT, ./FILE.sh: a script within this one, which sees what is exported.
  std::optional<Status> other_script(const ScriptCommand& words, size_t at) {
    const std::string& name = words[at].text;
    const bool shell = name == "bash" || name == "sh" || name == "/bin/bash" || name == "/bin/sh" || name == "zsh";
    size_t file = shell ? at + 1 : at;
    while (shell && file < words.size() && words[file].text.starts_with('-') && words[file].text != "-c") ++file;
    if (file >= words.size() || doubt_ > 0) return {};
    std::optional<std::string> text;
    std::string inner = name_;
    if (shell && words[file].text == "-c") {
      if (file + 1 >= words.size() || !words[file + 1].trouble.empty()) return {};
      text = words[++file].text;
    } else if ((shell || name.ends_with(".sh")) && !words[file].text.ends_with("msrun_launcher.sh")) {
      text = text_of_file(words[file]);
      inner = words[file].text;
    }
    if (!text || depth_ + 1 > kDeepestShell) return {};
    for (size_t i = file; i < words.size(); ++i)
      if (!words[i].trouble.empty()) return {};
    ShellArguments arguments{.given = true};
    for (size_t i = file + 1; i < words.size(); ++i) arguments.words.push_back(words[i].text);
    ShellFollower child(out_, inner, arguments, depth_ + 1);
    for (const std::string& e : exports_) child.variables_.set(e, variables_.get(e, words[at].line)), child.exports_.insert(e);
    for (const auto& [e, value] : out_.environment)
      child.variables_.set(e, {.items = {value.text}, .trouble = {value.trouble, value.trouble_line}});
    child.follow(*text);
    return Status::assumed;
  }

  // What `cat <<END > FILE` and `echo TEXT > FILE` would write.
  void files_written(const ScriptCommand& words, const ShellNode& n) {
    const ShellRedirect *document = nullptr, *to = nullptr;
    for (const auto& r : n.redirects) {
      if (r->sign == "<<") document = r.get();
      if (r->sign == ">" || r->sign == ">>") to = r.get();
    }
    const bool tee = words[0].text == "tee" && words.size() == 2;
    if (!(to || tee) || (words[0].text != "cat" && words[0].text != "echo" && words[0].text != "printf" && !tee)) return;
    ExpandedWord file =
        tee ? ExpandedWord{words[1].text, {words[1].trouble, words[1].trouble_line}} : first_of(to->target.text, n.line);
    if (file.trouble) return;
    ScriptWord text{.text = "", .line = n.line, .trouble = "", .trouble_line = 0, .file = name_};
    if (document) {
      ExpandedWord body = document->plain ? ExpandedWord{document->target.text, {}}
                                          : variables_.expand_body(document->target.text, document->target.line);
      text = {std::move(body.text), document->target.line, body.trouble.text, body.trouble.line, name_};
    } else if (words[0].text == "cat" || tee) {
      return;
    } else {
      std::vector<std::string> plain;
      for (const ScriptWord& w : words) {
        if (!w.trouble.empty()) text.trouble = w.trouble, text.trouble_line = w.trouble_line;
        plain.push_back(w.text);
      }
      text.text = answer_of(plain, ".", "").value_or("");
    }
    if (doubt_ > 0 && text.trouble.empty())
      text.trouble = "whether this file is written, only a shell can tell", text.trouble_line = n.line;
    if (to && to->sign == ">>")
      if (const auto had = out_.written.find(file.text); had != out_.written.end()) text.text = had->second.text + text.text;
    out_.written[file.text] = std::move(text);
  }

  // The value of $( ).
  ExpandedWord substituted(const std::string& inside, int line) {
    const ShellTrouble unknown{fmt::format("$({}) needs a shell", inside.substr(0, 60)), line};
    if (++depth_ > kDeepestShell || ++out_.steps > kMostSteps) return --depth_, ExpandedWord{"", unknown};
    std::string folder = ".";
    std::optional<std::string> text;
    ShellTrouble trouble;
    try {
      const ShellNodePtr tree = parse_shell(inside, name_, line);
      text = output_of(*tree, folder, "", trouble);
    } catch (const UserError&) {
      text.reset();
    }
    --depth_;
    if (trouble) return {"", trouble};
    if (!text) return {"", unknown};
    while (text->ends_with('\n')) text->pop_back();
    return {*text, {}};
  }

  std::optional<std::string> output_of(const ShellNode& n, std::string& folder, const std::string& input,
                                       ShellTrouble& trouble) {
    if (n.kind == ShellKind::sequence) {
      std::string out, piped = input;
      for (size_t i = 0; i < n.parts.size(); ++i) {
        if (i > 0 && n.signs[i - 1] == "||") continue;  // what is before it is expected to succeed
        const auto part = output_of(*n.parts[i], folder, piped, trouble);
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
      if (r->sign == "<") {
        const auto file = answer_of({"cat", first_of(r->target.text, n.line).text}, folder, "");
        if (!file) return {};
        given = *file;
      }
    }
    std::vector<std::string> words;
    for (const ShellWord& w : n.words)
      for (ExpandedWord& e : variables_.expand(w.text, w.line)) {
        if (e.trouble && !trouble) trouble = e.trouble;
        words.push_back(std::move(e.text));
      }
    if (trouble || words.empty()) return {};
    if (words[0] == "cd" && words.size() == 2) return folder = (fs::path(folder) / words[1]).string(), std::string();
    return answer_of(words, folder, given);
  }

  LaunchScript& out_;
  std::string name_;
  int depth_ = 0, doubt_ = 0, breaks_ = 0;
  bool ended_ = false, returns_ = false, continues_ = false;
  ShellVariables variables_;
  std::set<std::string> exports_;
  std::map<std::string, ShellNodePtr> functions_;
};

}  // namespace

LaunchScript follow_shell(std::string_view text, const std::string& name, const ShellArguments& arguments) {
  LaunchScript out;
  out.name = name;
  ShellFollower(out, name, arguments, 0).follow(text);
  return out;
}

}  // namespace ravine

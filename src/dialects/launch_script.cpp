#include "dialects/launch_script.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/read_text.h"
#include "dialects/shell_value.h"

namespace ravine {
namespace {

constexpr bool ends_word(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == ';' || c == '&' || c == '|' || c == '<' || c == '>';
}

// `NAME=`, `NAME+=`: where the value begins; 0 if the word assigns nothing.
size_t assigned_at(std::string_view word) {
  size_t at = 0;
  while (at < word.size() && ((word[at] >= 'a' && word[at] <= 'z') || (word[at] >= 'A' && word[at] <= 'Z') || word[at] == '_' ||
                              (at > 0 && word[at] >= '0' && word[at] <= '9')))
    ++at;
  if (at == 0 || at >= word.size()) return 0;
  if (word[at] == '=') return at + 1;
  return word.substr(at).starts_with("+=") ? at + 2 : 0;
}

// Reads a script from its beginning to its end, once.
class ScriptReader {
 public:
  ScriptReader(std::string_view text, const std::string& name) : text_(text) { out_.name = name; }

  LaunchScript read() {
    while (at_ < text_.size()) command();
    return std::move(out_);
  }

 private:
  struct RawWord {
    std::string_view text;
    int line;
  };
  struct HereDocument {
    std::string end;
    bool plain = false, tabs = false;  // nothing is replaced; tabs at the beginning of lines go
    bool kept = false;                 // of `cat`
    ExpandedWord file;
  };

  [[noreturn]] void refuse(int line, const std::string& what, const std::string& rule, const std::string& fix) const {
    throw UserError(what, fmt::format("{}:{}", out_.name, line), rule, fix);
  }

  void blanks() {
    for (;; ++at_) {
      if (at_ + 1 < text_.size() && text_[at_] == '\\' && text_[at_ + 1] == '\n')
        ++at_, ++line_;
      else if (at_ >= text_.size() || (text_[at_] != ' ' && text_[at_] != '\t' && text_[at_] != '\r'))
        break;
    }
    if (at_ < text_.size() && text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
  }

  void count_lines(size_t from, size_t to) {
    line_ += static_cast<int>(
        std::count(text_.begin() + static_cast<std::ptrdiff_t>(from), text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
  }

  // The raw text of the word at at_, quotes and brackets of $ included.
  RawWord word() {
    const size_t begin = at_;
    const int line = line_;
    while (at_ < text_.size() && !ends_word(text_[at_]) && text_[at_] != ')' && text_[at_] != '(') {
      const char c = text_[at_];
      size_t end = at_;
      if (c == '\\') {
        end = std::min(at_ + 1, text_.size() - 1);
      } else if (c == '\'') {
        end = text_.find('\'', at_ + 1);
      } else if (c == '"') {
        end = quote_end(at_ + 1);
      } else if (c == '`') {
        end = text_.find('`', at_ + 1);
      } else if (c == '$' && at_ + 1 < text_.size() && (text_[at_ + 1] == '(' || text_[at_ + 1] == '{')) {
        end = closing_bracket(text_, at_ + 2, text_[at_ + 1], text_[at_ + 1] == '(' ? ')' : '}');
      }
      if (end == std::string_view::npos)
        refuse(line_, fmt::format("{} is not closed", c == '$' ? "$( or ${" : std::string(1, c)),
               "what is opened is closed in the same script", "close it");
      count_lines(at_, end + 1);
      at_ = end + 1;
    }
    return {text_.substr(begin, at_ - begin), line};
  }

  size_t quote_end(size_t at) const {
    for (; at < text_.size(); ++at) {
      if (text_[at] == '\\') {
        ++at;
      } else if (text_[at] == '"') {
        return at;
      } else if (text_[at] == '$' && at + 1 < text_.size() && (text_[at + 1] == '(' || text_[at + 1] == '{')) {
        at = closing_bracket(text_, at + 2, text_[at + 1], text_[at + 1] == '(' ? ')' : '}');
        if (at == std::string_view::npos) return at;
      }
    }
    return std::string_view::npos;
  }

  std::vector<ExpandedWord> expanded(const RawWord& word, bool split = true) {
    std::vector<ExpandedWord> words = variables_.expand(word.text, word.line, split);
    for (const ExpandedWord& w : words) spent_ += static_cast<int64_t>(w.text.size()) + 1;
    if (spent_ > 16 * kScriptBytes)
      refuse(word.line, "the script becomes too long", "its words have 16 MiB at most, variables put in",
             "use a shorter script");
    return words;
  }

  // A value that is set where only a shell knows whether, is not known.
  void assign(const std::string& name, ShellValue value, bool append, int line) {
    if (depth_ > 0 && !value.trouble)
      value.trouble = {fmt::format("{} is set in a condition or a loop, which needs a shell", name), line};
    if (append)
      variables_.append(name, value);
    else
      variables_.set(name, std::move(value));
  }

  // NAME=value, NAME=( .. ), with +=; `word` holds what stands before a bracket.
  void assignment(const RawWord& word, size_t value_at) {
    const bool append = word.text[value_at - 2] == '+';
    const std::string name(word.text.substr(0, value_at - (append ? 2 : 1)));
    ShellValue value;
    if (value_at == word.text.size() && at_ < text_.size() && text_[at_] == '(') {
      ++at_;
      value.array = true, value.items.clear();
      for (;;) {
        list_blanks();
        if (at_ >= text_.size()) refuse(word.line, fmt::format("{}=( is not closed", name), "an array ends with )", "close it");
        if (text_[at_] == ')') break;
        const size_t before = at_;
        const RawWord item = this->word();
        if (at_ == before)
          refuse(line_, fmt::format("'{}' in an array", text_[at_]), "an array holds words", "put it in quotes");
        for (ExpandedWord& w : expanded(item)) {
          if (w.trouble && !value.trouble) value.trouble = w.trouble;
          value.items.push_back(std::move(w.text));
        }
      }
      ++at_;
    } else {
      std::vector<ExpandedWord> words = expanded({word.text.substr(value_at), word.line}, false);
      if (!words.empty()) value.items = {std::move(words[0].text)}, value.trouble = words[0].trouble;
    }
    assign(name, std::move(value), append, word.line);
  }

  void list_blanks() {  // lines and comments in a list
    for (blanks(); at_ < text_.size() && text_[at_] == '\n'; blanks()) ++at_, ++line_;
  }

  // > FILE, 2>&1, <<END: whether one stood here. Its words are no words of the command.
  bool redirection(std::vector<HereDocument>& documents, std::optional<ExpandedWord>& output) {
    size_t at = at_;
    while (at < text_.size() && text_[at] >= '0' && text_[at] <= '9') ++at;
    if (at < text_.size() && text_[at] == '&' && at + 1 < text_.size() && text_[at + 1] == '>') ++at;
    if (at >= text_.size() || (text_[at] != '<' && text_[at] != '>')) return false;
    const size_t begin = at;
    while (at < text_.size() && (text_[at] == '<' || text_[at] == '>')) ++at;
    const std::string_view sign = text_.substr(begin, at - begin);
    at_ = at;
    if (sign == "<<") {
      HereDocument document;
      if (at_ < text_.size() && text_[at_] == '-') document.tabs = true, ++at_;
      blanks();
      const RawWord end = word();
      document.plain = end.text.find_first_of("'\"\\") != std::string_view::npos;
      for (const char c : end.text)
        if (c != '\'' && c != '"' && c != '\\') document.end += c;
      if (document.end.empty()) refuse(end.line, "<< without a word", "the word ends the here-document", "write <<END");
      documents.push_back(std::move(document));
      return true;
    }
    if (at_ < text_.size() && (text_[at_] == '&' || text_[at_] == '|')) ++at_;
    blanks();
    if (at_ < text_.size() && text_[at_] == '(') {  // >( .. ), <( .. )
      const size_t end = closing_bracket(text_, at_ + 1, '(', ')');
      if (end == std::string_view::npos)
        refuse(line_, "( is not closed", "what is opened is closed in the same script", "close it");
      count_lines(at_, end), at_ = end + 1;
      return true;
    }
    const RawWord target = word();
    if (sign == ">" || sign == ">>")
      if (std::vector<ExpandedWord> words = expanded(target, false); !words.empty()) output = std::move(words[0]);
    return true;
  }

  void read_documents(std::vector<HereDocument>& documents) {
    for (HereDocument& d : documents) {
      std::string body;
      const int line = line_;
      for (;;) {
        if (at_ >= text_.size())
          refuse(line, fmt::format("here-document without its end {}", d.end), "a line holds nothing but the word",
                 "add the line");
        const size_t end = std::min(text_.find('\n', at_), text_.size());
        std::string_view row = text_.substr(at_, end - at_);
        at_ = std::min(end + 1, text_.size());
        ++line_;
        if (d.tabs) row.remove_prefix(std::min(row.find_first_not_of('\t'), row.size()));
        if (row == d.end) break;
        body.append(row).append("\n");
      }
      if (!d.kept || d.file.trouble) continue;
      ExpandedWord text = d.plain ? ExpandedWord{body, {}} : variables_.expand_body(body, line);
      out_.written[d.file.text] = {std::move(text.text), line, text.trouble.text, text.trouble.line};
    }
    documents.clear();
  }

  // Words that open and close what a shell decides on; they may stand before a command.
  bool keyword(std::string_view word) {
    for (const char* opens : {"if", "for", "while", "until", "case", "select", "{", "function"})
      if (word == opens) {
        depth_ += word == "function" ? 0 : 1;
        decisions_ += word == "{" || word == "function" ? 0 : 1;
        return true;
      }
    for (const char* closes : {"fi", "done", "esac", "}"})
      if (word == closes) {
        depth_ = std::max(0, depth_ - 1);
        decisions_ = std::max(0, decisions_ - (word == "}" ? 0 : 1));
        return true;
      }
    for (const char* between : {"then", "else", "elif", "do", "in", "!", "time"})
      if (word == between) return true;
    return false;
  }

  void command() {
    std::vector<HereDocument> documents;
    std::optional<ExpandedWord> output;
    ScriptCommand words;
    bool first = true;  // words so far were assignments or keywords
    bool declares = false;
    const size_t begin = at_;
    for (;;) {
      blanks();
      if (at_ >= text_.size()) break;
      const char c = text_[at_];
      if (c == '\n' || c == ';' || c == '|' || (c == '&' && !(at_ + 1 < text_.size() && text_[at_ + 1] == '>'))) break;
      if (redirection(documents, output)) continue;
      if (c == '(' || c == ')') {
        ++at_;
        if (c == '(' && words.empty()) ++depth_;
        if (c == ')' && words.empty()) depth_ = std::max(0, depth_ - 1);
        if (c == ')' && words.size() == 1 && decisions_ > 0) words.clear(), first = true;  // a pattern of `case`
        continue;
      }
      const RawWord raw = word();
      if (first && keyword(raw.text)) {
        if (raw.text == "for" || raw.text == "select") {
          blanks();
          const RawWord name = word();
          assign(std::string(name.text),
                 {.trouble = {fmt::format("{} is set by a loop, which needs a shell", name.text), name.line}}, false,
                 name.line);
          skip_command();
        } else if (raw.text == "case" || raw.text == "function") {
          skip_command();
        }
        continue;
      }
      if (const size_t value = assigned_at(raw.text); value > 0 && (first || declares)) {
        assignment(raw, value);
        continue;
      }
      if (first && (raw.text == "export" || raw.text == "declare" || raw.text == "local" || raw.text == "readonly" ||
                    raw.text == "typeset"))
        declares = true;
      if (first && raw.text == "unset") declares = true;
      first = false;
      for (ExpandedWord& w : expanded(raw))
        words.push_back({std::move(w.text), raw.line, std::move(w.trouble.text), w.trouble.line});
    }
    for (HereDocument& d : documents) {
      d.kept = output && !words.empty() && words[0].text == "cat";
      if (d.kept) d.file = *output;
    }
    const bool stands = at_ > begin, tests = !words.empty() && is_test(words[0].text), doubtful = doubtful_;
    if (decisions_ > 0 || doubtful)
      for (ScriptWord& w : words)
        if (w.trouble.empty()) w.trouble = "whether this command runs, only a shell can tell", w.trouble_line = w.line;
    if (!words.empty() && !declares) out_.commands.push_back(std::move(words));
    const std::string_view sign = text_.substr(std::min(at_, text_.size()), 2);
    if (stands && sign == "&&") doubtful_ = doubtful || tests;
    if (stands && sign == "||") doubtful_ = true;
    if (stands && sign != "&&" && sign != "||") doubtful_ = false;
    to_next(documents);
  }

  // Commands whose result is what they are for: one behind && depends on it.
  static bool is_test(const std::string& command) {
    return command == "[" || command == "[[" || command == "test" || command == "false";
  }

  void skip_command() {
    while (at_ < text_.size() && text_[at_] != '\n' && text_[at_] != ';') word_or_sign();
  }
  void word_or_sign() {
    blanks();
    const size_t before = at_;
    word();
    if (at_ == before && at_ < text_.size() && text_[at_] != '\n' && text_[at_] != ';') ++at_;
  }

  void to_next(std::vector<HereDocument>& documents) {
    if (at_ >= text_.size()) return;
    if (text_[at_] != '\n') {
      ++at_;
      // What follows on the line of a << is another command; the document begins behind the line.
      pending_.insert(pending_.end(), std::make_move_iterator(documents.begin()), std::make_move_iterator(documents.end()));
      return;
    }
    ++at_, ++line_;
    read_documents(pending_);
    read_documents(documents);
  }

  std::string_view text_;
  size_t at_ = 0;
  int line_ = 1, depth_ = 0;
  int decisions_ = 0;      // conditions and loops around
  bool doubtful_ = false;  // a command before && or || decides whether the next one runs
  int64_t spent_ = 0;
  ShellVariables variables_;
  std::vector<HereDocument> pending_;
  LaunchScript out_;
};

std::string file_part(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// The number behind one of `names`, as `--name N`, `--name=N` or, of one letter, `-n N`.
std::optional<int64_t> launcher_number(const LaunchScript& script, const ScriptCommand& words, size_t end,
                                       std::initializer_list<std::string_view> names) {
  for (size_t i = 0; i < end; ++i) {
    std::string text = words[i].text;
    const size_t equals = text.find('=');
    const std::string value_here = equals == std::string::npos ? "" : text.substr(equals + 1);
    text = text.substr(0, equals);
    std::replace(text.begin(), text.end(), '-', '_');
    if (std::find(names.begin(), names.end(), text) == names.end()) continue;
    if (equals == std::string::npos && i + 1 >= end) return {};
    const ScriptWord& place = equals == std::string::npos ? words[i + 1] : words[i];
    const PlacedWord known = known_word(script, place);
    const std::string value = equals == std::string::npos ? known.text : value_here;
    int64_t number = 0;
    const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || stop != value.data() + value.size() || number < 1 || number > 1 << 20)
      throw UserError(fmt::format("{} is '{}'", words[i].text.substr(0, 40), value.substr(0, 40)), known.source,
                      "the launcher starts a whole number of ranks", "write the number, or give --ranks");
    return number;
  }
  return {};
}

bool is_launcher(const std::string& word) {
  const std::string name = file_part(word);
  for (const char* known :
       {"torchrun", "deepspeed", "mpirun", "mpiexec", "srun", "accelerate", "msrun", "nohup", "env", "numactl"})
    if (name == known) return true;
  return name.starts_with("python");
}

}  // namespace

LaunchScript parse_launch_script(std::string_view text, const std::string& name) {
  if (static_cast<int64_t>(text.size()) > kScriptBytes)
    throw UserError("script is too long", name, "a launch script has 1 MiB at most",
                    "name the script that launches the program");
  return ScriptReader(text, name).read();
}

LaunchScript read_launch_script(const std::string& path) {
  return parse_launch_script(read_text(path, kScriptBytes, "launch script"), path);
}

PlacedWord known_word(const LaunchScript& script, const ScriptWord& word) {
  if (!word.trouble.empty())
    throw UserError(word.trouble, fmt::format("{}:{}", script.name, word.trouble_line),
                    "scripts are read, and nothing of them is run", "write there what it comes to");
  return {word.text, fmt::format("{}:{}", script.name, word.line)};
}

void refuse_second_launch(const LaunchScript& script, const ScriptWord& first, const ScriptWord& second) {
  throw UserError(fmt::format("{} and {} are started", file_part(first.text), file_part(second.text)),
                  fmt::format("{0}:{1}, {0}:{2}", script.name, first.line, second.line), "a script is one job",
                  "leave one of the two lines in it");
}

void refuse_other_folder(const LaunchScript& script, const ScriptCommand& launch) {
  namespace fs = std::filesystem;
  fs::path folder = ".";
  const ScriptCommand* moves = nullptr;
  for (const ScriptCommand& words : script.commands) {
    if (&words == &launch) break;
    if (words[0].text != "cd" && words[0].text != "pushd" && words[0].text != "popd") continue;
    moves = &words;
    folder /= words.size() > 1 ? known_word(script, words[1]).text : "another folder";
  }
  std::error_code error;
  if (!moves || fs::equivalent(folder, ".", error)) return;
  throw UserError(fmt::format("{} {}", (*moves)[0].text, moves->size() > 1 ? (*moves)[1].text.substr(0, 80) : ""),
                  fmt::format("{}:{}", script.name, (*moves)[0].line),
                  "paths of the line are looked for in the folder where ravine is started",
                  "start it in that folder, and take the command out of the script");
}

LaunchedProgram launched_program(const LaunchScript& script) {
  const ScriptCommand* launch = nullptr;
  size_t at = 0;  // of the program's word
  for (const ScriptCommand& words : script.commands) {
    if (!is_launcher(words[0].text)) continue;
    for (size_t i = 1; i < words.size(); ++i) {
      if (!words[i].text.ends_with(".py")) continue;
      if (launch) refuse_second_launch(script, (*launch)[at], words[i]);
      launch = &words, at = i;
      break;
    }
  }
  if (!launch)
    throw UserError("no program is launched", script.name,
                    "a launch script starts a program NAME.py by python, torchrun, deepspeed, mpirun or srun",
                    "name the script that launches it");
  refuse_other_folder(script, *launch);
  LaunchedProgram out{.program = known_word(script, (*launch)[at]), .flags = {}};
  for (size_t k = at + 1; k < launch->size(); ++k) out.flags.push_back(known_word(script, (*launch)[k]));
  const auto local =
      launcher_number(script, *launch, at, {"__nproc_per_node", "__num_gpus", "__num_processes", "_n", "_np", "__ntasks"});
  const auto nodes = launcher_number(script, *launch, at, {"__nnodes", "__num_nodes", "__num_machines"});
  const auto all = launcher_number(script, *launch, at, {"__worker_num"});  // msrun counts those of all nodes
  out.ranks = all.value_or(local.value_or(1) * nodes.value_or(1));
  return out;
}

}  // namespace ravine

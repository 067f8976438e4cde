#include "dialects/shell_substitution.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "base/read_text.h"
#include "base/text.h"
#include "dialects/shell_value.h"

namespace ravine {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;
using Answer = std::optional<std::string>;

constexpr int64_t kAnswerBytes = 1 << 16;

Answer line(std::string text) { return std::move(text) + "\n"; }

std::optional<int64_t> number_in(const std::string& text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return n;
}

Answer date(const Words& w) {
  std::string format = "%a %b %e %H:%M:%S %Z %Y";
  bool utc = false;
  for (size_t i = 1; i < w.size(); ++i) {
    if (w[i] == "-u" || w[i] == "--utc")
      utc = true;
    else if (w[i].starts_with('+'))
      format = w[i].substr(1);
    else
      return {};
  }
  if (format.find("%N") != std::string::npos) return {};
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  utc ? gmtime_r(&now, &parts) : localtime_r(&now, &parts);
  std::array<char, 512> out{};
  const size_t n = std::strftime(out.data(), out.size(), format.c_str(), &parts);
  return line(std::string(out.data(), n));
}

std::string without_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}
std::string dirname(const std::string& path) {
  const std::string p = without_slashes(path);
  const size_t slash = p.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : without_slashes(p.substr(0, slash));
}
std::string basename(const std::string& path, const std::string& suffix) {
  std::string name = without_slashes(path);
  name = name == "/" ? name : name.substr(name.rfind('/') + 1);
  if (name.size() > suffix.size() && name.ends_with(suffix)) name.resize(name.size() - suffix.size());
  return name;
}

Answer host(const Words& w) {
  std::array<char, 256> name{};
  if (w.size() > 2 || (w.size() == 2 && w[1] != "-s" && w[1] != "-f") || ::gethostname(name.data(), name.size() - 1) != 0)
    return {};
  const std::string text = name.data();
  return line(w.size() == 2 && w[1] == "-s" ? text.substr(0, text.find('.')) : text);
}

Answer echo(const Words& w) {
  bool end = true, escapes = false;
  size_t at = 1;
  for (; at < w.size() && w[at].size() > 1 && w[at][0] == '-' && w[at].find_first_not_of("neE", 1) == std::string::npos; ++at) {
    end = end && w[at].find('n') == std::string::npos;
    escapes = escapes || w[at].find('e') != std::string::npos;
  }
  std::string text = fmt::format("{}", fmt::join(w.begin() + static_cast<std::ptrdiff_t>(at), w.end(), " "));
  if (escapes)
    for (size_t i = 0; i + 1 < text.size(); ++i)
      if (text[i] == '\\' && (text[i + 1] == 'n' || text[i + 1] == 't')) text.replace(i, 2, text[i + 1] == 'n' ? "\n" : "\t");
  return text + (end ? "\n" : "");
}

Answer print(const Words& w) {
  if (w.size() < 2) return {};
  std::string out;
  size_t next = 2;
  const std::string& format = w[1];
  for (size_t i = 0; i < format.size(); ++i) {
    if (format[i] == '\\' && i + 1 < format.size() && (format[i + 1] == 'n' || format[i + 1] == 't')) {
      out += format[++i] == 'n' ? '\n' : '\t';
    } else if (format[i] == '%') {
      size_t end = i + 1;
      while (end < format.size() && format[end] >= '0' && format[end] <= '9') ++end;
      const std::string value = next < w.size() ? w[next++] : "";
      const bool zeros = format[i + 1] == '0';
      const auto width = number_in(format.substr(i + 1, end - i - 1)).value_or(0);
      if (end >= format.size() || (format[end] != 's' && format[end] != 'd') || width > 64) return {};
      const size_t pad = std::max<size_t>(value.size(), static_cast<size_t>(width)) - value.size();
      out += std::string(pad, zeros ? '0' : ' ') + value;
      i = end;
    } else {
      out += format[i];
    }
  }
  return next < w.size() ? Answer() : out;
}

Answer sequence(const Words& w) {
  std::vector<int64_t> n;
  for (size_t i = 1; i < w.size(); ++i) {
    const auto v = number_in(w[i]);
    if (!v) return {};
    n.push_back(*v);
  }
  if (n.empty() || n.size() > 3) return {};
  const int64_t first = n.size() > 1 ? n[0] : 1, step = n.size() == 3 ? n[1] : 1, last = n.back();
  constexpr int64_t kLargest = int64_t{1} << 40;
  for (const int64_t v : n)
    if (v > kLargest || v < -kLargest) return {};
  if (step == 0 || (last - first) / step > 4096) return {};
  std::string out;
  for (int64_t i = first; step > 0 ? i <= last : i >= last; i += step) out += fmt::format("{}\n", i);
  return out;
}

// Returns the output of a program that reads an input: wc, head, tail, tr or cut.
Answer of_input(const Words& w, const std::string& input) {
  std::vector<std::string> lines = split(input, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  const auto joined = [](const std::vector<std::string>& all) {
    std::string out;
    for (const std::string& one : all) out += one + "\n";
    return out;
  };
  if (w[0] == "wc" && w.size() == 2 && w[1] == "-l") return line(std::to_string(std::count(input.begin(), input.end(), '\n')));
  if (w[0] == "wc" && w.size() == 2 && w[1] == "-c") return line(std::to_string(input.size()));
  if (w[0] == "wc" && w.size() == 2 && w[1] == "-w") {
    int64_t words = 0;
    for (size_t i = 0; i < input.size(); ++i)
      words += !std::isspace(static_cast<unsigned char>(input[i])) &&
               (i == 0 || std::isspace(static_cast<unsigned char>(input[i - 1])));
    return line(std::to_string(words));
  }
  if (w[0] == "head" || w[0] == "tail") {
    const std::string count = w.size() == 3 && w[1] == "-n"             ? w[2]
                              : w.size() == 2 && w[1].starts_with("-n") ? w[1].substr(2)
                              : w.size() == 2 && w[1].starts_with('-')  ? w[1].substr(1)
                                                                        : "";
    const auto n = number_in(count);
    if (!n || *n < 0) return {};
    const auto keep = std::min<size_t>(static_cast<size_t>(*n), lines.size());
    return joined(w[0] == "head" ? std::vector(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(keep))
                                 : std::vector(lines.end() - static_cast<std::ptrdiff_t>(keep), lines.end()));
  }
  if (w[0] == "tr") {
    const auto letter = [](const std::string& t) {
      return t == "\\n" ? std::string("\n") : t == "\\t" ? std::string("\t") : t;
    };
    if (w.size() != 3) return {};
    const std::string from = letter(w[1] == "-d" ? w[2] : w[1]), to = w[1] == "-d" ? "" : letter(w[2]);
    if (from.size() != 1 || to.size() > 1) return {};
    std::string out;
    for (const char c : input)
      if (c != from[0])
        out += c;
      else
        out += to;
    return out;
  }
  if (w[0] == "cut") {
    std::string by = "\t", field;
    for (size_t i = 1; i < w.size(); ++i) {
      std::string& into = w[i].starts_with("-d") ? by : field;
      if (!w[i].starts_with("-d") && !w[i].starts_with("-f")) return {};
      into = w[i].size() > 2 ? w[i].substr(2) : i + 1 < w.size() ? w[++i] : "";
    }
    const auto n = number_in(field);
    if (by.size() != 1 || !n || *n < 1) return {};
    for (std::string& l : lines) {
      const std::vector<std::string> parts = split(l, by[0]);
      l = parts.size() == 1 ? l : *n <= static_cast<int64_t>(parts.size()) ? parts[static_cast<size_t>(*n - 1)] : "";
    }
    return joined(lines);
  }
  return {};
}

}  // namespace

std::optional<std::string> answer_of(const std::vector<std::string>& given, const std::string& folder,
                                     const std::string& input) {
  if (given.empty()) return {};
  Words w = given;
  if (w.size() > 2 && w[1] == "--") w.erase(w.begin() + 1);
  const std::string& name = w[0];
  std::error_code ec;
  const auto placed = [&](const std::string& path) { return (fs::path(folder) / path).string(); };
  if (name == "date") return date(w);
  if (name == "dirname" && w.size() == 2) return line(dirname(w[1]));
  if (name == "basename" && (w.size() == 2 || w.size() == 3)) return line(basename(w[1], w.size() == 3 ? w[2] : ""));
  if (name == "hostname") return host(w);
  if (name == "nproc") return line(std::to_string(std::max(1U, std::thread::hardware_concurrency())));
  if (name == "pwd") return line(fs::weakly_canonical(folder, ec).string());
  if (name == "echo") return echo(w);
  if (name == "printf") return print(w);
  if (name == "seq") return sequence(w);
  if (name == "cat" && w.size() == 1) return input;
  if (name == "cat" && w.size() == 2 && fs::is_regular_file(placed(w[1]), ec) && !placed(w[1]).starts_with("/proc/")) {
    if (fs::file_size(placed(w[1]), ec) > static_cast<uintmax_t>(kAnswerBytes)) return {};
    return read_text(placed(w[1]), kAnswerBytes, "a file that a launch script reads");
  }
  if (name == "whoami" || (name == "id" && w.size() == 2 && (w[1] == "-un" || w[1] == "-u"))) {
    if (w.back() == "-u") return line(std::to_string(::geteuid()));
    const passwd* user = ::getpwuid(::geteuid());
    return user ? line(user->pw_name) : Answer();
  }
  if ((name == "realpath" && w.size() == 2) || (name == "readlink" && w.size() == 3 && w[1] == "-f"))
    return line(fs::weakly_canonical(placed(w.back()), ec).string());
  if (name == "uname") {
    utsname of{};
    if (::uname(&of) != 0 || w.size() > 2) return {};
    if (w.size() == 1 || w[1] == "-s") return line(of.sysname);
    return w[1] == "-m" ? line(of.machine) : w[1] == "-n" ? line(of.nodename) : Answer();
  }
  if (name == "expr") {
    std::string text;
    for (size_t i = 1; i < w.size(); ++i) text += (w[i] == "\\*" ? "*" : w[i]) + " ";
    ShellVariables none;
    if (text.find_first_not_of("0123456789+-*/%() ") != std::string::npos) return {};
    const ExpandedWord v = arithmetic(text, none, 1);
    return v.problem ? Answer() : line(v.text);
  }
  return of_input(w, input);
}

}  // namespace ravine

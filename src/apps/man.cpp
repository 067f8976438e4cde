// `ravine man`: manual pages from the help pages. ravine.1 is the overview, ravine-COMMAND.1 (ravine-COMMAND-ACTION.1)
// a command.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "apps/commands.h"
#include "apps/show_page.h"
#include "base/error.h"
#include "base/text.h"
#include "base/version.h"
#include "files/atomic.h"
#include "files/file_set.h"

namespace ravine {
namespace {

struct ManFlags {
  std::vector<std::string> command;
  std::string output;
  bool overwrite = false;
  template <class V>
  void each(V&& v) {
    v("command", command, "command whose page is printed; none: the page of the program", positional() & metavar("COMMAND"));
    v("output", output, "folder to write the pages of all commands to, instead of printing one",
      filled() & writes() & metavar("DIR"));
    v("overwrite", overwrite, "replace existing files of these names, all together");
  }
};

std::string dashed(std::string name) {
  for (char& c : name)
    if (c == ' ') c = '-';
  return name;
}

// Returns text escaped for roff: backslashes and dashes are escaped, and no line is a request.
std::string roff(const std::string& text) {
  std::string out;
  bool begins = true;
  for (char c : text) {
    if (begins && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    begins = c == '\n';
  }
  return out;
}

// Returns a page. name: "ravine-train"; page: its help, which keeps its columns.
std::string man_page(const std::string& name, const std::string& summary, const std::string& page, const std::string& see) {
  std::string upper = name;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return fmt::format(".TH {} 1 \"\" \"{}\" \"Ravine\"\n.SH NAME\n{} \\- {}\n.SH DESCRIPTION\n.nf\n{}.fi\n.SH SEE ALSO\n{}\n",
                     roff(upper), program_version(), roff(name), roff(summary), roff(page), see);
}

struct ManPage {
  std::string name, text, plain;  // name: "ravine-train"; text: roff
};

void add_pages(const std::vector<Command>& commands, std::vector<ManPage>& out) {
  for (const Command& c : commands) {
    const std::string name = "ravine-" + dashed(c.spec.name);
    out.push_back({name, man_page(name, c.spec.summary, help_page(c, true), ".BR ravine (1)"), help_page(c, true)});
    add_pages(c.actions, out);
  }
}

std::vector<ManPage> man_pages(const std::vector<Command>& commands) {
  std::string see;
  for (const Command& c : commands) see += fmt::format("{}.BR ravine\\-{} (1)", see.empty() ? "" : ",\n", c.spec.name);
  std::vector<ManPage> pages = {{"ravine",
                                 man_page("ravine", "trains, runs and examines large language models", overview(commands), see),
                                 overview(commands)}};
  add_pages(commands, pages);
  return pages;
}

int run_man(ManFlags& flags, const std::vector<Command>& commands) {
  const std::vector<ManPage> pages = man_pages(commands);
  if (!flags.output.empty()) {
    std::vector<std::string> names;
    for (const ManPage& p : pages) names.push_back(p.name + ".1");
    for (const std::string& n : names) refuse_existing_file(flags.output + "/" + n, flags.overwrite);
    create_folders(flags.output);
    FileSet set(flags.output + "/man.replacing", {"manual pages", names});
    for (const ManPage& p : pages) write_file_atomic(set.folder() + "/" + p.name + ".1", p.text);
    set.commit(names, flags.overwrite);
    return 0;
  }
  std::string name = "ravine";
  for (const std::string& word : flags.command) name += "-" + word;
  constexpr std::string_view kBefore = "ravine-";  // the common prefix would make all names similar
  std::vector<std::string> names;
  for (const ManPage& p : pages) {
    if (p.name.size() > kBefore.size()) names.push_back(p.name.substr(kBefore.size()));
    if (p.name != name) continue;
    if (isatty(STDOUT_FILENO)) return show_page(p.plain), 0;
    std::fwrite(p.text.data(), 1, p.text.size(), stdout);
    return 0;
  }
  const std::string near = nearest(name.substr(std::min(name.size(), kBefore.size())), names);
  throw UserError(fmt::format("no page '{}'", name.substr(0, 80)), "man", "it must be the name of a command",
                  near.empty() ? "see `ravine --help`" : fmt::format("did you mean '{}{}'?", kBefore, near));
}

}  // namespace

Command man_command(const std::vector<Command>& others) {
  return command_on_table<ManFlags>({.name = "man",
                                     .summary = "print the manual page of a command: text on a terminal, roff elsewhere",
                                     .example = "ravine man train"},
                                    "Machine", others, run_man);
}

}  // namespace ravine

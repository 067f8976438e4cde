// The help pages of a command, generated from its flags and the option table.
//
//   --help          common_help: at most 60 lines: example, paragraph, flags, options marked common()
//   --help-all      command_help: all flags and all options of the command, flags with their details
//   --help SECTION  section_help: all options of one section of the config
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "config/command_line.h"

namespace ravine {

std::string common_help(const CommandSpec& spec, const std::vector<Option>& flags);
std::string command_help(const CommandSpec& spec, const std::vector<Option>& flags);
// Throws a UserError if the command takes no option of this section.
std::string section_help(const CommandSpec& spec, const std::string& section);

// The help page that the arguments of a command ask for; the result of requested_help.
struct HelpRequest {
  bool all = false;     // true: --help-all
  std::string section;  // section of --help SECTION; "": none
};
// Returns the help page that the arguments ask for; nothing if no --help, -h or --help-all precedes "--".
std::optional<HelpRequest> requested_help(const std::vector<std::string>& args);

}  // namespace ravine

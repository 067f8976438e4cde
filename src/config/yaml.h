// YAML documents, parsed by libyaml and resolved by the rules of YAML 1.1, as in PyYAML's safe loader: on/off/yes/no
// are booleans; 010 is 8; 0x1f, 0b11, 1_000; 1:30 is 90; ~ and nothing are null; `<<` merges. A repeated key in
// a map is refused in files; on the command line the last one wins, as in PyYAML. On the command line a value that
// begins with * is a text (a glob pattern), since there is no anchor. Beyond PyYAML, floats need no dot and no sign of
// the exponent (1e-5, 1.5e5, -.5). Dates stay text.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ravine {

// A value of a YAML document.
struct YamlNode {
  enum class Kind { null, boolean, integer, real, text, list, map };
  using Ptr = std::shared_ptr<const YamlNode>;  // an alias shares the node of its anchor

  Kind kind = Kind::null;
  std::string text;  // for a scalar: the characters as written, without quotes
  bool boolean = false;
  int64_t integer = 0;
  double real = 0;  // also set for integers; an integer beyond 64 bits is a real
  std::vector<Ptr> items;
  std::vector<std::pair<std::string, Ptr>> fields;  // in the order of first appearance; keys are distinct
  int line = 0;                                     // from 1; 0 on the command line
  int64_t size = 1;                                 // number of nodes, this one included, with aliases expanded

  bool scalar() const { return kind != Kind::list && kind != Kind::map; }
  const YamlNode* find(std::string_view key) const;  // null if absent, or if this is no map
};

// Limits on a YAML document, against hostile files; a document beyond them is a UserError.
constexpr int kYamlDepth = 64;
constexpr int64_t kYamlNodes = 100'000;  // with aliases expanded
constexpr int64_t kYamlBytes = int64_t{4} << 20;

// Parses a YAML text of one document; an empty document is null. Errors are UserErrors at "<name>:<line>", or at
// "<name>" without `lines`: syntax errors, a second document, repeated keys (with `lines`), unknown tags, undefined or
// recursive aliases, the limits.
YamlNode::Ptr load_yaml(std::string_view text, const std::string& name, bool lines = true);
YamlNode::Ptr read_yaml(const std::string& path);

// Returns the value of a plain scalar (without quotes) by the rules of YAML 1.1 as above. Never fails: other texts are
// texts.
YamlNode resolve_scalar(std::string_view text);

// Returns a text as a YAML scalar that reads back exactly, here and in PyYAML.
std::string yaml_text(std::string_view text);  // plain if possible, else in double quotes; UserError for invalid UTF-8
// Returns a number as a YAML scalar that reads back exactly, here and in PyYAML.
std::string yaml_real(double x);

}  // namespace ravine

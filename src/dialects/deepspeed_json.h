// Reads the JSON of DeepSpeed's configs, with the line of each value. The grammar is RFC 8259; a comma after the last
// element is accepted with a notice.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "config/yaml.h"

namespace ravine {

// The largest nesting depth, number of values and size in bytes of a DeepSpeed config. A larger one is a UserError.
constexpr int kDeepSpeedDepth = 32;
constexpr int64_t kDeepSpeedValues = 100'000;
constexpr int64_t kDeepSpeedBytes = int64_t{4} << 20;

// Parses the JSON text of a DeepSpeed config, whose root must be an object. name: its name in messages. The `text` of a
// number node is as written. A whole number beyond 64 bits is a
// real; Python's NaN and Infinity are reals. A duplicate key in an object, invalid UTF-8 and syntax errors are
// UserErrors at "<name>:<line>". Each accepted trailing comma appends a line to `notices`.
YamlNode::Ptr parse_deepspeed_json(std::string_view text, const std::string& name, std::vector<std::string>& notices);

// Reads and parses a DeepSpeed config. source: a file, or the config itself in URL-safe base64, as in DeepSpeed. name:
// receives its name for messages.
YamlNode::Ptr read_deepspeed_json(const std::string& source, std::string& name, std::vector<std::string>& notices);

}  // namespace ravine

// One record of a corpus: an object of a JSON file, a row of a table, a piece of a text file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/json.h"

namespace ravine {

struct Record {
  std::string body;  // a JSON object as text; with `plain` the text itself, standing for {"text": body}
  bool plain = false;
  std::shared_ptr<const std::string> file;  // its path
  int64_t number = 0;                       // line of the file, or row of a table, from 1

  std::string where() const;  // "FILE:NUMBER"
  Json json() const;          // the object; anything else, and bad syntax, is a UserError naming where()
};

}  // namespace ravine

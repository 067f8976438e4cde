// One record of a corpus: an object of a JSON file, a row of a table, or a piece of a text file.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "base/json.h"

namespace ravine {

struct Record {
  std::string body;  // the record: a JSON object as text; with `plain` a plain text, which means {"text": body}
  bool plain = false;
  std::shared_ptr<const std::string> file;  // path of the file
  int64_t number = 0;                       // line of the file, or row of the table, from 1

  std::string where() const;  // "FILE:NUMBER"
  // Returns the record as a JSON object. Invalid JSON, or a value that is not an object, is a UserError that names
  // where().
  Json json() const;
};

}  // namespace ravine

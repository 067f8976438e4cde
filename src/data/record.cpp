#include "data/record.h"

#include "base/error.h"
#include "text/chat/rendered_json.h"

namespace ravine {

std::string Record::where() const { return fmt::format("{}:{}", *file, number); }

Json Record::json() const {
  if (plain) return Json{{"text", body}};
  Json j = parse_rendered(body, where());
  if (!j.is_object()) throw UserError("not a JSON object", where(), "a record must be a JSON object", "correct the file");
  return j;
}

}  // namespace ravine

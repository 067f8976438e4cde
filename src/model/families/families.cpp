#include "model/families/families.h"

namespace ravine {

const std::vector<Family>& families() {
  static const std::vector<Family> table{
      {"llama", make_llama},
  };
  return table;
}

}  // namespace ravine

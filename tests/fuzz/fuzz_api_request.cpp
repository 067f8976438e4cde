// Any bytes as the body of a request of either route give an ApiError of status 400, or a request within the API's
// bounds.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "serve/openai_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  for (const bool chat : {false, true}) try {
      const ApiRequest r = parse_api_request({reinterpret_cast<const char*>(data), size}, chat);
      if (r.n < 1 || r.n > 128 || r.max_tokens.value_or(1) < 1 || r.alternatives < 0 || r.alternatives > 20) std::abort();
      if (chat ? !r.messages.is_array() || r.messages.empty() : r.prompts.empty()) std::abort();
      for (const std::string& stop : r.stops)
        if (stop.empty()) std::abort();
      const Processing p = processing_of(r, {});
      if (!(p.temperature >= 0) || !(p.top_p >= 0 && p.top_p <= 1) || p.top_k < 0 || !std::isfinite(p.frequency_penalty))
        std::abort();
    } catch (const ApiError& e) {
      if (e.status != 400 || error_body(e).empty()) std::abort();
    }
  return 0;
}

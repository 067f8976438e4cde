// Any bytes as the head of a request give a refusal with a reason, or a head. The text of the head parses to the same
// head. The head has no zero byte, and not both a length and chunks.
#include <cstdint>
#include <cstdlib>

#include "serve/http_head.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ravine;
  const HttpHead head = read_http_head({reinterpret_cast<const char*>(data), size}, 1 << 20);
  if (head.refusal > 0) return head.reason.empty() || head.refusal < 400 ? (std::abort(), 0) : 0;
  if (head.length < 0 || head.length > 1 << 20 || (head.chunked && head.length > 0)) std::abort();
  if (!head.text.ends_with("\r\n\r\n") || head.text.find('\0') != std::string::npos) std::abort();
  const HttpHead again = read_http_head(head.text, 1 << 20);
  if (again.refusal != 0 || again.text != head.text || again.length != head.length || again.chunked != head.chunked)
    std::abort();
  return 0;
}

// The head of a request as the guard of the server reads it (RFC 9112), before anything else sees it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace ravine {

struct HttpHead {
  std::string text;      // what may be parsed again: without headers that the server does not honour
  int64_t length = 0;    // of the body that is announced
  bool chunked = false;  // announced without a length
  int refusal = 0;       // a status, where the head is not taken
  std::string reason;    // in words
};

constexpr size_t kMostHead = 16384, kMostRequestLine = 2048, kMostHeaders = 100;

// head: up to and including the empty line. most_body: announced bodies above are refused.
HttpHead read_http_head(std::string_view head, int64_t most_body);

}  // namespace ravine

// Reads and checks the head of a request (RFC 9112) before cpp-httplib reads it.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace ravine {

// The result of read_http_head(): the checked head of a request, or the error that refuses it.
struct HttpHead {
  std::string text;      // the head for cpp-httplib, without headers that the server does not support
  int64_t length = 0;    // Content-Length of the body; 0 if there is none
  bool chunked = false;  // true: Transfer-Encoding is chunked, and there is no length
  int refusal = 0;       // status of the error (4xx or 5xx) if the head is refused; else 0
  std::string reason;    // message of the error if the head is refused
};

constexpr size_t kMostHead = 16384, kMostRequestLine = 2048, kMostHeaders = 100;

// Checks the head of a request. head: its bytes, up to and including the empty line. most_body: a larger
// Content-Length, in bytes, is refused.
HttpHead read_http_head(std::string_view head, int64_t most_body);

}  // namespace ravine

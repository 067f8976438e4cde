#include "serve/http_head.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

namespace ravine {
namespace {

bool is_token(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) || std::string_view("!#$%&'*+-.^_`|~").find(static_cast<char>(c)) != std::string_view::npos;
  });
}

// True if the text has no control characters except tabs.
bool is_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) { return c == '\t' || (c >= 0x20 && c != 0x7f); });
}

std::string lower(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

HttpHead refused(int status, std::string reason) {
  HttpHead head;
  head.refusal = status, head.reason = std::move(reason);
  return head;
}

}  // namespace

HttpHead read_http_head(std::string_view text, int64_t most_body) {
  HttpHead head;
  std::optional<int64_t> length;
  size_t number = 0;
  bool get = false;
  while (true) {
    const size_t end = text.find("\r\n");
    if (end == std::string_view::npos) return refused(400, "the head of the request is not whole");
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 2);
    if (line.empty()) break;
    if (number++ == 0) {
      const size_t first = line.find(' '), second = line.find(' ', first + 1);
      if (line.size() > kMostRequestLine) return refused(414, "the address is too long");
      if (second == std::string_view::npos || line.find(' ', second + 1) != std::string_view::npos ||
          !is_token(line.substr(0, first)) || !is_value(line) || line[first + 1] != '/')
        return refused(400, "the first line is no request");
      const std::string_view version = line.substr(second + 1), method = line.substr(0, first);
      if (version != "HTTP/1.1" && version != "HTTP/1.0") return refused(505, "HTTP/1.1 is spoken here");
      if (method != "GET" && method != "POST" && method != "OPTIONS") return refused(405, "GET and POST are the methods here");
      get = method != "POST";
      head.text.append(line).append("\r\n");
      continue;
    }
    if (number > kMostHeaders) return refused(431, "too many headers");
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)) || !is_value(line))
      return refused(400, "a header is malformed");
    const std::string name = lower(line.substr(0, colon));
    const std::string_view value = trimmed(line.substr(colon + 1));
    // Answers are sent whole and without encoding.
    if (name == "range" || name == "accept-encoding" || name == "expect") continue;
    if (name == "content-length") {
      int64_t n = -1;
      const auto [rest, error] = std::from_chars(value.data(), value.data() + value.size(), n);
      if (length || error == std::errc::invalid_argument || rest != value.data() + value.size() || value.front() == '-')
        return refused(400, "Content-Length is no number, or there twice");
      length = error == std::errc() ? n : INT64_MAX;
    }
    if (name == "transfer-encoding") {
      if (head.chunked || lower(value) != "chunked") return refused(501, "bodies come whole, or chunked");
      head.chunked = true;
    }
    head.text.append(line).append("\r\n");
  }
  if (number == 0) return refused(400, "the first line is no request");
  if (head.chunked && length) return refused(400, "a body has a length or comes in chunks, not both");
  head.length = length.value_or(0);
  if (get && (head.chunked || head.length > 0)) return refused(400, "this method has no body here");
  if (head.length > most_body) return refused(413, "the body is too large");
  head.text += "\r\n";
  return head;
}

}  // namespace ravine

#include "serve/openai_request.h"

#include <simdjson.h>

#include <charconv>
#include <cmath>
#include <set>

#include "base/cut_text.h"
#include "base/text.h"
#include "text/chat/messages.h"
#include "text/chat/rendered_json.h"

namespace ravine {

std::string error_body(const ApiError& e) {
  const char* type = e.status == 401   ? "authentication_error"
                     : e.status == 503 ? "overloaded_error"
                     : e.status >= 500 ? "server_error"
                                       : "invalid_request_error";
  auto or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  const Json body{{"error", {{"message", e.what()}, {"type", type}, {"param", or_null(e.param)}, {"code", or_null(e.code)}}}};
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

namespace {

namespace dom = simdjson::dom;
constexpr size_t kDepth = 32, kMostChoices = 128, kMostStops = 16, kMostStop = 1024, kMostBias = 1024;

[[noreturn]] void refuse(const std::string& field, const std::string& rule) {
  throw ApiError(400, fmt::format("'{}': {}", escaped(cut_text(field, 80)), rule), std::string(cut_text(field, 80)),
                 "invalid_value");
}

class Body {
 public:
  explicit Body(dom::object object) : object_(object) {
    for (const auto field : object) {
      const std::string_view key = field.key;
      if (!all_.insert(key).second) refuse(std::string(key), "it is there twice");
    }
  }

  // Returns a field that is present and not null. Fields that were never asked for are refused by refuse_others().
  std::optional<dom::element> find(const char* key) {
    all_.erase(key);
    dom::element value;
    if (object_.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return {};
    return value;
  }
  std::optional<double> number(const char* key, double low, double high) {
    const auto value = find(key);
    if (!value) return {};
    double x = 0;
    if (value->get(x) != simdjson::SUCCESS || !(x >= low && x <= high))
      refuse(key, fmt::format("it must be a number from {} to {}", low, high));
    return x;
  }
  std::optional<int64_t> integer(const char* key, int64_t low, int64_t high) {
    const auto value = find(key);
    if (!value) return {};
    int64_t x = 0;
    if (value->get(x) != simdjson::SUCCESS || x < low || x > high)
      refuse(key, fmt::format("it must be a whole number from {} to {}", low, high));
    return x;
  }
  std::optional<bool> flag(const char* key) {
    const auto value = find(key);
    if (!value) return {};
    bool x = false;
    if (value->get(x) != simdjson::SUCCESS) refuse(key, "it must be true or false");
    return x;
  }
  std::optional<std::string> text(const char* key) {
    const auto value = find(key);
    if (!value) return {};
    std::string_view x;
    if (value->get(x) != simdjson::SUCCESS) refuse(key, "it must be a text");
    return std::string(x);
  }
  void refuse_others() const {
    if (!all_.empty()) refuse(std::string(*all_.begin()), "no such field is known here");
  }

 private:
  dom::object object_;
  std::set<std::string_view> all_;
};

int32_t id_in(const dom::element& value, const char* field) {
  int64_t id = -1;
  if (value.get(id) != simdjson::SUCCESS || id < 0 || id > INT32_MAX) refuse(field, "ids are whole numbers, 0 or more");
  return static_cast<int32_t>(id);
}

std::vector<int32_t> ids_in(const dom::array& list, const char* field) {
  std::vector<int32_t> ids;
  for (const dom::element value : list) ids.push_back(id_in(value, field));
  return ids;
}

void read_prompts(Body& body, ApiRequest& r) {
  const auto prompt = body.find("prompt");
  const char* rule = "it must be a text, a list of texts, a list of ids or a list of such lists";
  if (!prompt) refuse("prompt", rule);
  std::string_view text;
  dom::array list;
  dom::element first;
  if (prompt->get(text) == simdjson::SUCCESS) {
    r.prompts.emplace_back(std::string(text));
  } else if (prompt->get(list) != simdjson::SUCCESS || list.at(0).get(first) != simdjson::SUCCESS) {
    refuse("prompt", rule);
  } else if (first.is<int64_t>()) {
    r.prompts.emplace_back(ids_in(list, "prompt"));
  } else {
    for (const dom::element one : list) {
      dom::array ids;
      if (one.get(text) == simdjson::SUCCESS)
        r.prompts.emplace_back(std::string(text));
      else if (one.get(ids) == simdjson::SUCCESS)
        r.prompts.emplace_back(ids_in(ids, "prompt"));
      else
        refuse("prompt", rule);
    }
  }
}

// Reads messages with all their fields, for the template. text: the whole body, in which numbers keep their spelling.
void read_messages(Body& body, const std::string& text, ApiRequest& r) {
  const auto found = body.find("messages");
  dom::array list;
  if (!found || found->get(list) != simdjson::SUCCESS || list.size() == 0)
    refuse("messages", "it must be a list of messages, not an empty one");
  try {
    r.messages = as_messages(parse_rendered(text, "the body").at("messages"));
  } catch (const MessagesError& e) {
    refuse("messages", e.what());
  } catch (const UserError& e) {
    refuse("messages", e.what());
  }
}

void read_stops(Body& body, ApiRequest& r) {
  if (const auto stop = body.find("stop")) {
    const std::string rule =
        fmt::format("it must be a text, or a list of at most {} texts, none empty or above {} bytes", kMostStops, kMostStop);
    std::string_view text;
    dom::array list;
    auto add = [&](std::string_view one) {
      if (one.empty() || one.size() > kMostStop || r.stops.size() >= kMostStops) refuse("stop", rule);
      r.stops.emplace_back(one);
    };
    if (stop->get(text) == simdjson::SUCCESS)
      add(text);
    else if (stop->get(list) != simdjson::SUCCESS)
      refuse("stop", rule);
    else
      for (const dom::element one : list) {
        if (one.get(text) != simdjson::SUCCESS) refuse("stop", rule);
        add(text);
      }
  }
  if (const auto ids = body.find("stop_token_ids")) {
    dom::array list;
    if (ids->get(list) != simdjson::SUCCESS || list.size() > kMostBias)
      refuse("stop_token_ids", "it must be a short list of ids");
    r.stop_ids = ids_in(list, "stop_token_ids");
  }
}

void read_bias(Body& body, ApiRequest& r) {
  const auto bias = body.find("logit_bias");
  if (!bias) return;
  dom::object map;
  if (bias->get(map) != simdjson::SUCCESS || map.size() > kMostBias)
    refuse("logit_bias", fmt::format("it must map at most {} ids to numbers", kMostBias));
  for (const auto field : map) {
    TokenBias one;
    const std::string_view key = field.key;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), one.id);
    if (error != std::errc() || end != key.data() + key.size() || one.id < 0 ||
        field.value.get(one.bias) != simdjson::SUCCESS || !(std::abs(one.bias) <= 100))
      refuse("logit_bias", "it maps ids to numbers from -100 to 100");
    r.bias.push_back(one);
  }
}

void read_logprobs(Body& body, ApiRequest& r, bool chat) {
  constexpr int64_t kMost = 20;
  if (!chat) {
    const auto count = body.integer("logprobs", 0, kMost);
    r.logprobs = count.has_value(), r.alternatives = count.value_or(0);
    return;
  }
  r.logprobs = body.flag("logprobs").value_or(false);
  const auto count = body.integer("top_logprobs", 0, kMost);
  if (count && !r.logprobs) refuse("top_logprobs", "it needs \"logprobs\": true");
  r.alternatives = count.value_or(0);
}

// Reads fields that Ravine ignores, or that may only have the value that does not change the result.
void read_neutral(Body& body, ApiRequest& r, bool chat) {
  for (const char* key : {"user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key"}) body.find(key);
  if (const auto options = body.find("stream_options")) {
    dom::object object;
    if (options->get(object) != simdjson::SUCCESS) refuse("stream_options", "it must be an object");
    bool usage = false;
    if (object.at_key("include_usage").get(usage) == simdjson::SUCCESS) r.usage = usage;
  }
  auto must_be = [&](const char* key, bool neutral, const char* rule) {
    if (!neutral) refuse(key, rule);
  };
  if (!chat) {
    must_be("echo", !body.flag("echo").value_or(false), "the prompt is not repeated here");
    must_be("suffix", body.text("suffix").value_or("").empty(), "nothing is put in between here");
    const auto best = body.integer("best_of", 1, static_cast<int64_t>(kMostChoices));
    must_be("best_of", !best || *best == r.n, "all n texts are given here");
    return;
  }
  for (const char* key : {"tools", "functions"}) {
    dom::array list;
    const auto value = body.find(key);
    must_be(key, !value || (value->get(list) == simdjson::SUCCESS && list.size() == 0), "no tools are called here");
  }
  body.find("tool_choice"), body.find("function_call"), body.find("parallel_tool_calls");
  if (const auto format = body.find("response_format")) {
    dom::object object;
    std::string_view type;
    must_be("response_format",
            format->get(object) == simdjson::SUCCESS && object.at_key("type").get(type) == simdjson::SUCCESS && type == "text",
            "answers are texts here");
  }
}

// True if the whole of `text` is a number, as JSON has it.
bool is_json_number(std::string_view text) {
  size_t n = text.starts_with('-') ? 1 : 0;
  const auto digits = [&] {
    const size_t begin = n;
    while (n < text.size() && text[n] >= '0' && text[n] <= '9') ++n;
    return n > begin;
  };
  const size_t first = n;
  if (!digits() || (text[first] == '0' && n > first + 1)) return false;
  if (n < text.size() && text[n] == '.' && (++n, !digits())) return false;
  if (n < text.size() && (text[n] == 'e' || text[n] == 'E')) {
    ++n;
    if (n < text.size() && (text[n] == '+' || text[n] == '-')) ++n;
    if (!digits()) return false;
  }
  return n == text.size();
}

// A number that the parser takes in the place of one that fits neither 64 bits nor a double.
std::string number_that_fits(const std::string& number) {
  const bool minus = number[0] == '-';
  if (std::isinf(std::strtod(number.c_str(), nullptr))) return minus ? "-1e308" : "1e308";
  if (number.find_first_of(".eE") != std::string::npos) return number;
  uint64_t magnitude = 0;
  const auto read = std::from_chars(number.data() + minus, number.data() + number.size(), magnitude);
  const bool fits = read.ec == std::errc() && (!minus || magnitude <= uint64_t{1} << 63);
  return fits ? number : number + ".0";
}

// Returns a JSON text in which numbers beyond 64 bits are written as reals, so that the parser reads them. The rule of
// the field then refuses such a number by name.
std::string with_numbers_that_fit(std::string_view text) {
  std::string out;
  bool quoted = false;
  for (size_t i = 0; i < text.size();) {
    const size_t end = quoted || (text[i] != '-' && (text[i] < '0' || text[i] > '9'))
                           ? i
                           : std::min(text.find_first_not_of("0123456789+-.eE", i), text.size());
    if (end > i) {
      const std::string word(text.substr(i, end - i));
      out += is_json_number(word) ? number_that_fits(word) : word;
      i = end;
      continue;
    }
    if (quoted && text[i] == '\\' && i + 1 < text.size())
      out += text[i++];
    else if (text[i] == '"')
      quoted = !quoted;
    out += text[i++];
  }
  return out;
}

}  // namespace

ApiRequest parse_api_request(const std::string& sent, bool chat) {
  std::string text = sent;
  dom::parser parser;
  dom::element root;
  if (parser.allocate(std::max<size_t>(text.size(), 1), kDepth) != simdjson::SUCCESS)
    throw ApiError(503, "there is no memory for the request");
  auto error = parser.parse(text).get(root);
  if (error == simdjson::NUMBER_ERROR) {
    text = with_numbers_that_fit(text);
    if (parser.allocate(text.size(), kDepth) != simdjson::SUCCESS) throw ApiError(503, "there is no memory for the request");
    error = parser.parse(text).get(root);
  }
  if (error != simdjson::SUCCESS)
    throw ApiError(400, fmt::format("the body is not valid JSON: {}", simdjson::error_message(error)), "", "invalid_json");
  dom::object object;
  if (root.get(object) != simdjson::SUCCESS) throw ApiError(400, "the body must be a JSON object", "", "invalid_json");
  Body body(object);
  ApiRequest r;
  r.model = body.text("model").value_or("");
  if (chat)
    read_messages(body, sent, r);
  else
    read_prompts(body, r);
  r.max_tokens = body.integer("max_tokens", 1, INT32_MAX);
  if (chat)
    if (const auto most = body.integer("max_completion_tokens", 1, INT32_MAX)) r.max_tokens = most;
  r.n = body.integer("n", 1, static_cast<int64_t>(kMostChoices)).value_or(1);
  if (r.prompts.size() * static_cast<size_t>(r.n) > kMostChoices)
    refuse("prompt", fmt::format("a request may ask for {} texts at most", kMostChoices));
  if (const auto seed = body.integer("seed", INT64_MIN, INT64_MAX)) r.seed = static_cast<uint64_t>(*seed);
  r.stream = body.flag("stream").value_or(false);
  r.temperature = body.number("temperature", 0, 100);
  r.top_p = body.number("top_p", 0, 1);
  r.top_k = body.integer("top_k", -1, INT32_MAX);
  r.min_p = body.number("min_p", 0, 1);
  r.typical_p = body.number("typical_p", 0, 1);
  r.repetition_penalty = body.number("repetition_penalty", 1e-3, 1e3);
  r.no_repeat_ngram = body.integer("no_repeat_ngram_size", 0, INT32_MAX);
  r.frequency_penalty = body.number("frequency_penalty", -100, 100).value_or(0);
  r.presence_penalty = body.number("presence_penalty", -100, 100).value_or(0);
  read_stops(body, r);
  read_bias(body, r);
  read_logprobs(body, r, chat);
  read_neutral(body, r, chat);
  body.refuse_others();
  return r;
}

bool draws(const ApiRequest& r) { return r.temperature.value_or(1) >= 1e-6; }

Processing processing_of(const ApiRequest& r, const GenerationDefaults& defaults) {
  Processing p = defaults.processing;
  if (!defaults.names_top_k) p.top_k = 0;
  p.temperature = r.temperature.value_or(p.temperature);
  p.top_p = r.top_p.value_or(p.top_p);
  p.top_k = std::max<int64_t>(0, r.top_k.value_or(p.top_k));
  p.min_p = r.min_p.value_or(p.min_p);
  p.typical_p = r.typical_p.value_or(p.typical_p);
  p.repetition_penalty = r.repetition_penalty.value_or(p.repetition_penalty);
  p.no_repeat_ngram = r.no_repeat_ngram.value_or(p.no_repeat_ngram);
  p.frequency_penalty = r.frequency_penalty;
  p.presence_penalty = r.presence_penalty;
  p.bias = r.bias;
  return p;
}

}  // namespace ravine

// Requests as strangers send them: heads of HTTP, bodies of OpenAI's API.
#include <gtest/gtest.h>

#include "serve/http_head.h"
#include "serve/openai_request.h"

namespace ravine {
namespace test_serve {

HttpHead head_of(const std::string& text) { return read_http_head(text, 1000); }

TEST(HttpHead, WhatIsTakenIsHandedOnWithoutHeadersThatAreNotHonoured) {
  const HttpHead head = head_of(
      "POST /v1/completions HTTP/1.1\r\nHost: x\r\nRange: bytes=0-1\r\nContent-Length:  12 \r\nExpect: 100-continue\r\nA:\r\n\r\n");
  EXPECT_EQ(head.refusal, 0);
  EXPECT_EQ(head.length, 12);
  EXPECT_FALSE(head.chunked);
  EXPECT_EQ(head.text, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length:  12 \r\nA:\r\n\r\n");
  EXPECT_TRUE(head_of("POST / HTTP/1.1\r\nTransfer-Encoding: Chunked\r\n\r\n").chunked);
  EXPECT_EQ(head_of("GET / HTTP/1.0\r\n\r\n").refusal, 0);
}

TEST(HttpHead, WhatIsRefused) {
  const std::pair<const char*, int> cases[] = {
      {"", 400},
      {"\r\n", 400},
      {"GET / HTTP/1.1", 400},
      {"GET / HTTP/1.1\r\nA: b\r\n", 400},
      {"GET / HTTP/1.1\nA: b\n\n", 400},
      {"GET /\r\n\r\n", 400},
      {"GET / a HTTP/1.1\r\n\r\n", 400},
      {"GET  HTTP/1.1\r\n\r\n", 400},
      {"GET * HTTP/1.1\r\n\r\n", 400},
      {"G@T / HTTP/1.1\r\n\r\n", 400},
      {"GET /\x01 HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/2\r\n\r\n", 505},
      {"HEAD / HTTP/1.1\r\n\r\n", 405},
      {"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n: b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA : b\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nA: \x7f\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length:\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: +1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 1, 1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
      {"POST / HTTP/1.1\r\nContent-Length: 1001\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", 413},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 501},
      {"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400}};
  for (const auto& [text, status] : cases) EXPECT_EQ(head_of(text).refusal, status) << text;
  std::string many = "GET / HTTP/1.1\r\n";
  for (size_t i = 0; i < kMostHeaders; ++i) many += "A: b\r\n";
  EXPECT_EQ(head_of(many + "\r\n").refusal, 431);
  EXPECT_EQ(head_of("GET /" + std::string(kMostRequestLine, 'a') + " HTTP/1.1\r\n\r\n").refusal, 414);
}

ApiError refusal_of(const std::string& body, bool chat) {
  try {
    parse_api_request(body, chat);
  } catch (const ApiError& e) {
    return e;
  }
  return {0, "taken"};
}

TEST(ApiRequest, FieldsOfCompletions) {
  const ApiRequest r = parse_api_request(
      R"({"model": "m", "prompt": "a", "max_tokens": 5, "n": 2, "seed": -1, "stream": true, "stream_options": {"include_usage": true},
          "stop": "x", "temperature": 0.5, "top_p": 1, "top_k": -1, "min_p": 0.1, "logprobs": 3, "logit_bias": {"7": -100, "8": 1.5},
          "frequency_penalty": 0.25, "user": "me", "echo": false, "suffix": null, "best_of": 2, "stop_token_ids": [4]})",
      false);
  EXPECT_EQ(r.model, "m");
  EXPECT_EQ(std::get<std::string>(r.prompts.at(0)), "a");
  EXPECT_EQ(r.max_tokens, 5);
  EXPECT_EQ(r.n, 2);
  EXPECT_EQ(r.seed, UINT64_MAX);
  EXPECT_TRUE(r.stream && r.usage && r.logprobs);
  EXPECT_EQ(r.alternatives, 3);
  EXPECT_EQ(r.stops, std::vector<std::string>{"x"});
  EXPECT_EQ(r.stop_ids, std::vector<int32_t>{4});
  ASSERT_EQ(r.bias.size(), 2u);
  EXPECT_TRUE(r.bias[0].id == 7 && r.bias[0].bias == -100 && r.bias[1].bias == 1.5);
  EXPECT_TRUE(draws(r));
  GenerationDefaults defaults;
  defaults.processing.top_k = 50, defaults.processing.typical_p = 0.75;
  const Processing p = processing_of(r, defaults);
  EXPECT_TRUE(p.temperature == 0.5 && p.top_k == 0 && p.min_p == 0.1 && p.typical_p == 0.75 && p.frequency_penalty == 0.25);
  EXPECT_FALSE(draws(parse_api_request(R"({"prompt": "a", "temperature": 0})", false)));
}

TEST(ApiRequest, KindsOfPrompts) {
  auto prompts = [](const std::string& text) { return parse_api_request("{\"prompt\": " + text + "}", false).prompts; };
  using Ids = std::vector<int32_t>;
  EXPECT_EQ(std::get<Ids>(prompts("[1, 2]").at(0)), (Ids{1, 2}));
  EXPECT_EQ(prompts("[\"a\", \"b\"]").size(), 2u);
  const auto lists = prompts("[[1], [2, 3]]");
  EXPECT_EQ(std::get<Ids>(lists.at(1)), (Ids{2, 3}));
  for (const char* bad : {"[]", "{}", "1", "null", "[1, \"a\"]", "[-1]", "[1.5]", "[[\"a\"]]", "[null]", "[99999999999]"})
    EXPECT_EQ(refusal_of(std::string("{\"prompt\": ") + bad + "}", false).status, 400) << bad;
}

TEST(ApiRequest, MessagesAreTextsAndPartsOfText) {
  const ApiRequest r = parse_api_request(
      R"({"messages": [{"role": "system", "content": "s"}, {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "name": "x"}],
          "logprobs": true, "top_logprobs": 2, "max_completion_tokens": 9, "tools": [], "response_format": {"type": "text"}})",
      true);
  EXPECT_EQ(r.messages, Json::parse(R"([{"role": "system", "content": "s"}, {"role": "user", "content": "ab", "name": "x"}])"));
  EXPECT_EQ(r.max_tokens, 9);
  EXPECT_EQ(r.alternatives, 2);
}

TEST(ApiRequest, WhatIsRefusedIsNamed) {
  const std::pair<const char*, const char*> fields[] = {{"\"max_tokens\": \"many\"", "max_tokens"},
                                                        {"\"max_tokens\": 0", "max_tokens"},
                                                        {"\"temperature\": -1", "temperature"},
                                                        {"\"temperature\": \"hot\"", "temperature"},
                                                        {"\"top_p\": 1.5", "top_p"},
                                                        {"\"n\": 0", "n"},
                                                        {"\"n\": 1.5", "n"},
                                                        {"\"n\": 1000000", "n"},
                                                        {"\"stop\": [1]", "stop"},
                                                        {"\"stop\": \"\"", "stop"},
                                                        {"\"stream\": 1", "stream"},
                                                        {"\"logprobs\": 21", "logprobs"},
                                                        {"\"logit_bias\": {\"a\": 1}", "logit_bias"},
                                                        {"\"logit_bias\": {\"1\": 101}", "logit_bias"},
                                                        {"\"echo\": true", "echo"},
                                                        {"\"best_of\": 3", "best_of"},
                                                        {"\"unheard\": 1", "unheard"},
                                                        {"\"seed\": 1, \"seed\": 2", "seed"}};
  for (const auto& [field, name] : fields) {
    const ApiError e = refusal_of(std::string("{\"prompt\": \"a\", ") + field + "}", false);
    EXPECT_EQ(e.status, 400) << field;
    EXPECT_EQ(e.param, name) << field << ": " << e.what();
  }
  for (const std::string& body :
       {std::string(), std::string("{"), std::string("[1]"), std::string("\"a\""), std::string("{\"prompt\": \"\xff\"}"),
        std::string(100000, '['), std::string("{\"prompt\": \"a\"} x")})
    EXPECT_EQ(refusal_of(body, false).code, "invalid_json") << body.substr(0, 40);
  EXPECT_EQ(Json::parse(error_body(ApiError(404, "no", "model"))).at("error").at("param"), "model");
  EXPECT_TRUE(Json::parse(error_body(ApiError(404, "no"))).at("error").at("code").is_null());
}

}  // namespace test_serve
}  // namespace ravine

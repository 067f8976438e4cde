// Encodes the documents of a jsonl file once, on one thread, and prints bytes, tokens and CPU seconds.
//   tokenizer_speed TOKENIZER DOCUMENTS.jsonl
#include <cstdio>
#include <ctime>

#include "base/error.h"
#include "data/source.h"
#include "text/tokenizers/open_tokenizer.h"

using namespace ravine;

int main(int count, char** words) try {
  if (count != 3) throw UserError("wrong arguments", "command line", "TOKENIZER DOCUMENTS.jsonl", "give both");
  auto tokenizer = open_tokenizer(words[1]);
  auto reader = open_documents(words[2], "text");
  std::vector<std::string> documents;
  for (std::string text; reader->next(text);) documents.push_back(text);
  size_t bytes = 0, tokens = 0;
  std::clock_t begin = std::clock();
  std::vector<std::vector<int32_t>> ids;
  for (const auto& d : documents) {
    ids.push_back(tokenizer->encode(d, false));
    bytes += d.size();
    tokens += ids.back().size();
  }
  double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  fmt::print("{{\"bytes\":{},\"tokens\":{},\"cpu_seconds\":{}}}\n", bytes, tokens, seconds);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "error: {}\n", e.what());
  return 2;
}

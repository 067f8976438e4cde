#include "data/indexed/indexed_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "model/vocabulary.h"

namespace ravine {

std::unique_ptr<IndexedFile> open_token_file(const std::string& path, int64_t vocabulary) {
  std::string prefix;
  if (!is_indexed_prefix(path, &prefix))
    throw UserError("no token files", path, "PREFIX.bin and PREFIX.idx must be there", indexed_prefix_advice(path));
  auto file = std::make_unique<IndexedFile>(prefix);
  if (file->has_modes())
    throw UserError("multimodal data", prefix + ".idx", "its sequences have modes; text is wanted", "name another file");
  if (file->type() == TokenType::f32 || file->type() == TokenType::f64)
    throw UserError("not token ids", prefix + ".idx",
                    fmt::format("the file holds {}, ids are whole numbers", name(file->type())), "name another file");
  file->check();
  constexpr int64_t kPieces = 64, kPiece = 512;
  for (int64_t i = 0; vocabulary > 0 && i < kPieces && file->tokens() > 0; ++i) {
    const int64_t begin = file->tokens() / kPieces * i;
    std::vector<int32_t> ids(static_cast<size_t>(std::min(kPiece, file->tokens() - begin)));
    file->copy_range(begin, ids);
    check_ids(ids, vocabulary, prefix + ".bin");
    if (file->tokens() < kPiece) break;
  }
  return file;
}

void check_ids(std::span<const int32_t> ids, int64_t vocabulary, const std::string& where) {
  for (int32_t id : ids)
    if (id < 0 || id >= vocabulary)
      throw UserError(fmt::format("token {} is beyond the vocabulary", id), where,
                      fmt::format("the model has ids 0 to {}", vocabulary - 1), more_rows_advice(id));
}

IndexedTokens::IndexedTokens(const std::vector<std::string>& prefixes, int64_t vocabulary) : vocabulary_(vocabulary) {
  require(!prefixes.empty(), "indexed tokens: at least one file, got none");
  int64_t tokens = 0, documents = 0;
  for (const std::string& prefix : prefixes) {
    Part p{open_token_file(prefix, vocabulary), tokens, 0, documents, 0};
    p.tokens_end = tokens += p.file->tokens();
    p.documents_end = documents += p.file->documents();
    parts_.push_back(std::move(p));
  }
}

const IndexedTokens::Part& IndexedTokens::part_of_document(int64_t document) const {
  require(document >= 0 && document < documents(), "indexed tokens: document is 0 to {}, got {}", documents() - 1, document);
  return *std::upper_bound(parts_.begin(), parts_.end(), document,
                           [](int64_t d, const Part& p) { return d < p.documents_end; });
}

const IndexedTokens::Part& IndexedTokens::part_of_token(int64_t token) const {
  require(token >= 0 && token < tokens(), "indexed tokens: token is 0 to {}, got {}", tokens() - 1, token);
  return *std::upper_bound(parts_.begin(), parts_.end(), token, [](int64_t t, const Part& p) { return t < p.tokens_end; });
}

int64_t IndexedTokens::begin_in(const Part& p, int64_t document) {
  const int64_t sequence = p.file->document_begin(document);
  return sequence == p.file->sequences() ? p.file->tokens() : p.file->begin(sequence);
}

int64_t IndexedTokens::begin_of(int64_t document) const {
  const Part& p = part_of_document(document);
  return p.tokens_begin + begin_in(p, document - p.documents_begin);
}

int64_t IndexedTokens::end_of(int64_t document) const {
  const Part& p = part_of_document(document);
  const int64_t begin = begin_in(p, document - p.documents_begin), end = begin_in(p, document - p.documents_begin + 1);
  if (end < begin)
    throw UserError("wrong index", p.file->prefix() + ".idx",
                    fmt::format("document {} ends before it begins", document - p.documents_begin), "make the file again");
  return p.tokens_begin + end;
}

int64_t IndexedTokens::document_at(int64_t token) const {
  const Part& p = part_of_token(token);
  int64_t low = 0, high = p.file->documents();  // the document is in [low, high)
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (begin_in(p, middle) <= token - p.tokens_begin ? low : high) = middle;
  }
  return p.documents_begin + low;
}

std::string IndexedTokens::name_of(int64_t token) const {
  const Part& p = part_of_token(token);
  return fmt::format("{} document {}", p.file->prefix(), document_at(token) - p.documents_begin + 1);
}

void IndexedTokens::copy(int64_t begin, std::span<int32_t> into) const {
  for (size_t done = 0; done < into.size();) {
    const int64_t at = begin + static_cast<int64_t>(done);
    const Part& p = part_of_token(at);
    const auto n = std::min(into.size() - done, static_cast<size_t>(p.tokens_end - at));
    const auto piece = into.subspan(done, n);
    p.file->copy_range(at - p.tokens_begin, piece);
    for (size_t i = 0; i < n; ++i)
      if (piece[i] < 0 || piece[i] >= vocabulary_)
        check_ids(piece.subspan(i, 1), vocabulary_, name_of(at + static_cast<int64_t>(i)));
    done += n;
  }
}

std::string IndexedTokens::origin(int64_t begin, int64_t end) const {
  const std::string first = name_of(begin), last = name_of(std::max(begin, end - 1));
  return first == last ? first : first + " to " + last;
}

}  // namespace ravine

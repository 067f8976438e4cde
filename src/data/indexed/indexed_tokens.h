// Megatron's token files as token documents, for Ravine's order (data/packing.h).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "data/indexed/indexed_file.h"
#include "data/token_store.h"

namespace ravine {

// The concatenated documents of several files, without a copy. Sequences must be stored in document order, as every
// builder writes them. An id outside [0, vocabulary) is a UserError when it is read.
class IndexedTokens final : public TokenDocuments {
 public:
  IndexedTokens(const std::vector<std::string>& prefixes, int64_t vocabulary);
  int64_t tokens() const override { return parts_.back().tokens_end; }
  int64_t documents() const override { return parts_.back().documents_end; }
  int64_t begin_of(int64_t document) const override;
  int64_t end_of(int64_t document) const override;
  int64_t document_at(int64_t token) const override;
  void copy(int64_t begin, std::span<int32_t> into) const override;
  std::string origin(int64_t begin, int64_t end) const override;

 private:
  struct Part {
    std::unique_ptr<IndexedFile> file;
    int64_t tokens_begin = 0, tokens_end = 0, documents_begin = 0, documents_end = 0;
  };
  const Part& part_of_document(int64_t document) const;
  const Part& part_of_token(int64_t token) const;
  static int64_t begin_in(const Part& part, int64_t document);  // counted from the start of the part
  std::string name_of(int64_t token) const;
  std::vector<Part> parts_;
  int64_t vocabulary_;
};

// Opens token files for training. path: PREFIX, PREFIX.bin or PREFIX.idx. The tokens must be whole numbers without
// modes, and the index must be consistent (IndexedFile::check); else a UserError. vocabulary: above 0, up to 64 pieces
// of the file are checked for ids that are not below it, so that files of another tokenizer are usually found before
// training. 0: the ids are not checked.
std::unique_ptr<IndexedFile> open_token_file(const std::string& path, int64_t vocabulary = 0);

// Throws a UserError that names `where` (file and position of the ids) if an id is outside [0, vocabulary).
void check_ids(std::span<const int32_t> ids, int64_t vocabulary, const std::string& where);

}  // namespace ravine

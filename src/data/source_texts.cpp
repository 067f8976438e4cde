#include "data/source_texts.h"

#include <utility>

#include "base/error.h"

namespace ravine {

SourceTexts::SourceTexts(std::vector<std::string> input, std::string text_key)
    : input_(std::move(input)), text_key_(std::move(text_key)) {
  if (input_.empty())
    throw UserError("wrong value of --input", "tokenizer train", "name at least one text file", "write --input so");
}

std::vector<std::string> SourceTexts::files() {
  std::vector<std::string> files;
  for (const std::string& path : input_)
    for (std::string& file : source_files(path)) files.push_back(std::move(file));
  return files;
}

bool SourceTexts::next(std::string& document) {
  if (!files_) {
    files_ = files();
    for (const std::string& file : *files_)
      if (source_kind(file) == SourceKind::fixed)
        throw UserError("not a text file", file, "a tokenizer learns from text", "give .txt or .jsonl files");
  }
  for (; !reader_ || !reader_->next(document); reader_ = open_documents((*files_)[file_++], text_key_, "--text-key"))
    if (file_ == files_->size()) return false;
  return true;
}

}  // namespace ravine

// Reads the documents of sources as training text of a tokenizer.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "text/training/training.h"

namespace ravine {

// The documents of files as the text from which a tokenizer is trained.
class SourceTexts final : public TrainingText {
 public:
  // input: files, globs and folders as in data/source.h; they are opened at the first call of next(). text_key: the
  // field of records that holds the text. An empty list is a UserError.
  SourceTexts(std::vector<std::string> input, std::string text_key);

  // Reads the next document; false at the end. If any source is not text, the first call throws a UserError.
  bool next(std::string& document) override;
  std::vector<std::string> files() override;
  const std::string& name() const override { return input_[0]; }

 private:
  std::vector<std::string> input_;
  std::string text_key_;
  std::optional<std::vector<std::string>> files_;  // not set: not checked yet
  size_t file_ = 0;                                // index of the next file to open
  std::unique_ptr<DocumentReader> reader_;
};

}  // namespace ravine

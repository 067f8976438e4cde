// The documents of sources as the text that a tokenizer learns from.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/source.h"
#include "text/training/training.h"

namespace ravine {

class SourceTexts final : public TrainingText {
 public:
  // `input`: files, globs, folders as in data/source.h; they are looked for when first asked for. `text_key`: of records. None
  // is a UserError.
  SourceTexts(std::vector<std::string> input, std::string text_key);

  bool next(std::string& document) override;  // what is no text is a UserError before the first one
  std::vector<std::string> files() override;
  const std::string& name() const override { return input_[0]; }

 private:
  std::vector<std::string> input_;
  std::string text_key_;
  std::optional<std::vector<std::string>> files_;  // none: not checked yet
  size_t file_ = 0;                                // the next to be opened
  std::unique_ptr<DocumentReader> reader_;
};

}  // namespace ravine

// Where training text comes from: files, globs and folders, read as documents.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

enum class SourceKind { text, jsonl, fixed };  // .txt; .jsonl; a fixed batch file .safetensors

// By the suffix: .txt and .jsonl, also with .gz, .zst or .xz behind; .safetensors. Any other is a UserError.
SourceKind source_kind(const std::string& path);

// The files that a path names, in order: itself; a glob (* ? [..]), sorted; a folder: every text and jsonl file below it,
// sorted by path, others not looked at. Naming nothing is a UserError.
std::vector<std::string> source_files(const std::string& path);

// The documents of one text or jsonl file, in order. Text that is not UTF-8 is a UserError naming file and line. One thread at
// a time.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  virtual bool next(std::string& text) = 0;  // false at the end; documents without text are passed over
  virtual std::string where() const = 0;     // of the last document: "FILE:LINE"
};

// A .txt file is cut into documents at the first blank line after each 64 KiB (so a smaller file is one document); where
// there is none before 1 MiB, at the last line end before that. The documents put together are the file, except for a byte
// order mark. A .jsonl file has one document per line, the string under `text_key`; blank lines are passed over.
std::unique_ptr<DocumentReader> open_documents(const std::string& path, const std::string& text_key);

// One line of a jsonl file.
class JsonlParser {
 public:
  explicit JsonlParser(std::string text_key);
  ~JsonlParser();
  // The text of a line, valid until the next call. What is not an object with that string is a UserError naming `where`.
  std::string_view parse(std::string_view line, const std::string& where);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravine

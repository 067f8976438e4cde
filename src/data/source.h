// Where training text comes from: files, globs and folders, read as documents.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// .txt; .jsonl; .json; .csv; .parquet and .arrow; a .bin/.idx prefix; three of them that are instruction files
// (instruct/instruction_files.h); a fixed batch file .safetensors; a file of MindSpore, by its first bytes
enum class SourceKind { text, jsonl, json, csv, parquet, indexed, instructions, fixed, mindrecord };

// By the suffix, the first five also with .gz, .zst or .xz behind; a prefix is known by its files. Any other is a UserError.
SourceKind source_kind(const std::string& path);

// The files that a path names, in order: itself; a prefix (also written with .bin or .idx, given back without; of instruction
// files what stands before _packed_); a glob (* ? [..]), sorted; a folder: every file of text or records below it, sorted by
// path. There hidden files, descriptions that Hugging Face puts beside data (dataset_info.json, ..) and everything else are not
// looked at. Naming nothing is a UserError.
std::vector<std::string> source_files(const std::string& path);

// Where `path` would be token files that a `preprocess` has not finished: a UserError that says so.
void refuse_unfinished_prefix(const std::string& path);

// The documents of one file of text or records, in order. Text that is not UTF-8 is a UserError naming file and line. One
// thread at a time.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  virtual bool next(std::string& text) = 0;    // false at the end; documents without text are passed over
  virtual std::string where() const = 0;       // of the last document: "FILE:LINE"
  virtual int64_t empty() const { return 0; }  // records passed over so far
};

// A .txt file is cut into documents at the first blank line after each 64 KiB (so a smaller file is one document); where
// there is none before 1 MiB, at the last line end before that. The documents put together are the file, except for a byte
// order mark. Other files have a document per record (data/record_reader.h), the string under `text_key`.
// `asked_by`: the option or flag that gave the key, for messages.
std::unique_ptr<DocumentReader> open_documents(const std::string& path, const std::string& text_key,
                                               const std::string& asked_by = "data.text_key");

// One record.
class JsonlParser {
 public:
  explicit JsonlParser(std::string text_key, std::string asked_by = "data.text_key");
  ~JsonlParser();
  // The text of a line, valid until the next call; none where it is null. What is not an object with that string is a UserError
  // naming `where`.
  std::string_view parse(std::string_view line, const std::string& where);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravine

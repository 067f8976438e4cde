// Finds the files of data sources (files, globs, folders) and reads text and record files as documents.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace ravine {

// Kinds of data, in order: .txt; .jsonl; .json; .csv; .parquet and .arrow; a .bin/.idx prefix; a prefix of three
// instruction files (instruct/instruction_files.h); a fixed batch file .safetensors; a MindRecord file of MindSpore, by
// its first bytes.
enum class SourceKind { text, jsonl, json, csv, parquet, indexed, instructions, fixed, mindrecord };

// Returns the kind of data that a path names, by its suffix. The first five kinds may have .gz, .zst or .xz appended. A
// prefix is recognized by the existing files. Any other path is a UserError.
SourceKind source_kind(const std::string& path);

// Returns the files of a data source, in order. `path` is one of:
//  a file: the file itself
//  a prefix of token files, with or without .bin or .idx: the prefix without them; of instruction files, the part
// before
//  _packed_
//  a glob (* ? [..]): the matching files, sorted
//  a folder: all files of text or records below it, sorted by path; hidden files, the descriptions of Hugging Face
//  (dataset_info.json, ..) and all other files are skipped
// A path without data is a UserError.
std::vector<std::string> source_files(const std::string& path);

// Throws a UserError if `path` is the prefix of token files that `ravine preprocess` has not finished.
void refuse_unfinished_prefix(const std::string& path);

// Reads the documents of one file of text or records, in order. Text that is not UTF-8 is a UserError that names file
// and line. Not thread-safe.
class DocumentReader {
 public:
  virtual ~DocumentReader() = default;
  virtual bool next(std::string& text) = 0;    // reads a document; false at the end. Documents without text are skipped
  virtual std::string where() const = 0;       // the place of the last document: "FILE:LINE"
  virtual int64_t empty() const { return 0; }  // number of documents without text that were skipped so far
};

// Opens a file of text or records, to read its documents.
// A .txt file is cut into documents at the first blank line after each 64 KiB, so a smaller file is one document. If
//  there is no blank line within 1 MiB, it is cut at the last line end before this size. The concatenated documents are
//  the file, without a byte order mark.
// In other files each record is a document (data/record_reader.h): the string under `text_key`. option_name: the option
// or flag that set the key, for messages.
std::unique_ptr<DocumentReader> open_documents(const std::string& path, const std::string& text_key,
                                               const std::string& option_name = "data.text_key");

// Parses the lines of a JSONL file and returns the string under one key.
class JsonlParser {
 public:
  explicit JsonlParser(std::string text_key, std::string option_name = "data.text_key");
  ~JsonlParser();
  // Returns the string under text_key in a line, valid until the next call; empty if the value is null. A line that is
  // not an object with this string is a UserError that names `where`.
  std::string_view parse(std::string_view line, const std::string& where);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ravine

// Corpora to token files: what `ravine preprocess` does.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/hf_dataset.h"
#include "data/indexed/indexed_file.h"
#include "data/preprocess_report.h"
#include "data/record_handler.h"

namespace ravine {

struct PreprocessProgress {
  double bytes = 0, total_bytes = 0;  // of the input files as they lie on disk
  int64_t records = 0, tokens = 0;
};

struct PreprocessOptions {
  std::vector<std::string> inputs;  // files, folders, globs (data/source.h)
  std::vector<RowsOfFile> rows;     // rows of files, in place of inputs (data/hf_dataset.h)
  std::string member;               // of .json files that are one object: the member that holds the records
  std::string output_prefix;
  int workers = 1;           // threads that encode; one more reads and writes
  bool whole_text = false;   // a .txt file is one document; else each line is one
  bool strict = false;       // bad UTF-8 and empty texts are UserErrors, not repaired or left out
  bool overwrite = false;    // replace files of the same name
  bool restart = false;      // forget what an earlier run left
  std::string type;          // "uint16", "int32" ..; empty: the smallest by the vocabulary, as Megatron chooses
  double save_seconds = 10;  // between two points to go on from after a kill
  std::string settings;      // everything else that changes the ids: going on with other settings is a UserError
  std::function<void(const PreprocessProgress&)> progress;  // called on the calling thread now and then; may be empty
  std::function<bool()> stop;                               // asked likewise: true saves and throws Stopped; may be empty
};

// Reads every record once, in order, encodes on `workers` threads and writes PREFIX_<list>_document.bin/.idx for each list of
// the handler; the bytes do not depend on the number of workers. Until all is done the work lies in the folder
// PREFIX.preprocess; the files appear at the end, each .idx after its .bin. After a kill the same call goes on at the last
// save. Memory: about two megabytes of text per worker and its tokens, and what the largest record takes.
PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer, const RecordHandler& handler);

}  // namespace ravine

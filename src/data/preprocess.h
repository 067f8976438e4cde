// Tokenizes a corpus to token files, for `ravine preprocess`.
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
  double bytes = 0, total_bytes = 0;  // bytes of the input files on disk
  int64_t records = 0, tokens = 0;
};

struct PreprocessOptions {
  std::vector<std::string> inputs;  // files, folders, globs (data/source.h)
  std::vector<RowsOfFile> rows;     // rows of files, instead of inputs (data/hf_dataset.h)
  std::string member;               // of .json files with a single object: the member that holds the records
  std::string output_prefix;
  int workers = 1;          // threads that encode; one further thread reads and writes
  bool whole_text = false;  // a .txt file is one document; else each of its lines is one
  // Bad UTF-8 and empty texts are UserErrors; else the former is repaired and the latter are skipped.
  bool strict = false;
  bool overwrite = false;  // replace existing files
  bool restart = false;    // discard the state of an earlier run
  // "uint16", "int32" ..; empty: the smallest type for the vocabulary, as in Megatron.
  std::string type;
  double save_seconds = 10;  // seconds between two saves of the state
  // The other settings that change the ids. To resume with other settings is a UserError.
  std::string settings;
  // Called on the calling thread from time to time; may be empty.
  std::function<void(const PreprocessProgress&)> progress;
  // Called from time to time on the calling thread; true saves the state and throws Stopped. May be empty.
  std::function<bool()> stop;
};

// Reads every record once, in order, encodes on `workers` threads, and writes PREFIX_<list>_document.bin/.idx for each
// list of the handler. The bytes do not depend on the number of workers.
// The work is in the folder PREFIX.preprocess. The files appear when all are complete, each .idx after its .bin. After
// a kill, the same call resumes at the last save.
// Memory: about two megabytes of text per worker with its tokens, and the largest record.
PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer, const RecordHandler& handler);

}  // namespace ravine

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

// The progress of preprocess(), for its callback.
struct PreprocessProgress {
  double bytes = 0, total_bytes = 0;  // bytes of the input files on disk: read so far; in all
  int64_t records = 0, tokens = 0;    // so far
};

// The settings of preprocess().
struct PreprocessOptions {
  std::vector<std::string> inputs;  // files, folders, globs (data/source.h)
  std::vector<RowsOfFile> rows;     // rows of files to read instead of `inputs` (data/hf_dataset.h); empty: `inputs`
  std::string member;               // for .json files with a single object: the member that holds the records; "": none
  std::string output_prefix;
  int workers = 1;          // threads that encode; one further thread reads and writes
  bool whole_text = false;  // true: a .txt file is one document; false: each line of it is a document
  // true: invalid UTF-8 and empty texts are UserErrors. false: invalid UTF-8 is repaired, and empty texts are skipped.
  bool strict = false;
  bool overwrite = false;  // replace existing files
  bool restart = false;    // discard the saved state of an unfinished run
  // Type of the stored tokens: "uint16", "int32" ..; empty: the smallest type for the vocabulary, as in Megatron.
  std::string type;
  double save_seconds = 10;  // seconds between two saves of the state
  // All further settings that change the ids, as text. A saved state with another text cannot be resumed: a UserError.
  std::string settings;
  // Called on the calling thread from time to time; may be empty.
  std::function<void(const PreprocessProgress&)> progress;
  // Called from time to time on the calling thread; true saves the state and throws Stopped. May be empty.
  std::function<bool()> stop;
};

// Tokenizes the records of the input files to token files. Every record is read once, in order, and encoded on
// options.workers threads. Writes OUTPUT_PREFIX_<list>_document.bin/.idx for each list of the handler. The bytes do not
// depend on the number of workers.
// The state and the unfinished files are in the folder OUTPUT_PREFIX.preprocess. The files get their names when all are
// complete, each .idx after its .bin. After a kill, the same call resumes at the last save.
// Memory: about two megabytes of text per worker with its tokens, and the largest record.
PreprocessReport preprocess(const PreprocessOptions& options, const Tokenizer& tokenizer, const RecordHandler& handler);

}  // namespace ravine

#include "text/tokenizer_set.h"

#include "files/atomic.h"
#include "files/file_set.h"
#include "files/tokenizer_files.h"

namespace ravine {

FileSetKind tokenizer_set() { return {"tokenizer", {std::begin(kTokenizerFiles), std::end(kTokenizerFiles)}}; }

std::string tokenizer_journal(const std::string& folder) { return folder + "/tokenizer.replacing"; }

void write_tokenizer(const std::string& folder, const std::vector<std::pair<std::string, std::string>>& files, bool overwrite) {
  create_folders(folder);
  FileSet set(tokenizer_journal(folder), tokenizer_set());
  std::vector<std::string> names;
  for (const auto& [name, text] : files) {
    write_file_atomic(set.folder() + "/" + name, text);
    names.push_back(name);
  }
  set.commit(names, overwrite);
}

}  // namespace ravine

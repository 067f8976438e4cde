#include "apps/commands.h"
#include "base/counted.h"
#include "base/error.h"
#include "base/text.h"
#include "data/indexed/indexed_writer.h"

namespace ravine {
namespace {

struct MergeFlags {
  std::vector<std::string> input;
  std::string output_prefix;
  bool overwrite = false;
  template <class V>
  void each(V&& v) {
    v("input", input, "token files in the order to join them, without .bin and .idx", required() & filled() & reads());
    v("output-prefix", output_prefix, "prefix of the files to write: PREFIX.bin and PREFIX.idx",
      required() & filled() & metavar("PREFIX") & writes());
    v("overwrite", overwrite, "replace existing files of these names");
  }
};

int run_merge(MergeFlags& flags, Config&) {
  refuse_inputs(options_of(flags), "--output-prefix", {flags.output_prefix + ".bin", flags.output_prefix + ".idx"});
  merge_indexed(flags.input, flags.output_prefix, flags.overwrite);
  const IndexedFile out(flags.output_prefix);
  fmt::print("{}: {}, {}, {} ({})\n", escaped(flags.output_prefix), counted(out.documents(), "document"),
             counted(out.sequences(), "sequence"), counted(out.tokens(), "token"), name(out.type()));
  return 0;
}

}  // namespace

Command data_merge_command() {
  return command<MergeFlags>(
      {.name = "data merge",
       .summary = "join .bin/.idx token files into one",
       .example = "ravine data merge --input part0_text_document part1_text_document --output-prefix all_text_document",
       .alone = true,
       .lasting = true},
      "Data", run_merge);
}

}  // namespace ravine

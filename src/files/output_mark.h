// A single file that a flag names as output (`trace --out`, `plot --output`, ..). One that is there already is replaced only if
// the same kind of command has written it, which it says near its beginning, if it is empty, or if the user said --overwrite.
// Whatever else has the name is the user's.
#pragma once
#include <string>
#include <string_view>

#include "files/atomic.h"

namespace ravine {

struct OutputMark {
  const char* kind;       // "a trace", for people
  std::string_view text;  // stands in the first kOutputMarkWithin bytes of each such file, and of no others
};

inline constexpr int64_t kOutputMarkWithin = 1024;

// Metadata of safetensors files; comments of pictures; of .npy files a blank behind the brace of the header, where NumPy never
// writes one.
inline constexpr OutputMark kTraceMark{"a trace", R"("ravine":"trace")"};
inline constexpr OutputMark kReplayMark{"a replay", R"("ravine":"replay")"};
inline constexpr OutputMark kSamplesMark{"samples of `ravine data index`", R"("ravine":"data index")"};
inline constexpr OutputMark kNpyMark{"an array that ravine has written",
                                     std::string_view("\x93NUMPY\x01\x00\x76\x00{ 'descr': '", 22)};
inline constexpr OutputMark kPlotMark{"a picture of `ravine plot`", "<!-- ravine plot -->"};
inline constexpr OutputMark kScheduleMark{"a chart of `ravine plan`", "<!-- ravine plan -->"};
inline constexpr OutputMark kTimelineMark{"a timeline of `ravine bench`", R"({"otherData":{"program":"ravine bench"})"};
inline constexpr OutputMark kPairsMark{"a table of `ravine compare`", "rank,step,micro_batch,phase,path,op,call,tensor,side,"};
inline constexpr OutputMark kVerdictMark{"a verdict of `ravine compare`", R"({"ravine":"compare",)"};
inline constexpr OutputMark kManMark{"a manual page of ravine", "\"Ravine\"\n.SH NAME\nravine"};

// A UserError if `path` is there and must not be replaced; `flag` names the way to say otherwise. Asked before the work begins.
void refuse_other_output(const std::string& path, const OutputMark& mark, bool overwrite);
// The same question for whoever gives the file its name, which may be much later.
MayReplace may_replace_output(const OutputMark& mark, bool overwrite);

}  // namespace ravine

#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/tokenizers/regex.h"

#include <pcre2.h>

#include "base/cut_text.h"
#include "base/error.h"
#include "text/tokenizers/regex_syntax.h"

namespace ravine {

namespace {

constexpr size_t kStack = size_t{8} << 20;
constexpr uint32_t kHeap = uint32_t{1} << 20;  // KiB, for a search that needs more than the stack

std::string pcre_message(int code) {
  PCRE2_UCHAR text[256];
  return pcre2_get_error_message(code, text, sizeof text) > 0 ? reinterpret_cast<char*>(text) : "unknown error";
}

// Called before and after repetitions. The work between two calls is linear in the distance of their positions.
int count_regex_steps(pcre2_callout_block* block, void* data) {
  auto& work = *static_cast<RegexWork*>(data);
  const size_t at = block->current_position;
  work.steps += (at > work.last ? at - work.last : work.last - at) + 1;
  work.last = at;
  return work.steps > work.most ? PCRE2_ERROR_CALLOUT : 0;
}

}  // namespace

RegexScratch::RegexScratch()
    : data_(pcre2_match_data_create(1, nullptr)),
      context_(pcre2_match_context_create(nullptr)),
      stack_(pcre2_jit_stack_create(32 << 10, kStack, nullptr)) {
  require(data_ && context_ && stack_, "regex: out of memory");
  pcre2_jit_stack_assign(context_, nullptr, stack_);
  pcre2_set_callout(context_, count_regex_steps, &work_);
  pcre2_set_match_limit(context_, UINT32_MAX);  // the callout limits the work
  pcre2_set_heap_limit(context_, kHeap);
}

void RegexScratch::start(std::string_view text) { work_ = {0, kRegexSteps * (text.size() + 16), 0}; }

RegexScratch::~RegexScratch() {
  pcre2_match_data_free(data_);
  pcre2_match_context_free(context_);
  pcre2_jit_stack_free(stack_);
}

void Regex::Free::operator()(pcre2_real_code_8* code) const { pcre2_code_free(code); }

Regex::Regex(std::string_view pattern, const std::string& where) : where_(where), shown_(cut_text(pattern, 80)) {
  bool counted = false;
  std::string text = translate_regex(pattern, where, &counted);
  std::unique_ptr<pcre2_compile_context, void (*)(pcre2_compile_context*)> context(pcre2_compile_context_create(nullptr),
                                                                                   pcre2_compile_context_free);
  require(context != nullptr, "regex: out of memory");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), 64);
  pcre2_set_max_pattern_length(context.get(), 1 << 20);
  int error = 0;
  PCRE2_SIZE offset = 0;
  code_.reset(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C | (counted ? 0 : PCRE2_AUTO_CALLOUT),
                    &error, &offset, context.get()));
  if (!code_)
    throw UserError("wrong regular expression", where,
                    fmt::format("'{}': {} at byte {}", shown_text(pattern), pcre_message(error), offset), "correct the file");
  pcre2_jit_compile(code_.get(), PCRE2_JIT_COMPLETE);  // without it the interpreter runs
}

bool Regex::find(std::string_view text, size_t from, RegexScratch& scratch, size_t& begin, size_t& end) const {
  const auto match = [&](uint32_t how) {
    return pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), from, PCRE2_NO_UTF_CHECK | how,
                       scratch.data_, scratch.context_);
  };
  int rc = match(0);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT) rc = match(PCRE2_NO_JIT);  // the interpreter stores its positions on the heap
  if (rc == PCRE2_ERROR_NOMATCH) return false;
  if (rc < 0)
    throw UserError("regular expression takes too much work", fmt::format("{}: '{}'", where_, shown_),
                    rc == PCRE2_ERROR_CALLOUT
                        ? fmt::format("at most {} steps per byte of text, here {} for {} bytes", kRegexSteps,
                                      scratch.work_.steps, text.size())
                        : fmt::format("{}, at byte {} of a text of {} bytes", pcre_message(rc), from, text.size()),
                    "use another tokenizer, or cut the text into shorter documents");
  const PCRE2_SIZE* at = pcre2_get_ovector_pointer(scratch.data_);
  begin = at[0];
  end = at[1];
  if (begin > end) begin = end;  // \K in a lookahead
  return true;
}

}  // namespace ravine

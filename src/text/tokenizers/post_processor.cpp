#include "text/tokenizers/post_processor.h"

#include <utility>

#include "base/error.h"
#include "text/tokenizers/vocabulary.h"

namespace ravine {

namespace {

constexpr size_t kMostAround = 1024;  // limit of the tokens around a text

int32_t second_as_id(const JsonView& pair) {  // ["</s>", 2]
  int32_t id = -1;
  size_t i = 0;
  pair.each([&](const JsonView& j) {
    if (i++ == 1) id = static_cast<int32_t>(j.integer(0, kMaxTokenId - 1));
  });
  if (i != 2) pair.wrong("it must be a text and an id");
  return id;
}

// The output of a post-processor, in the order of concatenation. One encoding holds the text, the others hold ids only.
struct Encoding {
  std::vector<int32_t> before, after;
  bool text = false;
};
using Encodings = std::vector<Encoding>;

size_t ids_of(const Encodings& all) {
  size_t n = 0;
  for (const Encoding& e : all) n += e.before.size() + e.after.size();
  return n;
}

// Makes an encoding of each piece of the template. If two are given, from another template, `pair` is used; for more
// the library has no rule.
Encodings by_template(const JsonView& json, const Encodings& given) {
  json.only({"type", "single", "pair", "special_tokens"});
  if (given.size() > 2) json.wrong(fmt::format("a template cannot follow one that makes {} pieces", given.size()));
  const JsonView pieces = json.at(given.size() == 1 ? "single" : "pair");
  auto tokens = json.find("special_tokens");
  Encodings out;
  size_t texts = 0, ids = 0;
  pieces.each([&](const JsonView& piece) {
    if (out.size() >= kMostAround) json.wrong(fmt::format("a template has at most {} pieces", kMostAround));
    if (auto sequence = piece.find("Sequence")) {
      const std::string_view id = sequence->at("id").string();
      const size_t i = id == "A" ? 0 : id == "B" ? 1 : given.size();
      if (i >= given.size() || (given[i].text && ++texts > 1))
        sequence->wrong(given.size() == 1 ? "a text stands once in the template, as A"
                                          : "what comes in stands once in the template, as A and B");
      out.push_back(given[i]);
      if ((ids += ids_of({given[i]})) > kMostAround) json.wrong(fmt::format("at most {} tokens go around a text", kMostAround));
      return;
    }
    JsonView name = piece.at("SpecialToken").at("id");
    auto entry = tokens ? tokens->find(name.string()) : std::nullopt;
    if (!entry) name.wrong(fmt::format("'{}' is not among special_tokens", name.string()));
    out.emplace_back();
    entry->at("ids").each([&](const JsonView& id) {
      if (++ids > kMostAround) json.wrong(fmt::format("at most {} tokens go around a text", kMostAround));
      out.back().before.push_back(static_cast<int32_t>(id.integer(0, kMaxTokenId - 1)));
    });
  });
  if (texts == 0) pieces.wrong("the text itself is not in the template");
  return out;
}

// Puts cls and sep around the first encoding. A further encoding gets sep after it, and with `both` also before it.
Encodings by_cls_and_sep(int32_t cls, int32_t sep, bool both, Encodings all) {
  for (size_t i = 0; i < all.size(); ++i) {
    Encoding& e = all[i];
    if (i == 0 || both) e.before.insert(e.before.begin(), i == 0 ? cls : sep);
    (e.text ? e.after : e.before).push_back(sep);
  }
  return all;
}

Encodings processed(const JsonView& json, int depth, size_t& parts, Encodings given) {
  std::string type = json.text("type", "");
  if (++parts > kMostParts) json.wrong(fmt::format("a tokenizer has at most {} post-processors", kMostParts));
  if (type == "TemplateProcessing") return by_template(json, given);
  if (type == "ByteLevel") {  // offsets only
    json.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return given;
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    json.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return by_cls_and_sep(second_as_id(json.at("cls")), second_as_id(json.at("sep")), type == "RobertaProcessing",
                          std::move(given));
  }
  if (type == "Sequence") {
    json.only({"type", "processors"});
    if (depth >= kDeepestSequence) json.wrong("sequences are nested too deeply");
    json.at("processors").each([&](const JsonView& j) { given = processed(j, depth + 1, parts, std::move(given)); });
    return given;
  }
  json.wrong(fmt::format("the post-processor '{}' is not known", type));
}

}  // namespace

PostProcessor read_post_processor(const JsonView& json) {
  size_t parts = 0;
  PostProcessor p;
  bool behind = false;
  for (const Encoding& e : processed(json, 0, parts, {{{}, {}, true}})) {
    std::vector<int32_t>& ids = behind ? p.after : p.before;
    ids.insert(ids.end(), e.before.begin(), e.before.end());
    p.after.insert(p.after.end(), e.after.begin(), e.after.end());
    behind = behind || e.text;
  }
  return p;
}

}  // namespace ravine

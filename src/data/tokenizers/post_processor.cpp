#include "data/tokenizers/post_processor.h"

#include "base/error.h"
#include "data/tokenizers/vocabulary.h"

namespace ravine {

namespace {

constexpr size_t kMostAround = 1024;  // tokens that a text gets

int32_t second_as_id(const JsonView& pair) {  // ["</s>", 2]
  int32_t id = -1;
  size_t i = 0;
  pair.each([&](const JsonView& j) {
    if (i++ == 1) id = static_cast<int32_t>(j.integer(0, kMaxTokenId - 1));
  });
  if (i != 2) pair.wrong("it must be a text and an id");
  return id;
}

PostProcessor read_template(const JsonView& json) {
  json.only({"type", "single", "pair", "special_tokens"});
  PostProcessor p;
  bool text = false;
  auto tokens = json.find("special_tokens");
  size_t pieces = 0;
  json.at("single").each([&](const JsonView& piece) {
    if (++pieces > kMostAround) json.wrong(fmt::format("a template has at most {} pieces", kMostAround));
    if (auto sequence = piece.find("Sequence")) {
      if (sequence->at("id").string() != "A" || text) sequence->wrong("a text stands once in the template, as A");
      text = true;
      return;
    }
    JsonView name = piece.at("SpecialToken").at("id");
    auto entry = tokens ? tokens->find(name.string()) : std::nullopt;
    if (!entry) name.wrong(fmt::format("'{}' is not among special_tokens", name.string()));
    entry->at("ids").each([&](const JsonView& id) {
      if (p.before.size() + p.after.size() >= kMostAround) json.wrong(fmt::format("at most {} tokens go around a text", kMostAround));
      (text ? p.after : p.before).push_back(static_cast<int32_t>(id.integer(0, kMaxTokenId - 1)));
    });
  });
  if (!text) json.at("single").wrong("the text itself is not in the template");
  return p;
}

PostProcessor post_processor_of(const JsonView& json, int depth, size_t& parts) {
  std::string type = json.text("type", "");
  if (++parts > kMostParts) json.wrong(fmt::format("a tokenizer has at most {} post-processors", kMostParts));
  if (type == "TemplateProcessing") return read_template(json);
  if (type == "ByteLevel") {  // offsets only
    json.only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
    return {};
  }
  if (type == "BertProcessing" || type == "RobertaProcessing") {
    json.only({"type", "sep", "cls", "trim_offsets", "add_prefix_space"});
    return {{second_as_id(json.at("cls"))}, {second_as_id(json.at("sep"))}};
  }
  if (type == "Sequence") {
    json.only({"type", "processors"});
    if (depth >= kDeepestSequence) json.wrong("sequences are nested too deeply");
    PostProcessor all;
    json.at("processors").each([&](const JsonView& j) {
      PostProcessor p = post_processor_of(j, depth + 1, parts);
      all.before.insert(all.before.begin(), p.before.begin(), p.before.end());
      all.after.insert(all.after.end(), p.after.begin(), p.after.end());
    });
    return all;
  }
  json.wrong(fmt::format("the post-processor '{}' is not known", type));
}

}  // namespace

PostProcessor read_post_processor(const JsonView& json) {
  size_t parts = 0;
  return post_processor_of(json, 0, parts);
}

}  // namespace ravine

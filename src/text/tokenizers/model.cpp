#include "text/tokenizers/model.h"

#include <algorithm>

#include "base/error.h"

namespace ravine {

namespace {

Vocabulary read_vocabulary(const JsonView& json) {
  Vocabulary v;
  for (auto [key, value] : json.object()) {
    int64_t id = 0;
    if (value.get_int64().get(id) || id < 0 || id >= kMaxTokenId) json.child(value, key).integer(0, kMaxTokenId - 1);
    v.add(key, static_cast<int32_t>(id));
  }
  v.freeze();
  return v;
}

std::unique_ptr<TokenModel> read_bpe(const JsonView& json, bool bytes) {
  json.only({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback",
             "ignore_merges", "vocab", "merges"});
  if (auto dropout = json.find("dropout"); dropout && dropout->number() != 0)
    dropout->wrong("dropout makes other ids each time and is not supported; set it to null");
  BpeOptions o;
  o.unk_token = json.text("unk_token", "");
  o.prefix = json.text("continuing_subword_prefix", "");
  o.suffix = json.text("end_of_word_suffix", "");
  o.fuse_unk = json.flag("fuse_unk", false);
  o.byte_fallback = json.flag("byte_fallback", false);
  o.ignore_merges = json.flag("ignore_merges", false);
  o.bytes = bytes;
  std::vector<std::pair<std::string_view, std::string_view>> merges;
  JsonView list = json.at("merges");
  for (auto m : list.array()) {
    std::string_view text;
    simdjson::dom::array pair;
    if (!m.get_string().get(text)) {  // "a b", the older format
      if (text.starts_with("#version")) continue;
      size_t space = text.find(' ');
      if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos)
        list.wrong(fmt::format("merge {} must be two texts with a space between", merges.size()));
      merges.emplace_back(text.substr(0, space), text.substr(space + 1));
    } else {
      std::string_view a, b;
      if (m.get_array().get(pair) || pair.size() != 2 || pair.at(0).get_string().get(a) || pair.at(1).get_string().get(b))
        list.wrong(fmt::format("merge {} must be a pair of texts", merges.size()));
      merges.emplace_back(a, b);
    }
  }
  return make_bpe(read_vocabulary(json.at("vocab")), merges, o, json.where());
}

}  // namespace

Json merges_json(const std::vector<std::pair<std::string, std::string>>& merges) {
  const bool texts = std::none_of(merges.begin(), merges.end(), [](const auto& m) {
    return m.first.find(' ') != std::string::npos || m.second.find(' ') != std::string::npos || m.first.starts_with("#version");
  });
  Json out = Json::array();
  for (const auto& [a, b] : merges) {
    if (texts)
      out.push_back(a + " " + b);
    else
      out.push_back(Json::array({a, b}));
  }
  return out;
}

std::unique_ptr<TokenModel> read_model(const JsonView& json, bool bytes) {
  std::string type = json.text("type", "");
  if (type.empty()) {  // files from before this field existed
    if (json.find("merges"))
      type = "BPE";
    else if (json.at("vocab").is_array())
      type = "Unigram";
    else
      type = json.find("continuing_subword_prefix") ? "WordPiece" : "WordLevel";
  }
  if (type == "BPE") return read_bpe(json, bytes);
  if (type == "Unigram") return make_unigram(json);
  if (type == "WordPiece") {
    json.only({"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"});
    auto longest = json.find("max_input_chars_per_word");
    return make_word_piece(read_vocabulary(json.at("vocab")), json.text("unk_token", "[UNK]"),
                           json.text("continuing_subword_prefix", "##"), longest ? longest->integer(0, INT32_MAX) : 100,
                           json.where());
  }
  json.wrong(fmt::format("the model '{}' is not known", type));
}

}  // namespace ravine

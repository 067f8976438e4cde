#include "config/yaml.h"

#include <fmt/format.h>
#include <yaml.h>

#include <unordered_map>

#include "base/error.h"
#include "base/read_text.h"
#include "config/yaml_slips.h"

namespace ravine {
namespace {

struct Event {
  yaml_event_t raw{};
  ~Event() { yaml_event_delete(&raw); }
};

std::string_view view(const yaml_char_t* text) { return text ? reinterpret_cast<const char*>(text) : std::string_view(); }

class Reader {
 public:
  Reader(std::string_view text, const std::string& name, bool lines) : text_(text), name_(name), lines_(lines) {
    require(yaml_parser_initialize(&parser_) == 1, "yaml: no memory for a parser");
    yaml_parser_set_input_string(&parser_, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  }
  ~Reader() { yaml_parser_delete(&parser_); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  YamlNode::Ptr document() {
    Event start, first;
    next(start);
    next(first);
    if (first.raw.type == YAML_STREAM_END_EVENT) return std::make_shared<YamlNode>();
    Event content;
    next(content);
    YamlNode::Ptr root = node(content.raw, 0);
    Event end, last;
    next(end);
    next(last);
    if (last.raw.type != YAML_STREAM_END_EVENT)
      refuse(last.raw.start_mark, "a second document", "a file holds one document",
             "remove everything from the second '---' on");
    return root;
  }

 private:
  [[noreturn]] void refuse(const yaml_mark_t& mark, const std::string& what, const std::string& rule, const std::string& fix) {
    throw UserError(what, lines_ ? fmt::format("{}:{}", name_, mark.line + 1) : name_, rule, fix);
  }

  void next(Event& event) {
    if (yaml_parser_parse(&parser_, &event.raw)) return;
    require(parser_.error != YAML_MEMORY_ERROR, "yaml: out of memory");
    std::string problem = parser_.problem ? parser_.problem : "unreadable";
    bool in_text = parser_.error != YAML_READER_ERROR;
    std::string fix = "check indentation, brackets and quotes";
    if (!in_text) fix = "save the file as UTF-8 text";
    const std::string about = problem + (parser_.context ? parser_.context : "");
    if (about.find("anchor") != std::string::npos || about.find("alias") != std::string::npos)
      fix = lines_ ? "put values that start with * or & in quotes: ['*.txt']"
                   : "values that start with * or & stand in quotes of YAML, within quotes of the shell: \"['*.txt']\"";
    if (about.find("cannot start any token") != std::string::npos && at_tab()) fix = "indent with blanks: YAML takes no tabs";
    if (lines_ && in_text) {
      if (const LookAlikeLine slip = find_look_alike_line(text_); slip.number > 0)
        throw UserError("not valid YAML", fmt::format("{}:{}", name_, slip.number), slip.what,
                        fmt::format("write with plain characters: {}", slip.corrected.substr(0, 200)));
      if (const LookAlikeLine dash = find_dash_line(text_); dash.number > 0)
        throw UserError("not valid YAML", fmt::format("{}:{}", name_, dash.number), dash.what,
                        fmt::format("write {}", dash.corrected.substr(0, 200)));
    }
    yaml_mark_t mark = in_text ? parser_.problem_mark : parser_.mark;
    refuse(mark, "not valid YAML", lines_ && in_text ? fmt::format("{} at column {}", problem, mark.column + 1) : problem, fix);
  }

  bool at_tab() const { return parser_.problem_mark.index < text_.size() && text_[parser_.problem_mark.index] == '\t'; }

  YamlNode::Ptr node(yaml_event_t& e, int depth) {
    if (e.type == YAML_ALIAS_EVENT) return alias(e);
    if (depth > kYamlDepth)
      refuse(e.start_mark, "nested too deep", fmt::format("at most {} levels", kYamlDepth), "flatten the document");
    auto made = std::make_shared<YamlNode>();
    made->line = lines_ ? static_cast<int>(e.start_mark.line) + 1 : 0;
    std::string anchor;
    if (e.type == YAML_SCALAR_EVENT) {
      anchor = view(e.data.scalar.anchor);
      scalar(e, *made);
    } else if (e.type == YAML_SEQUENCE_START_EVENT) {
      anchor = view(e.data.sequence_start.anchor);
      collection_tag(e, view(e.data.sequence_start.tag), "tag:yaml.org,2002:seq");
      if (!anchor.empty()) anchors_[anchor] = nullptr;
      list(*made, depth);
    } else {
      anchor = view(e.data.mapping_start.anchor);
      collection_tag(e, view(e.data.mapping_start.tag), "tag:yaml.org,2002:map");
      if (!anchor.empty()) anchors_[anchor] = nullptr;
      map(*made, depth);
    }
    if (!anchor.empty()) anchors_[anchor] = made;
    return made;
  }

  YamlNode::Ptr alias(yaml_event_t& e) {
    std::string anchor(view(e.data.alias.anchor));
    auto found = anchors_.find(anchor);
    if (found == anchors_.end())
      refuse(e.start_mark, fmt::format("alias *{}", anchor), "no such anchor before it",
             "define &" + anchor + " first, or put values that start with * in quotes: ['*" + anchor + "']");
    if (!found->second)
      refuse(e.start_mark, fmt::format("alias *{}", anchor), "it stands inside the value it names", "remove the loop");
    return found->second;
  }

  void scalar(yaml_event_t& e, YamlNode& made) {
    std::string_view text(reinterpret_cast<const char*>(e.data.scalar.value), e.data.scalar.length);
    std::string_view tag = view(e.data.scalar.tag);
    int line = made.line;
    if (tag.empty() ? e.data.scalar.plain_implicit
                    : tag == "tag:yaml.org,2002:null" || tag == "tag:yaml.org,2002:bool" || tag == "tag:yaml.org,2002:int" ||
                          tag == "tag:yaml.org,2002:float") {
      made = resolve_scalar(text);
      if (tag == "tag:yaml.org,2002:float" && made.kind == YamlNode::Kind::integer) made.kind = YamlNode::Kind::real;
      using K = YamlNode::Kind;
      K requested = tag.ends_with(":null")    ? K::null
                    : tag.ends_with(":bool")  ? K::boolean
                    : tag.ends_with(":int")   ? K::integer
                    : tag.ends_with(":float") ? K::real
                                              : made.kind;
      if (requested != made.kind)
        refuse(e.start_mark, fmt::format("'{}'", text.substr(0, 80)), fmt::format("not of its tag {}", tag), "remove the tag");
    } else if (tag.empty() || tag == "!" || tag == "tag:yaml.org,2002:str") {
      made.kind = YamlNode::Kind::text;
      made.text = std::string(text);
    } else {
      unknown_tag(e, tag);
    }
    made.line = line;
  }

  [[noreturn]] void unknown_tag(yaml_event_t& e, std::string_view tag) {
    refuse(e.start_mark, fmt::format("tag {}", tag.substr(0, 80)), "only the tags of plain YAML are read", "remove the tag");
  }

  void collection_tag(yaml_event_t& e, std::string_view tag, std::string_view allowed) {
    if (!tag.empty() && tag != "!" && tag != allowed) unknown_tag(e, tag);
  }

  void add_size(const yaml_event_t& e, YamlNode& made, int64_t more) {
    made.size += more;  // each term is at most kYamlNodes: no overflow
    if (made.size > kYamlNodes)
      refuse(e.start_mark, "too many values", fmt::format("at most {} with aliases expanded", kYamlNodes),
             "shorten the document");
  }

  void list(YamlNode& made, int depth) {
    made.kind = YamlNode::Kind::list;
    for (;;) {
      Event e;
      next(e);
      if (e.raw.type == YAML_SEQUENCE_END_EVENT) return;
      made.items.push_back(node(e.raw, depth + 1));
      add_size(e.raw, made, made.items.back()->size);
    }
  }

  void map(YamlNode& made, int depth) {
    made.kind = YamlNode::Kind::map;
    std::unordered_map<std::string, size_t> index_of;
    std::unordered_map<std::string, int> key_line;
    auto put = [&](const std::string& key, YamlNode::Ptr value, bool replace) {
      auto [at, fresh] = index_of.emplace(key, made.fields.size());
      if (fresh)
        made.fields.emplace_back(key, std::move(value));
      else if (replace)
        made.fields[at->second].second = std::move(value);
    };
    std::vector<std::vector<YamlNode::Ptr>> merged;  // later entries win; within a list, earlier ones
    for (;;) {
      Event k, v;
      next(k);
      if (k.raw.type == YAML_MAPPING_END_EVENT) break;
      YamlNode::Ptr key = node(k.raw, depth + 1);
      if (!key->scalar())
        refuse(k.raw.start_mark, "a key that is a list or map", "keys are plain words", "check indentation and brackets");
      bool merge = k.raw.type == YAML_SCALAR_EVENT && k.raw.data.scalar.plain_implicit && key->text == "<<";
      next(v);
      YamlNode::Ptr value = node(v.raw, depth + 1);
      if (v.raw.type == YAML_SCALAR_EVENT && v.raw.data.scalar.length == 0) refuse_cut_number(k.raw, *key, made);
      add_size(v.raw, made, value->size);
      if (!merge && lines_ && index_of.contains(key->text))
        refuse(k.raw.start_mark, fmt::format("'{}' a second time", key->text.substr(0, 80)),
               fmt::format("a key stands once, the first is in line {}", key_line.at(key->text)),
               "write what both hold under one, or remove one");
      if (!merge) {
        key_line.emplace(key->text, key->line);
        put(key->text, value, true);
      } else if (value->kind == YamlNode::Kind::map) {
        merged.push_back({value});
      } else {
        bool maps = value->kind == YamlNode::Kind::list;
        for (const YamlNode::Ptr& item : value->items) maps = maps && item->kind == YamlNode::Kind::map;
        if (!maps)
          refuse(v.raw.start_mark, "merge key <<", "its value must be a map or a list of maps",
                 "name an anchor of a map: <<: *name");
        merged.push_back(value->items);
      }
    }
    for (auto list = merged.rbegin(); list != merged.rend(); ++list)
      for (const YamlNode::Ptr& m : *list)
        for (const auto& [key, value] : m->fields) put(key, value, false);
  }

  // Refuses {steps: 1,000}: in YAML the comma ends the value, and the rest is a key without a value.
  void refuse_cut_number(const yaml_event_t& event, const YamlNode& key, const YamlNode& map) {
    auto is_digits = [](const std::string& s) { return !s.empty() && s.find_first_not_of("0123456789") == std::string::npos; };
    if (map.fields.empty() || !is_digits(key.text)) return;
    const auto& [name, value] = map.fields.back();
    if (value->kind == YamlNode::Kind::integer && is_digits(value->text))
      refuse(event.start_mark, fmt::format("{}: {},{}", name.substr(0, 80), value->text.substr(0, 80), key.text.substr(0, 80)),
             "a comma ends a value here, and numbers have none in them",
             fmt::format("write {}{}{}", value->text.substr(0, 80), key.text.size() == 3 && value->text != "0" ? "" : ".",
                         key.text.substr(0, 80)));
  }

  yaml_parser_t parser_{};
  std::string_view text_;
  const std::string& name_;
  bool lines_;
  std::unordered_map<std::string, YamlNode::Ptr> anchors_;  // null while the anchored value is read
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : fields)
    if (name == key) return value.get();
  return nullptr;
}

YamlNode::Ptr load_yaml(std::string_view text, const std::string& name, bool lines) {
  if (static_cast<int64_t>(text.size()) > kYamlBytes)
    throw UserError("a YAML text of " + std::to_string(text.size()) + " bytes", name, "at most 4 MiB",
                    "is this the right file?");
  // libyaml compares each directive with all earlier ones, and each tag with all directives.
  constexpr int kDirectives = 64;
  int directives = 0;
  for (size_t at = 0; at != std::string_view::npos && at < text.size();
       at = text.find('\n', at), at += at != std::string_view::npos)
    if (text[at] == '%' && ++directives > kDirectives)
      throw UserError("too many directives", name, fmt::format("at most {} lines begin with %", kDirectives),
                      "is this the right file?");
  if (!lines && text.starts_with('*')) {
    auto glob = std::make_shared<YamlNode>();
    glob->kind = YamlNode::Kind::text;
    glob->text = std::string(text);
    return glob;
  }
  return Reader(text, name, lines).document();
}

YamlNode::Ptr read_yaml(const std::string& path) { return load_yaml(read_text(path, kYamlBytes, "the config"), path); }

}  // namespace ravine

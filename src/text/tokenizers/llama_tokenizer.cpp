#include "text/tokenizers/llama_tokenizer.h"

#include <unordered_map>

#include "base/error.h"
#include "base/philox.h"
#include "files/tokenizer_files.h"
#include "text/tokenizers/llama_settings.h"
#include "text/tokenizers/sentencepiece_model.h"
#include "text/tokenizers/tokenizer_folder.h"

namespace ravine {

namespace {

struct Llama {
  std::string path;
  LlamaSettings settings;
  SentencePieceModel model;
  std::unordered_map<int32_t, const AddedToken*> by_id;
  int64_t size = 0;
  std::string unk_token;
  size_t unk_length = 0;  // number of ids of the unk string as ordinary text
  int32_t mark_id = -1;   // id of the piece that is only the space mark

  const AddedToken* added(int32_t id) const {
    auto it = by_id.find(id);
    return it == by_id.end() ? nullptr : it->second;
  }
  std::vector<int32_t> encode_text(const std::string& text) const;
};

// Transformers' LlamaTokenizer._tokenize: if not legacy, a leading space is kept by encoding the text after a word,
// which is then removed.
std::vector<int32_t> Llama::encode_text(const std::string& text) const {
  if (settings.legacy || !(text.starts_with(kSpaceMark) || text.starts_with(' '))) return model.encode(text);
  auto ids = model.encode(unk_token + text);
  if (ids.size() >= unk_length) ids.erase(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(unk_length));
  return ids;
}

// LlamaTokenizer.convert_tokens_to_string inside PreTrainedTokenizer._decode, one id at a time. Added tokens that are
// not named separate the ids into segments, which are joined by spaces. Named tokens separate a segment into runs of
// pieces.
class LlamaDecoding final : public Decoding {
 public:
  LlamaDecoding(const Llama& llama, bool skip_special) : l_(llama), skip_(skip_special), joiner_(llama.model) {}

  void feed(int32_t id, std::string& out) override {
    base_ = end_ - static_cast<int64_t>(out.size());
    const AddedToken* added = l_.added(id);
    if (!added) piece_of(l_.model, id, l_.path);
    if (!skip_ || !added || !added->special) {
      if (!added)
        feed_piece(l_.model.pieces[static_cast<size_t>(id)], out);
      else if (added->named)
        feed_named(*added, out);
      else
        feed_added(*added, out);
    }
    end_ = at(out);
  }

  void finish(std::string& out) override {
    base_ = end_ - static_cast<int64_t>(out.size());
    bool open = index_ > 0;
    close_run(out);
    if (open && !segment_text_ && joined_) out += ' ';  // an empty last segment is joined too
  }

 private:
  void feed_piece(const SentencePiece& piece, std::string& out) {
    std::string text;
    bool mark = piece.text.starts_with(kSpaceMark);
    if (after_named_ && index_ == 1 && l_.settings.add_prefix_space && !mark) emit(" ", out);
    if (index_ == 0 && mark && l_.settings.add_prefix_space) {
      // Transformers removes the mark from the spelling; the library then looks up the rest.
      std::string_view rest = std::string_view(piece.text).substr(kSpaceMark.size());
      const auto& known =
          l_.model.pieces[static_cast<size_t>(l_.model.processor->PieceToId(absl::string_view(rest.data(), rest.size())))];
      if (known.type == PieceType::unknown)
        joiner_.feed_literal(rest, text);
      else
        joiner_.feed(known, text);
    } else {
      joiner_.feed(piece, text);
    }
    emit(text, out);
    after_named_ = false;
    ++index_;
  }

  void feed_named(const AddedToken& token, std::string& out) {
    close_run(out);
    if (l_.settings.legacy && index_ > 0 && !after_named_) {
      // Legacy puts this space before the run that ends here; text that was already returned stays unchanged.
      if (!segment_text_)
        emit(" ", out);
      else if (run_begin_ >= base_)
        out.insert(static_cast<size_t>(run_begin_ - base_), " ");
    }
    emit(token.content, out);
    run_begin_ = at(out);
    after_named_ = true;
    ++index_;
  }

  void feed_added(const AddedToken& token, std::string& out) {
    close_run(out);
    if (joined_ || segment_text_) out += ' ';
    out += token.content;
    joined_ = true;
    segment_text_ = after_named_ = false;
    index_ = 0;
  }

  void close_run(std::string& out) {
    std::string text;
    joiner_.finish(text);
    emit(text, out);
  }

  void emit(std::string_view text, std::string& out) {
    if (text.empty()) return;
    if (!segment_text_) {
      if (joined_) out += ' ';
      run_begin_ = at(out);
    }
    segment_text_ = true;
    out += text;
  }

  int64_t at(const std::string& out) const { return base_ + static_cast<int64_t>(out.size()); }

  const Llama& l_;
  bool skip_;
  PieceJoiner joiner_;
  int64_t index_ = 0;          // index of the next token in its segment
  bool after_named_ = false;   // the previous token in the segment was a named one
  bool joined_ = false;        // text of an earlier segment or an added token precedes this segment
  bool segment_text_ = false;  // this segment has produced text
  // Positions in the whole text: base_: of out[0]; end_: of its end; run_begin_: of the current run.
  int64_t base_ = 0, end_ = 0, run_begin_ = 0;
};

class LlamaTokenizer final : public Tokenizer {
 public:
  LlamaTokenizer(const std::string& dir, bool any_class) {
    std::string file = find_in_folder(dir, "tokenizer.model");
    l_.path = dir;
    l_.model = load_sentencepiece(file);
    auto piece_id = [&](const std::string& text) {
      int id = l_.model.processor->PieceToId(text);
      return l_.model.pieces[static_cast<size_t>(id)].text == text ? id : -1;
    };
    l_.settings = load_llama_settings(dir, static_cast<int64_t>(l_.model.pieces.size()), piece_id, any_class);
    if (!l_.settings.legacy) l_.model = load_sentencepiece(file, false);
    l_.size = static_cast<int64_t>(l_.model.pieces.size());
    for (const auto& t : l_.settings.added.list()) {
      l_.by_id[t.id] = &t;
      l_.size = std::max<int64_t>(l_.size, int64_t{t.id} + 1);
    }
    special_ = {named("bos_token"), named("eos_token"), named("pad_token"), named("unk_token")};
    if (l_.settings.named.contains("unk_token")) l_.unk_token = l_.settings.named.at("unk_token");
    l_.unk_length = l_.model.encode(l_.unk_token).size();
    l_.mark_id = l_.model.processor->PieceToId(absl::string_view(kSpaceMark.data(), kSpaceMark.size()));
  }

  std::string kind() const override {
    return fmt::format("llama (sentencepiece {}, {})", l_.model.algorithm, l_.settings.legacy ? "legacy" : "not legacy");
  }
  int64_t size() const override { return l_.size; }

  uint64_t fingerprint() const override {
    const auto& s = l_.settings;
    std::string words = fmt::format("{}{}{}{}{}", s.legacy, s.add_bos, s.add_eos, s.add_prefix_space, s.split_special);
    for (const auto& t : s.added.list())
      words += fmt::format(" {}{}{}{}{}{}", t.id, t.lstrip, t.rstrip, t.single_word, t.special, t.content);
    return philox_key(l_.model.checksum, words);
  }

  std::vector<int32_t> encode(std::string_view text, bool add_special) const override {
    const auto& s = l_.settings;
    std::vector<int32_t> ids;
    if (add_special && s.add_bos && special_.bos) ids.push_back(*special_.bos);
    size_t begin = ids.size();
    bool second_special = false;
    encode_parts(with_prefix(text), ids, second_special);
    // Transformers drops the prefix piece if a special token follows it immediately.
    if (!s.legacy && ids.size() > begin + 1 && ids[begin] == l_.mark_id && second_special)
      ids.erase(ids.begin() + static_cast<ptrdiff_t>(begin));
    if (add_special && s.add_eos && special_.eos) ids.push_back(*special_.eos);
    return ids;
  }

  std::unique_ptr<Decoding> start_decoding(bool skip_special) const override {
    return std::make_unique<LlamaDecoding>(l_, skip_special);
  }

  std::string id_to_piece(int32_t id) const override {
    if (const AddedToken* t = l_.added(id)) return t->content;
    return piece_of(l_.model, id, l_.path).text;
  }

 private:
  std::optional<int32_t> named(const char* key) const {
    auto it = l_.settings.named.find(key);
    if (it == l_.settings.named.end()) return std::nullopt;
    return l_.settings.added.by_content(it->second)->id;
  }

  // LlamaTokenizer.tokenize: if not legacy, the space mark is before the whole text only.
  std::string with_prefix(std::string_view text) const {
    if (l_.settings.legacy || text.empty()) return std::string(text);
    std::string t = l_.settings.add_prefix_space ? std::string(kSpaceMark) : "";
    for (size_t at; (at = text.find(kSpaceMark)) != std::string_view::npos; text.remove_prefix(at + kSpaceMark.size())) {
      t += text.substr(0, at);
      t += ' ';
    }
    return t += text;
  }

  void encode_parts(const std::string& text, std::vector<int32_t>& ids, bool& second_special) const {
    if (l_.settings.split_special || text.empty()) {
      if (!text.empty()) append(ids, l_.encode_text(text));
      return;
    }
    size_t begin = ids.size();
    const auto& tokens = l_.settings.added.list();
    for (const auto& part : l_.settings.added.split(text)) {
      if (part.token >= 0) {
        const AddedToken& t = tokens[static_cast<size_t>(part.token)];
        if (ids.size() == begin + 1) second_special = t.special;
        ids.push_back(t.id);
      } else {
        append(ids, l_.encode_text(part.text));
      }
    }
  }

  static void append(std::vector<int32_t>& ids, const std::vector<int32_t>& more) {
    ids.insert(ids.end(), more.begin(), more.end());
  }

  Llama l_;
};

}  // namespace

std::unique_ptr<Tokenizer> open_llama_tokenizer(const std::string& dir, bool any_class) {
  return std::make_unique<LlamaTokenizer>(dir, any_class);
}

}  // namespace ravine

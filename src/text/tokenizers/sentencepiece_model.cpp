#include "text/tokenizers/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>

#include "base/error.h"
#include "base/text.h"
#include "files/checksum.h"
#include "files/compressed.h"
#include "files/protobuf.h"
#include "text/tokenizers/piece_trie.h"
#include "text/tokenizers/precompiled.h"
#include "text/unicode/utf8.h"

namespace ravine {

namespace {

constexpr int64_t kModelLimit = int64_t{256} << 20;

[[noreturn]] void damaged(const std::string& where, const std::string& rule) {
  throw UserError("damaged SentencePiece model", where, rule, "replace the file");
}

using Wire = ProtobufField::Wire;

void want(const ProtobufField& f, Wire wire, const std::string& where) {
  if (f.wire != wire)
    damaged(where,
            fmt::format("field {} has wire type {}, not {}", f.number, static_cast<int>(f.wire), static_cast<int>(wire)));
}

std::optional<uint8_t> byte_of(std::string_view piece) {  // "<0x41>"
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  int v = 0;
  for (char ch : piece.substr(3, 2)) {
    if (ch >= '0' && ch <= '9')
      v = v * 16 + (ch - '0');
    else if (ch >= 'A' && ch <= 'F')
      v = v * 16 + (ch - 'A' + 10);
    else
      return std::nullopt;
  }
  return static_cast<uint8_t>(v);
}

SentencePiece read_piece(ProtobufMessage message, const std::string& where) {
  SentencePiece p;
  while (auto f = message.next()) {
    if (f->number == 1) {
      want(*f, Wire::bytes, where);
      p.text = f->bytes;
    } else if (f->number == 2) {
      want(*f, Wire::fixed32, where);
      if (!std::isfinite(std::bit_cast<float>(static_cast<uint32_t>(f->value))))
        damaged(where, "the score of a piece is not finite");
    } else if (f->number == 3) {
      want(*f, Wire::varint, where);
      if (f->value < 1 || f->value > 6) damaged(where, fmt::format("a piece has the unknown type {}", f->value));
      p.type = static_cast<PieceType>(f->value);
    }
  }
  if (p.text.empty()) damaged(where, "a piece is empty");
  if (p.text.size() > kLongestPiece)
    damaged(where, fmt::format("a piece has {} bytes, at most {} are read", p.text.size(), kLongestPiece));
  if (find_invalid_utf8(p.text) != std::string_view::npos) damaged(where, "a piece is not UTF-8");
  if (p.type == PieceType::byte) {
    auto b = byte_of(p.text);
    if (!b) damaged(where, fmt::format("the byte piece '{}' is not of the form <0x41>", p.text));
    p.byte = *b;
  }
  return p;
}

void read_trainer(ProtobufMessage message, SentencePieceModel& m, const std::string& where) {
  while (auto f = message.next()) {
    if (f->number == 3) {
      want(*f, Wire::varint, where);
      const char* names[] = {"", "unigram", "bpe", "word", "char"};
      if (f->value < 1 || f->value > 4) damaged(where, fmt::format("unknown model type {}", f->value));
      m.algorithm = names[f->value];
    } else if (f->number == 24) {
      want(*f, Wire::varint, where);
      m.whitespace_as_suffix = f->value != 0;
    } else if (f->number == 35) {
      want(*f, Wire::varint, where);
      m.byte_fallback = f->value != 0;
    } else if (f->number == 44) {
      want(*f, Wire::bytes, where);
      if (find_invalid_utf8(f->bytes) != std::string_view::npos) damaged(where, "unk_surface is not UTF-8");
      if (f->bytes.size() > kLongestPiece)
        damaged(where, fmt::format("unk_surface has {} bytes, at most {} are read", f->bytes.size(), kLongestPiece));
      m.unk_surface = f->bytes.substr(0, f->bytes.find('\0'));
    }
  }
}

void read_normalizer(ProtobufMessage message, SentencePieceModel& m, const std::string& where) {
  while (auto f = message.next()) {
    if (f->number == 2) {
      want(*f, Wire::bytes, where);
      if (!f->bytes.empty()) check_precompiled(f->bytes, where);
      m.has_rules = !f->bytes.empty();
      m.rules = f->bytes;
    } else if (f->number == 5) {
      want(*f, Wire::varint, where);
      m.escape_whitespaces = f->value != 0;
    } else if (f->number == 3) {
      want(*f, Wire::varint, where);
      m.add_dummy_prefix = f->value != 0;
    } else if (f->number == 4) {
      want(*f, Wire::varint, where);
      m.remove_extra_whitespaces = f->value != 0;
    }
  }
}

// Repeated messages merge and the last value wins: normalizer_spec {add_dummy_prefix: false}.
const std::string kNoDummyPrefix("\x1A\x02\x18\x00", 4);

std::unique_ptr<sentencepiece::SentencePieceProcessor> open_processor(const std::string& bytes, size_t pieces,
                                                                      const std::string& where) {
  auto processor = std::make_unique<sentencepiece::SentencePieceProcessor>();
  try {
    auto status = processor->LoadFromSerializedProto(bytes);
    if (!status.ok()) damaged(where, status.message());
  } catch (const UserError&) {
    throw;
  } catch (const std::exception& e) {
    damaged(where, e.what());
  }
  if (processor->GetPieceSize() != static_cast<int>(pieces)) damaged(where, "the library counts other pieces");
  return processor;
}

void check_denormalizer(ProtobufMessage message, const std::string& where) {
  while (auto f = message.next())
    if (f->number == 2 && !f->bytes.empty())
      throw UserError("SentencePiece model not supported", where, "rules for denormalisation are not read",
                      "use a model that was trained without them");
}

}  // namespace

SentencePieceModel load_sentencepiece(const std::string& path, bool dummy_prefix) {
  return parse_sentencepiece(read_whole(path, kModelLimit), path, dummy_prefix);
}

SentencePieceModel parse_sentencepiece(std::string bytes, const std::string& where, bool dummy_prefix) {
  SentencePieceModel m;
  m.algorithm = "unigram";  // the format's default
  m.checksum = checksum_of(std::as_bytes(std::span(bytes)));
  if (bytes.empty()) damaged(where, "the file is empty");
  ProtobufMessage message(bytes, where, damaged);
  while (auto f = message.next()) {
    if (f->number >= 1 && f->number <= 5) want(*f, Wire::bytes, where);
    if (f->number == 1) m.pieces.push_back(read_piece(message.in(*f), where));
    if (f->number == 2) read_trainer(message.in(*f), m, where);
    if (f->number == 3) read_normalizer(message.in(*f), m, where);
    if (f->number == 5) check_denormalizer(message.in(*f), where);
  }
  if (m.pieces.empty()) damaged(where, "it holds no pieces");
  if (!dummy_prefix) {
    bytes += kNoDummyPrefix;
    m.add_dummy_prefix = false;
  }
  m.processor = open_processor(bytes, m.pieces.size(), where);
  if (m.algorithm == "bpe" && !m.has_rules && !m.remove_extra_whitespaces && m.escape_whitespaces && !m.whitespace_as_suffix) {
    std::vector<std::string_view> matched;
    for (const SentencePiece& p : m.pieces)
      if (p.type == PieceType::normal || p.type == PieceType::user_defined || p.type == PieceType::unused)
        matched.push_back(p.text);
    m.words = std::make_unique<SentencePieceWords>(matched, !m.byte_fallback,
                                                   open_processor(bytes + kNoDummyPrefix, m.pieces.size(), where));
  }
  return m;
}

std::vector<int32_t> SentencePieceModel::encode(std::string_view text) const {
  std::vector<int> ids;
  if (words) {
    words->encode(text, ids, [&](std::string_view begin, std::vector<int>& out) { encode_whole(begin, out); });
    return ids;
  }
  encode_whole(text, ids);
  return ids;
}

void SentencePieceModel::encode_whole(std::string_view text, std::vector<int32_t>& ids) const {
  auto status = processor->Encode(absl::string_view(text.data(), text.size()), &ids);
  if (!status.ok())
    throw UserError("the tokenizer cannot encode this text", "tokenizer.model", status.ToString(),
                    "the model's rules contradict each other: replace the file");
}

const SentencePiece& piece_of(const SentencePieceModel& model, int32_t id, const std::string& where) {
  if (id < 0 || id >= static_cast<int64_t>(model.pieces.size()))
    throw UserError(fmt::format("token {} is outside the vocabulary", id), where,
                    fmt::format("ids are 0 to {}", model.pieces.size() - 1), "use the tokenizer that made these ids");
  return model.pieces[static_cast<size_t>(id)];
}

void PieceJoiner::take(std::string_view text, std::string& out) {
  any_ = any_ || !text.empty();
  out += text;
}

// Bytes that form no character become U+FFFD. A leading mark is dropped only while there is no text.
void PieceJoiner::begin_piece(std::string& out) {
  for (size_t i = 0; i < bytes_.size(); ++i) take(kReplacement, out);
  bytes_.clear();
  at_begin_ = at_begin_ && !mark_seen_ && !any_;
  mark_seen_ = false;
}

void PieceJoiner::feed(const SentencePiece& piece, std::string& out) {
  if (piece.type == PieceType::byte) {
    bytes_ += static_cast<char>(piece.byte);
    while (!bytes_.empty()) {
      int n = utf8_head(bytes_);
      if (n == 0) break;
      take(n > 0 ? std::string_view(bytes_).substr(0, n) : kReplacement, out);
      bytes_.erase(0, std::max(n, 1));
    }
    return;
  }
  begin_piece(out);
  if (piece.type == PieceType::control) return;
  if (piece.type == PieceType::unknown) return take(model_->unk_surface, out);
  std::string_view text = piece.text;
  if (at_begin_ && (model_->add_dummy_prefix || model_->remove_extra_whitespaces) && text.starts_with(kSpaceMark)) {
    text.remove_prefix(kSpaceMark.size());
    mark_seen_ = !model_->remove_extra_whitespaces;  // otherwise all leading marks are removed
  }
  for (size_t at; (at = text.find(kSpaceMark)) != std::string_view::npos; text.remove_prefix(at + kSpaceMark.size())) {
    take(text.substr(0, at), out);
    take(" ", out);
  }
  take(text, out);
}

void PieceJoiner::feed_literal(std::string_view text, std::string& out) {
  begin_piece(out);
  take(text, out);
}

void PieceJoiner::finish(std::string& out) {
  begin_piece(out);
  at_begin_ = true;
  any_ = false;
}

}  // namespace ravine

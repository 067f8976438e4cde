// Splits a template into tokens (jinja2/lexer.py), with trim_blocks and lstrip_blocks, as in Transformers.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace ravine::jinja {

enum class TokenKind { text, block_begin, block_end, variable_begin, variable_end, name, string, integer, number, op, end };

// A token of a template. line: its line, from 1.
struct Token {
  TokenKind kind;
  std::string text;  // the token as written; of a string: its value without quotes
  int line;
};

// Splits the text of a Jinja template into tokens. Wrong syntax is a TemplateError with the line.
std::vector<Token> lex(std::string_view source);

}  // namespace ravine::jinja

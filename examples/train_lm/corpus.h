// Texts to train a language model on: read, freed of layout, and cut into what is trained on and what is held
// out.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace train_lm {

// Between texts, and around the turns of a conversation (the ChatML form).
inline constexpr std::string_view kEndOfText = "<|endoftext|>", kTurn = "<|im_start|>",
                                  kEndOfTurn = "<|im_end|>";
inline constexpr std::array kControlTokens{kEndOfText, kTurn, kEndOfTurn};

struct Corpus {
  std::string train, held_out;  // with the texts of control tokens
};

// Lines without blanks at their ends, and without more than one blank in a row.
inline std::vector<std::string> clean_lines(std::string_view text) {
  std::vector<std::string> lines(1);
  for (const char c : text) {
    if (c == '\n') {
      lines.emplace_back();
    } else if (c != ' ' && c != '\t' && c != '\r') {
      lines.back() += c;
    } else if (c != '\r' && !lines.back().empty() && lines.back().back() != ' ') {
      lines.back() += ' ';
    }
  }
  for (std::string& line : lines)
    if (line.ends_with(' ')) line.pop_back();
  return lines;
}

// Paragraphs, which empty lines are between. A line that was broken for the width of a page ends with a blank
// instead: one of at least 45 bytes that another follows.
inline std::vector<std::string> paragraphs_of(std::string_view text) {
  std::vector<std::string> out;
  bool is_open = false, is_broken = false;
  for (const std::string& line : clean_lines(text)) {
    if (line.empty()) {
      is_open = false;
      continue;
    }
    if (!is_open)
      out.emplace_back();
    else
      out.back() += is_broken ? ' ' : '\n';
    out.back() += line;
    is_open = true;
    is_broken = line.size() >= 45;
  }
  return out;
}

// Whether most paragraphs begin with a line that names who speaks: "Juliet:".
inline bool is_play(const std::vector<std::string>& paragraphs) {
  const auto speeches = std::count_if(paragraphs.begin(), paragraphs.end(),
                                      [](const std::string& p) { return p.find(":\n") < 40; });
  return static_cast<size_t>(speeches) * 2 > paragraphs.size();
}

// Speeches of a play as turns that user and assistant take.
inline std::string to_conversation(const std::vector<std::string>& speeches) {
  std::string out;
  bool is_answer = false;
  for (const std::string& speech : speeches) {
    const size_t name = speech.find(":\n");
    out += std::string(kTurn) + (is_answer ? "assistant\n" : "user\n");
    out += speech.substr(name < 40 ? name + 2 : 0) + std::string(kEndOfTurn) + "\n";
    is_answer = !is_answer;
  }
  return out;
}

inline std::string to_prose(const std::vector<std::string>& paragraphs) {
  std::string out;
  for (const std::string& p : paragraphs) out += p + "\n\n";
  return out;
}

// Adds a text in stretches of whole paragraphs, of at least `stretch` bytes; of twenty the eleventh is held
// out. Where stretches did not stand next to each other a kEndOfText is between them, and after every few
// turns of a play.
inline void add_text(Corpus& corpus, std::string_view text, size_t stretch = 8192) {
  const std::vector<std::string> paragraphs = paragraphs_of(text);
  const bool play = is_play(paragraphs);
  const size_t wanted = play ? stretch / 8 : stretch;
  std::vector<std::string> open;
  size_t bytes = 0, count = 0;
  const auto close = [&] {
    const bool is_held_out = count % 20 == 10, is_next_held_out = (count + 1) % 20 == 10;
    std::string& to = is_held_out ? corpus.held_out : corpus.train;
    to += play ? to_conversation(open) : to_prose(open);
    if (play || is_held_out || is_next_held_out) to += kEndOfText;
    count++, bytes = 0;
    open.clear();
  };
  for (const std::string& p : paragraphs) {
    open.push_back(p);
    bytes += p.size();
    if (bytes >= wanted) close();
  }
  if (!open.empty()) close();
  if (!corpus.train.ends_with(kEndOfText)) corpus.train += kEndOfText;
}

// What is between the control tokens of a text.
inline std::vector<std::string_view> plain_parts(std::string_view text) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    size_t end = text.size(), length = 0;
    for (const std::string_view token : kControlTokens)
      if (const size_t at = text.find(token); at < end) end = at, length = token.size();
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(end + length);
  }
  return out;
}

}  // namespace train_lm

// From generated text to what a client wants to see apart: answer, reasoning and tool calls.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

// Bytes at the front of `text` that are sure to be no part of a tag: up to the first tag, or to the longest
// end that a tag could begin with if more text comes, which it does not `at_end`. `found` gets the tag that
// follows, or null.
size_t certain_length(std::string_view text, std::span<const std::string_view> tags, bool at_end,
                      const std::string_view** found);

// Cuts a stream of text at the first of several strings, which is not emitted.
class StopStrings {
 public:
  explicit StopStrings(std::vector<std::string> stops);
  // What has become certain.
  std::string push(std::string_view text) { return take(text, false); }
  std::string finish() { return take("", true); }  // what was held back
  // The string that was found; null while there is none. Then all that follows is dropped.
  const std::string* found() const { return found_; }

 private:
  std::string take(std::string_view text, bool at_end);

  std::vector<std::string> stops_;
  std::vector<std::string_view> views_;
  std::string held_;
  const std::string* found_ = nullptr;
};

struct OutputPiece {
  enum class Kind { Content, Reasoning, ToolCall };
  Kind kind = Kind::Content;
  std::string text;       // of content and reasoning
  std::string name;       // of a call
  std::string arguments;  // JSON
};

// Takes text in pieces of any size and emits the same, whatever the pieces are, when those of one kind are
// joined.
class OutputRouter {
 public:
  struct Options {
    bool splits_reasoning = true;      // <think> … </think>
    bool starts_in_reasoning = false;  // the prompt has opened it
    bool finds_calls = true;           // <tool_call> with JSON or XML, and Kimi's sections
  };
  explicit OutputRouter(const Options& options);

  std::vector<OutputPiece> push(std::string_view text);
  // What was held back, and a call that was not closed.
  std::vector<OutputPiece> finish();
  bool has_calls() const { return has_calls_; }
  bool is_in_reasoning() const { return state_ == State::Reasoning; }

  // The prompt ends with the tag that opens reasoning.
  static bool opens_reasoning(std::string_view prompt);
  // A control token that is a tag must come through as text.
  static bool is_tag(std::string_view token);

 private:
  enum class State { Undecided, Reasoning, Content, Call, Section, SectionCall };
  bool step(std::vector<OutputPiece>& out, bool at_end);
  bool pass(std::vector<OutputPiece>& out, OutputPiece::Kind kind, std::span<const std::string_view> tags,
            bool at_end);
  void emit(std::vector<OutputPiece>& out, OutputPiece::Kind kind, std::string_view text);
  bool take_call(std::vector<OutputPiece>& out, std::string_view open, std::string_view close, State after,
                 bool at_end);
  bool take_section(std::vector<OutputPiece>& out, bool at_end);

  Options options_;
  State state_;
  std::string held_;
  bool has_calls_ = false;
  bool skips_blanks_ = false;  // behind a call
};

}  // namespace lathe

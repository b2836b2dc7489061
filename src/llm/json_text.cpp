#include "llm/json_text.h"

#include "base/error.h"

#include <nlohmann/json.hpp>

#include <vector>

namespace lathe {
namespace {

class JsonBounds : public nlohmann::json_sax<nlohmann::json> {
 public:
  JsonBounds(std::string_view what, const JsonLimits& limits) : what_(what), limits_(limits) {}
  bool null() override { return add(); }
  bool boolean(bool) override { return add(); }
  bool number_integer(number_integer_t) override { return add(); }
  bool number_unsigned(number_unsigned_t) override { return add(); }
  bool number_float(number_float_t, const string_t&) override { return add(); }
  bool string(string_t&) override { return add(); }
  bool binary(binary_t&) override { return add(); }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool key(string_t&) override {
    searched_ += ++keys_.back();
    if (keys_.back() > limits_.keys)
      value_error("{} has an object of more than {} keys", what_, limits_.keys);
    if (searched_ > limits_.searched) value_error("{} has too many large objects", what_);
    return true;
  }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }
  bool is_too_deep() const { return is_too_deep_; }

 private:
  bool add() {
    if (++values_ > limits_.values) value_error("{} has more than {} values", what_, limits_.values);
    return true;
  }
  bool open() {
    if (keys_.size() > limits_.depth) return !(is_too_deep_ = true);
    keys_.push_back(0);
    return add();
  }
  bool close() {
    keys_.pop_back();
    return true;
  }
  const std::string_view what_;
  const JsonLimits& limits_;
  bool is_too_deep_ = false;
  int64_t values_ = 0, searched_ = 0;
  std::vector<int64_t> keys_;  // of the containers that are open
};

}  // namespace

bool check_json(std::string_view text, std::string_view what, const JsonLimits& limits) {
  JsonBounds bounds(what, limits);
  nlohmann::json::sax_parse(text, &bounds);
  return !bounds.is_too_deep();
}

nlohmann::ordered_json parse_json(std::string_view text, std::string_view what) {
  try {
    const JsonLimits limits;
    if (!check_json(text, what, limits)) value_error("{} is nested more than {} deep", what, limits.depth);
    return nlohmann::ordered_json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    value_error("{} is no JSON: {}", what, error.what());
  }
}

}  // namespace lathe

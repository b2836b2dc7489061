#pragma once

// Sessions of models that a test has written.

#include "formats/onnx/session.h"

#include <map>
#include <string>
#include <vector>

#include "support/onnx_writer.h"

namespace lathe::test {

// A model of which the session keeps the bytes.
struct Loaded {
  std::string file;
  onnx::Session session;
  explicit Loaded(std::string text)
      : file(std::move(text)), session(onnx::parse_model(std::as_bytes(std::span(file)), "m").or_throw()) {}
  std::vector<float> run(const std::map<std::string, onnx::Value>& inputs) const {
    return session.run(inputs).at(0).tensor().to_vector<float>();
  }
};

}  // namespace lathe::test

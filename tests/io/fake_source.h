// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "kit.h"
#include "refx/source.h"

namespace refx::testing {

// A model's file that is not there.

struct FakeSource : Source {
  std::string file = "model.pt2", in, out, samples;
  std::map<std::string, Range> symbols;
  std::vector<std::string> allowed;

  const std::string& path() const override { return file; }
  std::string_view input_spec() const override { return in; }
  std::string_view output_spec() const override { return out; }
  std::string_view sample_inputs() const override { return samples; }
  const std::map<std::string, Range>& ranges() const override { return symbols; }
  const std::vector<std::string>& allowed_ops() const override { return allowed; }
};

// The model of a text as if it came from this file.
inline Model from_source(std::string_view text, FakeSource source) {
  Model model = parse_filled(text);
  Editor editor(model);
  editor.commit_as_origin(std::make_shared<FakeSource>(std::move(source)));
  return model;
}

// Treespecs, written short.
inline const std::string kLeaf = R"({"type": null, "context": null, "children_spec": []})";
inline std::string spec(const std::string& type, const std::string& context,
                        const std::vector<std::string>& children) {
  std::string all;
  for (const std::string& child : children) all += (all.empty() ? "" : ", ") + child;
  return R"({"type": ")" + type + R"(", "context": )" + context + R"(, "children_spec": [)" + all +
         "]}";
}
inline std::string tuple_spec(const std::vector<std::string>& children) {
  return spec("builtins.tuple", "\"null\"", children);
}
inline std::string dict_spec(const std::vector<std::string>& keys,
                             const std::vector<std::string>& children) {
  std::string context;
  for (const std::string& key : keys)
    context += (context.empty() ? "" : ", ") + ("\\\"" + key + "\\\"");
  return spec("builtins.dict", "\"[" + context + "]\"", children);
}
inline std::string versioned(const std::string& spec) { return "[1, " + spec + "]"; }

}  // namespace refx::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kit.h"

// What the tests of the transformations share: one model text in many variants, and a look at what
// became of it.
namespace refx::testing {

// The text with every first replaced by its second; a first that is not there is a broken test.
inline std::string with(std::string text,
                        std::initializer_list<std::pair<std::string, std::string>> changes) {
  for (const auto& [from, to] : changes) {
    std::size_t at = text.find(from);
    if (at == text.npos) throw std::logic_error("with: there is no '" + from + "' in\n" + text);
    for (; at != text.npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  }
  return text;
}

inline void expect_applies(const std::string& transformation, const std::string& text) {
  expect_applies(transformation, parse_filled(text));
}

// For a model with tensors whose bits cannot be read: what find() says of it.
inline void expect_refusal(const std::string& transformation, const Model& model,
                           const std::string& reason) {
  const Findings findings = find_sites(model, find_transformation(transformation));
  EXPECT_TRUE(findings.sites.empty());
  ASSERT_EQ(findings.refusals.size(), 1u);
  EXPECT_EQ(to_string(findings.refusals[0].reason), reason);
}

inline at::Tensor tensor(const Model& model, std::string_view name) {
  return at::Tensor(model.state().tensor(model.state().find(name)));
}

inline const Node& node(const Model& model, std::string_view name) {
  return model.graph()[model.graph().find(name)];
}

// As an optimizer does it: in place.
inline void train(const Model& model, std::string_view name) {
  const at::NoGradGuard no_grad;
  tensor(model, name).add_(1);
}

inline std::vector<std::string> site_names(const std::string& transformation, const Model& model) {
  std::vector<std::string> names;
  for (const Site& site : find_sites(model, find_transformation(transformation)).sites)
    names.push_back(site.name);
  return names;
}

inline std::vector<std::string> refused_names(const std::string& transformation,
                                              const Model& model) {
  std::vector<std::string> names;
  for (const Refusal& refusal : find_sites(model, find_transformation(transformation)).refusals)
    names.push_back(refusal.site.name);
  return names;
}

using Names = std::vector<std::string>;

}  // namespace refx::testing

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "refx/refx.h"

namespace refx::testing {

// The model of a text, its tensors filled with random numbers that depend on the seed alone:
// variances are positive, integers small.
Model parse_filled(std::string_view text, std::uint64_t seed = 1);
void fill(const Model& model, std::uint64_t seed);

// Random values for the user inputs, from the types of their placeholders.
std::vector<c10::IValue> random_inputs(const Model& model, std::uint64_t seed = 1);

// A model with tensors of its own: running it cannot change another's buffers.
Model deep_copy(const Model& model);

// Everything that exact undo must restore: ids, text (names, order, args, types, metadata, marks),
// and for each tensor its object, bits, strides, storage and requires_grad.
std::string snapshot(const Model& model);
// The same without node ids and tensor identities: for two models that were built separately.
std::string content(const Model& model);

// All tensors of a nest, in order.
std::vector<at::Tensor> tensors_in(const c10::IValue& value);

// What the Error says that `f` throws.
std::string error_of(const std::function<void()>& f);

// Both models on the same inputs: the error of `b` against fp64 is little larger than that of `a`.
void expect_same_results(const Model& a, const Model& b, const std::vector<c10::IValue>& inputs);

// Applies the transformation to the text and compares with the expected text; then validates, runs
// both forms, reverses to the identical model and redoes to the identical result.
// Returns the transformed model.
Model expect_rewritten(const Transformation& transformation, std::string_view before,
                       std::string_view after);
Model expect_rewritten(const std::string& transformation, std::string_view before,
                       std::string_view after);
// The same for a model at hand; any number of sites, but at least one.
void expect_applies(const Transformation& transformation, const Model& model);
void expect_applies(const std::string& transformation, const Model& model);
// A line for each.
std::string told(const std::vector<Refusal>& refusals);
// No site, and a refusal whose reason contains the text, which apply() gives, too; the model stays
// as it is.
void expect_refused(const Transformation& transformation, const Model& model,
                    std::string_view reason);
void expect_refused(const std::string& transformation, const Model& model, std::string_view reason);
void expect_refused(const std::string& transformation, std::string_view text,
                    std::string_view reason);
// Neither a site nor a refusal.
void expect_no_match(const Transformation& transformation, std::string_view text);
void expect_no_match(const std::string& transformation, std::string_view text);

}  // namespace refx::testing

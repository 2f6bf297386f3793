// SPDX-License-Identifier: Apache-2.0

#include "lab/tune/held_out.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "lab/run/run_once.h"
#include "refx/error.h"

namespace refx {

namespace {

constexpr std::size_t kPart = 3;         // one set in three is held out
constexpr std::uint64_t kGenerated = 2;  // sets, if there is only one to choose on

}  // namespace

HeldOut hold_out(const Model& model, const Inputs& first, const std::vector<Inputs>& more,
                 const Measure& measure) {
  HeldOut result{{first}, {}, ""};
  result.choosing.insert(result.choosing.end(), more.begin(), more.end());
  if (!more.empty()) {
    const std::size_t kept =
        result.choosing.size() - std::max<std::size_t>(1, result.choosing.size() / kPart);
    result.proof.assign(result.choosing.begin() + static_cast<std::ptrdiff_t>(kept),
                        result.choosing.end());
    result.choosing.resize(kept);
    return result;
  }
  const bool listed = !first.next.empty() && measure.steps == 0;
  if (listed) result.note = "the calls are given, so no others can be generated";
  for (std::uint64_t i = 1; i <= kGenerated && !listed; ++i) {
    const std::uint64_t seed = measure.seed + i;
    try {
      const Inputs inputs = with_steps(model,
                                       {generated_inputs(model, seed, 0, measure.batch),
                                        fmt::format("generated with seed {}", seed)},
                                       measure.steps, seed);
      run_sequence(model, inputs, measure.seed);
      result.proof.push_back(inputs);
    } catch (const Error& error) {
      result.note = fmt::format("the model does not run on generated inputs: {}", error.what());
    }
  }
  if (!result.proof.empty()) {
    result.note.clear();
  } else {
    result.note += "; so the result was checked on the inputs of the choice: pass more inputs";
    result.proof = result.choosing;
  }
  return result;
}

// "generated with seeds 1, 2" instead of the same words for each.
std::string describe(const std::vector<Inputs>& sets) {
  constexpr std::string_view kSeed = "generated with seed ";
  std::vector<std::string> origins;
  bool seeds = sets.size() > 1;
  for (const Inputs& set : sets) {
    origins.push_back(set.origin);
    // What follows a comma is not part of the seed.
    seeds = seeds && set.origin.starts_with(kSeed) && set.origin.find(',') == std::string::npos;
  }
  if (seeds) {
    for (std::string& origin : origins) origin.erase(0, kSeed.size());
    return fmt::format("generated with seeds {}", fmt::join(origins, ", "));
  }
  return fmt::format("{}", fmt::join(origins, ", "));
}

}  // namespace refx

// SPDX-License-Identifier: Apache-2.0

#include "refx/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "refx/hint.h"
#include "refx/old_names.h"
#include "refx/rule.h"
#include "refx/transforms.h"
#include "rules/shipped.h"
#include "util/did_you_mean.h"

namespace refx {

namespace {

// Inlining comes first, since all others look for what is inside; then rules: what they find
// written out is then found by the others, too.
std::vector<TransformationPtr> shipped() {
  std::vector<TransformationPtr> transformations;
  for (std::string_view text : rules::shipped_texts())
    for (Rule& rule : parse_rules(text))
      transformations.push_back(std::make_shared<Rule>(std::move(rule)));
#define REFX_TRANSFORMATION(Class, Name, Numerics, Summary, ...) \
  transformations.push_back(std::make_shared<Class>());
#include "refx/registry.def"
#undef REFX_TRANSFORMATION
  const auto inlining =
      std::find_if(transformations.begin(), transformations.end(),
                   [](const auto& one) { return one->name() == InlineSubgraphs().name(); });
  std::rotate(transformations.begin(), inlining, inlining + 1);
  return transformations;
}

std::vector<TransformationPtr>& all() {
  static std::vector<TransformationPtr> transformations = shipped();
  return transformations;
}

// The places of names among them: rules of a user may be thousands.
std::unordered_map<std::string, std::size_t>& places() {
  static std::unordered_map<std::string, std::size_t> places = [] {
    std::unordered_map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < all().size(); ++i) places.emplace(all()[i]->name(), i);
    return places;
  }();
  return places;
}

std::mutex& changing() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

const std::vector<TransformationPtr>& registry() { return all(); }

namespace {

// A former name finds the rule of the current one, also when a user's rule has replaced that.
TransformationPtr* lookup(std::string_view name) {
  auto found = places().find(std::string(name));
  if (found == places().end()) found = places().find(std::string(current_name(name)));
  return found == places().end() ? nullptr : &all()[found->second];
}

TransformationPtr find(std::string_view name) {
  const std::scoped_lock lock(changing());
  if (const TransformationPtr* found = lookup(name)) return *found;
  std::vector<std::string> names;
  for (const auto& transformation : registry()) names.push_back(transformation->name());
  for (const OldName& known : old_names()) names.emplace_back(known.old);
  const std::string near(current_name(nearest(name, names)));
  const std::string problem = fmt::format("there is no transformation '{}'", name);
  if (near.empty()) throw HintedError(problem, Hint::see_transformations);
  throw Error(fmt::format("{}; did you mean '{}'?", problem, near));
}

}  // namespace

const Transformation* lookup_transformation(std::string_view name) {
  const std::scoped_lock lock(changing());
  const TransformationPtr* found = lookup(name);
  return found ? found->get() : nullptr;
}

// What was registered since, or in its place, does not count.
bool ships_as_exact(std::string_view name) {
  static const std::set<std::string, std::less<>> kNames = [] {
    std::set<std::string, std::less<>> names;
    for (const TransformationPtr& transformation : shipped())
      if (transformation->preserves_computation()) names.insert(transformation->name());
    return names;
  }();
  return kNames.contains(current_name(name));
}

const Transformation& find_transformation(std::string_view name) { return *find(name); }

std::vector<TransformationPtr> find_transformations(const std::vector<std::string>& names) {
  std::vector<TransformationPtr> found;
  for (const std::string& name : names) {
    if (name != kAll) {
      found.push_back(find(name));
      continue;
    }
    const std::scoped_lock lock(changing());
    for (const TransformationPtr& transformation : registry())
      if (transformation->in_all()) found.push_back(transformation);
  }
  return found;
}

namespace {

void register_in_place_of(TransformationPtr transformation,
                          bool (*gives_way)(const Transformation&)) {
  if (transformation->name() == kAll)
    throw Error(fmt::format("a transformation cannot be called '{}': that means every one", kAll));
  const std::scoped_lock lock(changing());
  const std::string name = transformation->name();
  TransformationPtr* other = lookup(name);
  if (other && (*other)->name() != name && !gives_way(**other))
    other = nullptr;  // a former name is free
  if (!other) {
    places().emplace(name, all().size());
    return all().push_back(std::move(transformation));
  }
  if (!gives_way(**other))
    throw Error(fmt::format("a transformation '{}' is already registered", name));
  static std::vector<TransformationPtr> replaced;  // who has found one may go on with it
  replaced.push_back(std::exchange(*other, std::move(transformation)));
}

}  // namespace

void register_transformation(TransformationPtr transformation) {
  register_in_place_of(std::move(transformation), [](const Transformation&) { return false; });
}

void register_rule(Rule rule) {
  register_in_place_of(std::make_shared<Rule>(std::move(rule)), [](const Transformation& other) {
    return dynamic_cast<const Rule*>(&other) != nullptr;
  });
}

}  // namespace refx

#include "refx/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "refx/hint.h"
#include "refx/rule.h"
#include "refx/transforms.h"
#include "rules/shipped.h"
#include "util/did_you_mean.h"
#include "util/glob.h"

namespace refx {

namespace {

// Rules first: what they find written out is then found by the others, too.
std::vector<TransformationPtr> shipped() {
  std::vector<TransformationPtr> transformations;
  for (std::string_view text : rules::shipped_texts())
    for (Rule& rule : parse_rules(text))
      transformations.push_back(std::make_shared<Rule>(std::move(rule)));
#define REFX_TRANSFORMATION(Class, Name, Results, Summary, ...) \
  transformations.push_back(std::make_shared<Class>());
#include "refx/registry.def"
#undef REFX_TRANSFORMATION
  return transformations;
}

std::vector<TransformationPtr>& all() {
  static std::vector<TransformationPtr> transformations = shipped();
  return transformations;
}

std::mutex& changing() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace

const std::vector<TransformationPtr>& registry() { return all(); }

namespace {

TransformationPtr* lookup(std::string_view name) {
  for (auto& transformation : all())
    if (transformation->name() == name) return &transformation;
  return nullptr;
}

TransformationPtr find(std::string_view name) {
  const std::scoped_lock lock(changing());
  if (const TransformationPtr* found = lookup(name)) return *found;
  std::vector<std::string> names;
  for (const auto& transformation : registry()) names.push_back(transformation->name());
  const std::string near = nearest(name, names);
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
      if (transformation->preserves_computation()) found.push_back(transformation);
  }
  return found;
}

std::vector<std::string> unmatched(const std::vector<std::string>& patterns, const Model& model,
                                   const std::vector<TransformationPtr>& transformations) {
  if (patterns.empty()) return {};
  std::vector<std::string> names, complaints;
  for (const TransformationPtr& transformation : transformations) {
    const Findings found = transformation->find(model);
    for (const Step& step : model.history())
      if (step.transformation == transformation->name()) names.push_back(step.site);
    for (const Site& site : found.sites) names.push_back(site.name);
    for (const Refusal& refusal : found.refusals) names.push_back(refusal.site.name);
  }
  for (const std::string& pattern : patterns)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return glob_match(pattern, name); }))
      complaints.push_back(
          fmt::format("'{}' matches no site{}", pattern, did_you_mean(pattern, names)));
  return complaints;
}

namespace {

void register_in_place_of(TransformationPtr transformation,
                          bool (*gives_way)(const Transformation&)) {
  if (transformation->name() == kAll)
    throw Error(fmt::format("a transformation cannot be called '{}': that means every one", kAll));
  const std::scoped_lock lock(changing());
  TransformationPtr* other = lookup(transformation->name());
  if (!other) return all().push_back(std::move(transformation));
  if (!gives_way(**other))
    throw Error(fmt::format("a transformation '{}' is already registered", transformation->name()));
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

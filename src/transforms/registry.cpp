#include "refx/registry.h"

#include <fmt/format.h>

#include "refx/hint.h"
#include "refx/rule.h"
#include "refx/transforms.h"
#include "rules/shipped.h"
#include "util/did_you_mean.h"

namespace refx {

namespace {

// Rules first: what they find written out is then found by the others, too.
std::vector<TransformationPtr> shipped() {
  std::vector<TransformationPtr> transformations;
  for (std::string_view text : rules::shipped_texts())
    for (Rule& rule : parse_rules(text))
      transformations.push_back(std::make_shared<Rule>(std::move(rule)));
#define REFX_TRANSFORMATION(Class, Name, Results, Summary) \
  transformations.push_back(std::make_shared<Class>());
#include "refx/registry.def"
#undef REFX_TRANSFORMATION
  return transformations;
}

std::vector<TransformationPtr>& all() {
  static std::vector<TransformationPtr> transformations = shipped();
  return transformations;
}

}  // namespace

const std::vector<TransformationPtr>& registry() { return all(); }

namespace {

const TransformationPtr* lookup(std::string_view name) {
  for (const auto& transformation : registry())
    if (transformation->name() == name) return &transformation;
  return nullptr;
}

const TransformationPtr& find(std::string_view name) {
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
    for (const TransformationPtr& transformation : registry())
      if (transformation->preserves_computation()) found.push_back(transformation);
  }
  return found;
}

void register_transformation(TransformationPtr transformation) {
  if (transformation->name() == kAll)
    throw Error(fmt::format("a transformation cannot be called '{}': that means every one", kAll));
  if (lookup_transformation(transformation->name()))
    throw Error(fmt::format("a transformation '{}' is already registered", transformation->name()));
  all().push_back(std::move(transformation));
}

}  // namespace refx

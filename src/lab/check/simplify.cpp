// SPDX-License-Identifier: Apache-2.0

// Makes recipes simpler, so that a person who reads a failing instance sees only what it takes.

#include <algorithm>
#include <set>

#include "lab/check/recipe.h"
#include "lab/check/requirements.h"
#include "lab/check/shape_generator.h"
#include "rules/literal.h"

namespace refx::checking {

namespace {

// Replaces a size everywhere: tensors and shape arguments have to stay consistent.
void replace_size(Recipe& recipe, std::int64_t from, std::int64_t to) {
  for (Choice& choice : recipe.variables) {
    if (choice.tensor)
      for (std::int64_t& size : choice.tensor->sizes)
        if (size == from) size = to;
    if (const List* list = choice.literal.get<List>()) {
      List other = *list;
      for (Arg& item : other.items)
        if (item == Arg(from)) item = to;
      choice.literal = std::move(other);
    }
  }
}

}  // namespace

std::int64_t weight_of(const Recipe& recipe) {
  std::int64_t weight = recipe.spelling != 0 ? 3 : 0;
  weight += recipe.functions + recipe.symbolic + recipe.used + !recipe.typed;
  for (const Choice& choice : recipe.variables) {
    if (choice.absent) continue;
    weight += 2 + choice.as_tensor + choice.inverse;
    if (const auto number = rules::number_of(choice.literal)) weight += *number != 1;
    if (!choice.tensor) continue;
    weight +=
        elements(choice.tensor->sizes) + static_cast<std::int64_t>(choice.tensor->sizes.size());
    weight += choice.tensor->layout != TensorChoice::contiguous;
    weight += choice.tensor->numbers != TensorChoice::normal;
  }
  return weight;
}

std::vector<Recipe> simpler(const rules::Definition& rule, const Recipe& recipe) {
  std::vector<Recipe> all;
  // A change counts only if it makes the recipe simpler, so that shrinking ends.
  auto add = [&](auto&& change) {
    Recipe other = recipe;
    change(other);
    if (weight_of(other) < weight_of(recipe)) all.push_back(std::move(other));
  };
  add([](Recipe& r) { r.spelling = 0; });
  add([](Recipe& r) {
    r.symbolic = r.used = r.functions = false;
    r.typed = true;
  });
  std::set<std::int64_t> sizes;
  for (std::size_t i = 0; i < recipe.variables.size(); ++i) {
    const Choice& choice = recipe.variables[i];
    if (choice.absent) continue;
    if (rule.variables[i].default_value &&
        may_be_absent(rule.before[recipe.form], rule.variables[i].name))
      add([&](Recipe& r) { r.variables[i] = {.made = true, .absent = true}; });
    if (rules::number_of(choice.literal)) {
      add([&](Recipe& r) { r.variables[i].as_tensor = r.variables[i].inverse = false; });
      add([&](Recipe& r) { r.variables[i].literal = 1.0; });
    }
    if (!choice.tensor) continue;
    sizes.insert(choice.tensor->sizes.begin(), choice.tensor->sizes.end());
    add([&](Recipe& r) {
      r.variables[i].tensor->layout = TensorChoice::contiguous;
      r.variables[i].tensor->numbers = TensorChoice::normal;
    });
    for (std::size_t dim = 0; dim < choice.tensor->sizes.size(); ++dim)
      add([&](Recipe& r) { r.variables[i].tensor->sizes[dim] = 1; });
  }
  for (const std::int64_t size : sizes)
    for (const std::int64_t to : {1, 2})
      if (to < size) add([&](Recipe& r) { replace_size(r, size, to); });
  if (sizes.size() > 0)  // one dimension less everywhere
    add([&](Recipe& r) {
      for (Choice& choice : r.variables)
        if (choice.tensor && choice.tensor->sizes.size() > 2)
          choice.tensor->sizes.erase(choice.tensor->sizes.begin());
    });
  std::stable_sort(all.begin(), all.end(),
                   [](const Recipe& a, const Recipe& b) { return weight_of(a) < weight_of(b); });
  return all;
}

}  // namespace refx::checking

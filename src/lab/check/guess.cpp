// SPDX-License-Identifier: Apache-2.0

// Finds shapes and literals by trial: a rule has no declaration of the shapes that its operators
// accept. Call by call, the variables that the call is the first to use are drawn until it runs.

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <map>
#include <utility>

#include "book/call.h"
#include "lab/check/draw_literals.h"
#include "lab/check/recipe.h"
#include "lab/check/requirements.h"
#include "lab/check/shape_generator.h"
#include "rules/match.h"
#include "util/first_line.h"

namespace refx::checking {

namespace {

using rules::Body;
using rules::Definition;
using rules::Reading;
using rules::Variable;
using rules::VariableKind;

// Draws for one call. Most calls run after a few.
constexpr int kTries = 300;
// Fresh starts for one instance, since early choices may make a later call impossible.
constexpr int kStarts = 8;

// Makes one recipe, or fails: an earlier choice may leave none for a later call.
class Guesser {
 public:
  Guesser(const Definition& rule, std::size_t form, Random& random, Experience& experience)
      : rule_(rule),
        body_(rule.before[form]),
        random_(random),
        experience_(experience),
        shapes_(random) {
    experience_.resize(rule.variables.size());
    recipe_.form = form;
    recipe_.variables.resize(rule.variables.size());
    recipe_.functions = random.one_in(5);
    recipe_.typed = !recipe_.functions || !random.one_in(4);
    recipe_.symbolic = recipe_.typed && random.one_in(4);
    recipe_.used = random.one_in(2);
    alike_ = !random.one_in(3);
    recipe_.spelling = random.one_in(3) ? 0 : random.next() | 1;
    dtype_ = random.pick({at::kFloat, at::kFloat, at::kDouble, at::kHalf, at::kBFloat16});
    shapes_.draw_pool();
    for (const Variable& variable : rule.variables)
      requirements_.push_back(requirements_of(rule, variable.name));
    leave_out();
  }

  Guess run() {
    for (NodeId id : body_.model.graph())
      if (body_.model.graph()[id].op == Opcode::call_function && !settle(id)) return {{}, problem_};
    // A form may need a number where this recipe has a symbol. Then it is built without symbols.
    for (bool runs = false; !runs;) try {
        (void)build(rule_, recipe_);
        runs = true;
      } catch (const std::exception& error) {
        if (!recipe_.symbolic) return {{}, first_line(error.what())};
        recipe_.symbolic = false;
      }
    for (std::size_t i = 0; i < rule_.variables.size(); ++i)
      if (const auto& tensor = recipe_.variables[i].tensor)
        experience_[i].push_back(static_cast<std::int64_t>(tensor->sizes.size()));
    return {recipe_, ""};
  }

 private:
  void leave_out() {
    for (std::size_t i = 0; i < rule_.variables.size(); ++i) {
      const bool unused = !uses(rule_.variables[i].name);
      const bool optional = rule_.variables[i].default_value.has_value();
      if (unused ||
          (optional && random_.one_in(2) && may_be_absent(body_, rule_.variables[i].name)))
        recipe_.variables[i] = {.made = true, .absent = true};
    }
  }
  bool uses(const std::string& variable) const {
    return body_.model.graph().num_users(body_.named.at(variable)) > 0;
  }

  // Draws the variables that this call is the first to use, until the call runs.
  bool settle(NodeId id) {
    std::vector<std::pair<std::size_t, std::string>> open;  // variables, under which name
    const Node& node = body_.model.graph()[id];
    const Reading reading = rules::read_form(body_, id);
    for (const Reading::Given& given : reading.args)
      for_each_node(given.value, [&](NodeId value) {
        const std::size_t i = index_of(value);
        if (i < rule_.variables.size() && !recipe_.variables[i].made)
          open.emplace_back(i, std::string(given.name));
      });
    const c10::FunctionSchema* schema = book::Call(body_.model, node).schema();
    for (int t = 0; t < kTries; ++t) {
      if (t > 0 && open.empty() && recipe_.spelling == 0) break;
      if (t > 20) recipe_.spelling = 0;  // a spelling may not exist for these arguments
      start_call(reading);
      for (const auto& [i, name] : open)
        recipe_.variables[i] = drawn(i, fmt::format("{}.{}", reading.name, name), name,
                                     type_of_argument(schema, name));
      try {
        const c10::IValue value = value_of(rule_, recipe_, id);
        if (value.isTensor()) {
          if (value.toTensor().numel() > kMostElements) continue;
          known_[id] = value.toTensor().sizes().vec();
        }
        for (const auto& [i, name] : open)
          given_[fmt::format("{}.{}", reading.name, name)] = recipe_.variables[i];
        return true;
      } catch (const std::exception& error) {
        problem_ = fmt::format("{}: {}", node.target, first_line(error.what()));
      }
    }
    return false;
  }

  std::size_t index_of(NodeId form) const {
    for (std::size_t i = 0; i < rule_.variables.size(); ++i)
      if (body_.named.at(rule_.variables[i].name) == form) return i;
    return rule_.variables.size();
  }

  static c10::TypePtr type_of_argument(const c10::FunctionSchema* schema, const std::string& name) {
    if (schema)
      for (const c10::Argument& formal : schema->arguments())
        if (formal.name() == name) return formal.type();
    return nullptr;
  }

  // Collects the known shapes, those of the arguments of this call first: shapes of operands are
  // usually related to each other.
  void start_call(const Reading& reading) {
    std::vector<Sizes> arguments, others;
    for (const Reading::Given& given : reading.args)
      if (const NodeId* id = given.value.get<NodeId>()) {
        if (const auto it = known_.find(*id); it != known_.end()) arguments.push_back(it->second);
        const std::size_t i = index_of(*id);
        if (i < rule_.variables.size() && recipe_.variables[i].made && recipe_.variables[i].tensor)
          arguments.push_back(recipe_.variables[i].tensor->sizes);
      }
    for (const auto& [id, sizes] : known_) others.push_back(sizes);
    for (const Choice& choice : recipe_.variables)
      if (choice.made && choice.tensor) others.push_back(choice.tensor->sizes);
    shapes_.start_call(std::move(arguments), others);
  }

  // ---- variables

  // Often repeats the choice for the same argument of an earlier call of this operator: in
  // attention, keys and values have the same shapes.
  Choice drawn(std::size_t i, const std::string& place, const std::string& name,
               const c10::TypePtr& type) {
    Choice choice = choose(i, name, type);
    const auto before = given_.find(place);
    if (!alike_ || before == given_.end() || random_.one_in(4)) return choice;
    if (rule_.variables[i].kind == VariableKind::any && !before->second.tensor)
      choice.literal = before->second.literal;
    if (choice.tensor && before->second.tensor) {
      choice.tensor->sizes = before->second.tensor->sizes;
      shapes_.replace_first(choice.tensor->sizes);
    }
    return choice;
  }

  Choice choose(std::size_t i, const std::string& name, const c10::TypePtr& type) {
    const Variable& variable = rule_.variables[i];
    Choice choice{.made = true};
    switch (variable.kind) {
      case VariableKind::value:
      case VariableKind::weight:
        choose_tensor(i, name, choice);
        break;
      case VariableKind::number:
      case VariableKind::factor:
        choice.literal = draw_number(requirements_[i], random_);
        choice.as_tensor = name == "other" && !recipe_.functions && random_.one_in(10);
        choice.inverse = variable.kind == VariableKind::factor && random_.one_in(3);
        break;
      case VariableKind::integer:
        choice.literal = name.starts_with("dim") ? draw_dim(shapes_, random_)
                                                 : random_.pick<std::int64_t>({1, 1, 1, 2, 3, 0});
        break;
      case VariableKind::boolean:
        choice.literal = random_.one_in(2);
        break;
      case VariableKind::dtype:
        choice.literal =
            random_.pick({dtype_, dtype_, at::kFloat, at::kFloat, at::kDouble, at::kHalf});
        break;
      case VariableKind::any:
        choice.literal = draw_argument(name, type, shapes_, random_);
        break;
    }
    return choice;
  }

  void choose_tensor(std::size_t i, const std::string& name, Choice& choice) {
    const Variable& variable = rule_.variables[i];
    const bool weight = variable.kind == VariableKind::weight;
    if (!weight && random_.one_in(12))
      if (const int other = another_value(i); other >= 0) {
        choice.same_as = other;
        shapes_.put_first(recipe_.variables[static_cast<std::size_t>(other)].tensor->sizes);
        return;
      }
    TensorChoice tensor;
    tensor.seed = random_.next() >> 1;
    tensor.dtype = dtype_of(name);
    tensor.role = weight ? random_.pick({TensorChoice::parameter, TensorChoice::parameter,
                                         TensorChoice::buffer, TensorChoice::constant})
                  : random_.one_in(6) ? TensorChoice::parameter
                                      : TensorChoice::input;
    tensor.numbers =
        random_.pick({TensorChoice::normal, TensorChoice::normal, TensorChoice::normal,
                      TensorChoice::positive, TensorChoice::small, TensorChoice::large});
    // Variances are positive; the square root of others is NaN and hides all numbers.
    if (name.find("var") != name.npos) tensor.numbers = TensorChoice::positive;
    if (!weight && name == "other" && random_.one_in(6)) tensor.numbers = TensorChoice::mask;
    if (!weight)
      tensor.layout = random_.pick({TensorChoice::contiguous, TensorChoice::contiguous,
                                    TensorChoice::contiguous, TensorChoice::transposed,
                                    TensorChoice::strided, TensorChoice::expanded});
    std::int64_t least = requirements_[i].least_rank, most = requirements_[i].most_rank;
    if (!experience_[i].empty() && !random_.one_in(4))
      least = most = random_.pick(experience_[i]);  // a rank that ran before
    tensor.sizes = shapes_.tensor(name, least, most);
    if (recipe_.symbolic && tensor.role == TensorChoice::input && !tensor.sizes.empty() &&
        random_.one_in(2))
      tensor.sizes[static_cast<std::size_t>(
          random_.below(static_cast<std::int64_t>(tensor.sizes.size())))] = kSymbol;
    shapes_.put_first(tensor.sizes);
    choice.tensor = std::move(tensor);
  }

  // Another variable with a suitable rank, whose value this one can share: x + x is an instance of
  // x + y.
  int another_value(std::size_t of) {
    std::vector<int> all;
    for (std::size_t i = 0; i < rule_.variables.size(); ++i) {
      const Choice& choice = recipe_.variables[i];
      if (rule_.variables[i].kind != VariableKind::value || !choice.made || !choice.tensor)
        continue;
      const auto rank = static_cast<std::int64_t>(choice.tensor->sizes.size());
      if (rank >= requirements_[of].least_rank && rank <= requirements_[of].most_rank)
        all.push_back(static_cast<int>(i));
    }
    return all.empty() ? -1 : random_.pick(all);
  }

  // One instance has one dtype, with rare exceptions: mixed dtypes are refused by most operators.
  c10::ScalarType dtype_of(const std::string& name) {
    const bool truth = name.find("mask") != name.npos || name == "condition";
    if (truth && !random_.one_in(4)) return at::kBool;
    if (!random_.one_in(12)) return dtype_;
    return random_.pick({at::kFloat, at::kDouble, at::kHalf, at::kBool, at::kLong});
  }

  const Definition& rule_;
  const Body& body_;
  Random& random_;
  Experience& experience_;
  Recipe recipe_;
  c10::ScalarType dtype_;
  ShapeGenerator shapes_;
  std::vector<Requirements> requirements_;  // of each variable
  std::map<NodeId, Sizes> known_;           // shapes of the results of calls
  std::map<std::string, Choice> given_;     // the last choice for each argument of an operator
  bool alike_ = false;
  std::string problem_;
};

}  // namespace

Guess guess(const Definition& rule, std::size_t form, Random& random, Experience& experience) {
  Guess last;
  for (int i = 0; i < kStarts; ++i) {
    last = Guesser(rule, form, random, experience).run();
    if (last.recipe) return last;
  }
  return last;
}

}  // namespace refx::checking

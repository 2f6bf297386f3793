// SPDX-License-Identifier: Apache-2.0

// Shapes and literals are found by trying: call by call, the variables that it is the first to use
// are drawn until it runs.

#include <ATen/core/function_schema.h>
#include <ATen/core/jit_type.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "book/call.h"
#include "lab/check/recipe.h"
#include "refx/error.h"
#include "rules/literal.h"
#include "rules/match.h"
#include "util/first_line.h"

namespace refx::checking {

namespace {

using rules::Body;
using rules::Definition;
using rules::Kind;
using rules::Reading;
using rules::Variable;

constexpr int kTries = 300;  // for one call
constexpr int kStarts = 8;   // for one instance
constexpr std::int64_t kMostElements = 1 << 14;

std::int64_t elements(const Sizes& sizes) {
  std::int64_t n = 1;
  for (const std::int64_t size : sizes) n *= size;
  return n;
}

// ---- what `where` says of a variable -----------------------------------------------------------

struct Hints {
  std::int64_t least_rank = 0, most_rank = 5;
  std::vector<double> numbers;  // that it is compared with
  bool equal = false;           // to one of them, or near
};

Hints hints_of(const Definition& rule, const std::string& variable) {
  Hints hints;
  const auto it = rule.where.named.find(variable);
  if (it == rule.where.named.end()) return hints;
  const Graph& graph = rule.where.model.graph();
  for (NodeId user : graph.users(it->second)) {
    const Node& node = graph[user];
    if (node.target != "rule.rank") {
      for (const Arg& arg : node.args)
        if (const auto number = rules::number_of(arg)) hints.numbers.push_back(*number);
      hints.equal |= node.target == "operator.eq" || node.target == "rule.near";
      continue;
    }
    for (NodeId comparison : graph.users(user)) {
      const Node& compared = graph[comparison];
      const auto* to = compared.args.size() == 2 ? compared.args[1].get<std::int64_t>() : nullptr;
      if (!to) continue;
      const std::string& op = compared.target;
      if (op == "operator.eq") hints.least_rank = hints.most_rank = *to;
      if (op == "operator.ge") hints.least_rank = *to;
      if (op == "operator.gt") hints.least_rank = *to + 1;
      if (op == "operator.le") hints.most_rank = *to;
      if (op == "operator.lt") hints.most_rank = *to - 1;
    }
  }
  hints.most_rank = std::max(hints.most_rank, hints.least_rank);
  return hints;
}

// Whether a form may do without a variable: as an operand that is left out together with its call,
// or as an argument that the schema lets be None.
bool may_be_absent(const Body& body, const std::string& variable) {
  const Graph& graph = body.model.graph();
  const Arg id(body.named.at(variable));
  for (NodeId user : graph.users(body.named.at(variable))) {
    if (graph[user].op != Opcode::call_function) continue;
    const Reading reading = rules::read_form(body, user);
    const c10::FunctionSchema* schema = book::Call(body.model, graph[user]).schema();
    for (const Reading::Given& given : reading.args) {
      if (!(given.value == id)) continue;
      static constexpr std::string_view kNeutral[] = {"add", "sub", "mul", "div"};
      const bool operand =
          given.name == "other" &&
          std::find(std::begin(kNeutral), std::end(kNeutral), reading.name) != std::end(kNeutral);
      const auto at =
          schema ? schema->argumentIndexWithName(std::string(given.name)) : std::nullopt;
      const bool optional =
          at && schema->arguments()[static_cast<std::size_t>(*at)].type()->kind() ==
                    c10::TypeKind::OptionalType;
      if (!operand && !optional && given.name != "dtype") return false;
    }
  }
  return true;
}

// ---- one instance ------------------------------------------------------------------------------

class Guesser {
 public:
  Guesser(const Definition& rule, std::size_t form, Random& random, Experience& experience)
      : rule_(rule), body_(rule.before[form]), random_(random), experience_(experience) {
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
    for (std::size_t i = 0; i < 4; ++i) pool_.push_back(random.between(1, 5));
    for (const Variable& variable : rule.variables) hints_.push_back(hints_of(rule, variable.name));
    leave_out();
  }

  Guess run() {
    for (NodeId id : body_.model.graph())
      if (body_.model.graph()[id].op == Opcode::call_function && !settle(id)) return {{}, problem_};
    // With symbols where that goes: a form may ask for a number.
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
      const bool optional = rule_.variables[i].otherwise.has_value();
      if (unused ||
          (optional && random_.one_in(2) && may_be_absent(body_, rule_.variables[i].name)))
        recipe_.variables[i] = {.made = true, .absent = true};
    }
  }
  bool uses(const std::string& variable) const {
    return body_.model.graph().num_users(body_.named.at(variable)) > 0;
  }

  // Draws what the call is the first to use until it runs.
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
      if (t > 20) recipe_.spelling = 0;
      near_.clear();
      add_known(reading);
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

  // The shapes that the call's arguments have by now, the call's own first.
  void add_known(const Reading& reading) {
    for (const Reading::Given& given : reading.args)
      if (const NodeId* id = given.value.get<NodeId>()) {
        if (const auto it = known_.find(*id); it != known_.end()) near_.push_back(it->second);
        const std::size_t i = index_of(*id);
        if (i < rule_.variables.size() && recipe_.variables[i].made && recipe_.variables[i].tensor)
          near_.push_back(recipe_.variables[i].tensor->sizes);
      }
    own_ = near_.size();
    for (const auto& [id, sizes] : known_) near_.push_back(sizes);
    for (const Choice& choice : recipe_.variables)
      if (choice.made && choice.tensor) near_.push_back(choice.tensor->sizes);
  }

  // ---- variables

  // Often what the same argument of another such call was: keys and values go the same way.
  Choice drawn(std::size_t i, const std::string& place, const std::string& name,
               const c10::TypePtr& type) {
    Choice choice = choose(i, name, type);
    const auto before = given_.find(place);
    if (!alike_ || before == given_.end() || random_.one_in(4)) return choice;
    if (rule_.variables[i].kind == Kind::any && !before->second.tensor)
      choice.literal = before->second.literal;
    if (choice.tensor && before->second.tensor)
      near_[0] = choice.tensor->sizes = before->second.tensor->sizes;
    return choice;
  }

  Choice choose(std::size_t i, const std::string& name, const c10::TypePtr& type) {
    const Variable& variable = rule_.variables[i];
    Choice choice{.made = true};
    switch (variable.kind) {
      case Kind::value:
      case Kind::weight:
        choose_tensor(i, name, choice);
        break;
      case Kind::number:
      case Kind::factor:
        choice.literal = number(i);
        choice.as_tensor = name == "other" && !recipe_.functions && random_.one_in(10);
        choice.inverse = variable.kind == Kind::factor && random_.one_in(3);
        break;
      case Kind::integer:
        choice.literal =
            name.starts_with("dim") ? dim() : random_.pick<std::int64_t>({1, 1, 1, 2, 3, 0});
        break;
      case Kind::truth:
        choice.literal = random_.one_in(2);
        break;
      case Kind::dtype:
        choice.literal =
            random_.pick({dtype_, dtype_, at::kFloat, at::kFloat, at::kDouble, at::kHalf});
        break;
      case Kind::any:
        choice.literal = any(name, type);
        break;
    }
    return choice;
  }

  Arg dim() {
    const std::int64_t rank = near_.empty() ? 2 : static_cast<std::int64_t>(near_[0].size());
    return rank == 0 ? 0 : random_.between(-rank, rank - 1);
  }

  Arg number(std::size_t i) {
    const auto& hints = hints_[i].numbers;
    const double hint = hints.empty() ? 0 : random_.pick(hints);
    const bool extreme = std::abs(hint) > 1e20;  // nothing else comes near it
    if (!hints.empty() && (hints_[i].equal || extreme ? !random_.one_in(8) : random_.one_in(4))) {
      if (extreme && random_.one_in(2))
        return random_.pick({std::copysign(std::numeric_limits<double>::infinity(), hint),
                             std::copysign(3.4028234663852886e38, hint)});
      return random_.pick({hint, hint, hint, hint, hint, hint, hint, hint * 1.001, hint * 2,
                           hint / 2, -hint, std::nextafter(hint, 2 * hint)});
    }
    if (random_.one_in(4))
      return random_.pick<Arg>({0.0, 1.0, -1.0, 1e-30, 1e30, 1e-12, 1e4, -0.0, 0, 1, 2, -2, 3.0});
    return random_.pick({1e-5, 1e-6, 1e-3, 0.1, 0.5, 2.0, 8.0, 0.125, 0.3, 1.7});
  }

  void choose_tensor(std::size_t i, const std::string& name, Choice& choice) {
    const Variable& variable = rule_.variables[i];
    const bool weight = variable.kind == Kind::weight;
    if (!weight && random_.one_in(12))
      if (const int other = another_value(i); other >= 0) {
        choice.same_as = other;
        near_.insert(near_.begin(),
                     recipe_.variables[static_cast<std::size_t>(other)].tensor->sizes);
        ++own_;
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
    if (name.find("var") != name.npos) tensor.numbers = TensorChoice::positive;
    if (!weight && name == "other" && random_.one_in(6)) tensor.numbers = TensorChoice::mask;
    if (!weight)
      tensor.layout =
          random_.pick({TensorChoice::plain, TensorChoice::plain, TensorChoice::plain,
                        TensorChoice::turned, TensorChoice::gaps, TensorChoice::spread});
    std::int64_t least = hints_[i].least_rank, most = hints_[i].most_rank;
    if (!experience_[i].empty() && !random_.one_in(4))
      least = most = random_.pick(experience_[i]);  // as it went well before
    for (int t = 0; t < 20; ++t) {
      tensor.sizes = most == 1 ? Sizes{channels()} : shape(name);
      const auto rank = static_cast<std::int64_t>(tensor.sizes.size());
      if (rank >= least && rank <= most && elements(tensor.sizes) <= kMostElements) break;
      tensor.sizes = free_shape(random_.between(least, most));
    }
    if (recipe_.symbolic && tensor.role == TensorChoice::input && !tensor.sizes.empty() &&
        random_.one_in(2))
      tensor.sizes[static_cast<std::size_t>(
          random_.below(static_cast<std::int64_t>(tensor.sizes.size())))] = kSymbol;
    near_.insert(near_.begin(), tensor.sizes);
    ++own_;
    choice.tensor = std::move(tensor);
  }

  // A value that this one could be, too.
  int another_value(std::size_t of) {
    std::vector<int> all;
    for (std::size_t i = 0; i < rule_.variables.size(); ++i) {
      const Choice& choice = recipe_.variables[i];
      if (rule_.variables[i].kind != Kind::value || !choice.made || !choice.tensor) continue;
      const auto rank = static_cast<std::int64_t>(choice.tensor->sizes.size());
      if (rank >= hints_[of].least_rank && rank <= hints_[of].most_rank)
        all.push_back(static_cast<int>(i));
    }
    return all.empty() ? -1 : random_.pick(all);
  }

  c10::ScalarType dtype_of(const std::string& name) {
    const bool truth = name.find("mask") != name.npos || name == "condition";
    if (truth && !random_.one_in(4)) return at::kBool;
    if (!random_.one_in(12)) return dtype_;
    return random_.pick({at::kFloat, at::kDouble, at::kHalf, at::kBool, at::kLong});
  }

  // ---- shapes

  std::int64_t fresh() { return random_.one_in(6) ? 1 : random_.pick(pool_); }

  Sizes free_shape(std::int64_t rank) {
    Sizes sizes;
    for (std::int64_t i = 0; i < rank; ++i) sizes.push_back(fresh());
    return sizes;
  }

  // One of those that the arguments of the call have, or others have that are there.
  Sizes nearby() {
    if (near_.empty()) return {};
    if (own_ > 0 && !random_.one_in(4))
      return near_[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(own_)))];
    return random_.pick(near_);
  }

  std::int64_t some_size() {
    const Sizes sizes = nearby();
    return sizes.empty() || random_.one_in(4) ? fresh() : random_.pick(sizes);
  }

  Sizes shape(const std::string& name) {
    const bool vector = name == "bias" || name.starts_with("running_");
    if (near_.empty())
      return free_shape(random_.pick<std::int64_t>({0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5}));
    if (vector && !random_.one_in(4)) return {channels()};
    Sizes sizes = nearby();
    const auto rank = sizes.size();
    const bool weight = name == "weight" && !random_.one_in(4);
    switch (weight ? random_.pick({4, 6, 6}) : std::max<std::int64_t>(random_.below(11) - 3, 0)) {
      case 0:  // the same
        return sizes;
      case 1:  // broadcast to it
        return broadcast(std::move(sizes));
      case 2:  // to be multiplied with it
        if (rank >= 2) std::swap(sizes[rank - 1], sizes[rank - 2]);
        if (rank >= 1 && random_.one_in(2)) sizes[rank - 1] = fresh();
        return sizes;
      case 3:  // the same but for one size
        if (rank >= 1)
          sizes[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(rank)))] =
              some_size();
        return sizes;
      case 4:  // a matrix
        return rank >= 1 && random_.one_in(2)
                   ? Sizes{random_.one_in(2) ? fresh() : some_size(), sizes.back()}
                   : Sizes{rank >= 1 ? sizes.back() : fresh(), fresh()};
      case 5:  // the last sizes
        if (rank >= 1)
          sizes.erase(sizes.begin(),
                      sizes.begin() + random_.below(static_cast<std::int64_t>(rank)));
        return sizes;
      case 6:  // a filter over it
        if (rank < 3) return {channels()};
        sizes[0] = fresh();
        for (std::size_t i = 2; i < rank; ++i) sizes[i] = random_.between(1, 2);
        return sizes;
      default:
        return free_shape(random_.between(0, 5));
    }
  }

  std::int64_t channels() {
    for (std::size_t i = 0; i < own_; ++i)
      if (near_[i].size() == 1 && !random_.one_in(3)) return near_[i][0];
    const Sizes sizes = nearby();
    if (sizes.empty()) return fresh();
    if (sizes.size() == 1) return sizes[0];
    return random_.pick({sizes[0], sizes[1], sizes.back()});
  }

  Sizes broadcast(Sizes sizes) {
    for (std::int64_t& size : sizes)
      if (random_.one_in(3)) size = 1;
    if (random_.one_in(2) && !sizes.empty())
      sizes.erase(sizes.begin(),
                  sizes.begin() + random_.below(static_cast<std::int64_t>(sizes.size())));
    return sizes;
  }

  // ---- any argument

  static Arg list_of(const Sizes& sizes) {
    List list;
    for (const std::int64_t size : sizes) list.items.emplace_back(size);
    return list;
  }

  Arg any(const std::string& name, c10::TypePtr type) {
    using c10::TypeKind;
    if (type && type->kind() == TypeKind::OptionalType)
      type = type->expectRef<c10::OptionalType>().getElementType();
    switch (type ? type->kind() : TypeKind::ListType) {
      case TypeKind::IntType:
      case TypeKind::SymIntType:
        return name.starts_with("dim") ? dim() : random_.pick<std::int64_t>({0, 1, 2, 3});
      case TypeKind::BoolType:
        return random_.one_in(2);
      case TypeKind::FloatType:
      case TypeKind::NumberType:
        return random_.pick({0.5, 1.0, 0.1, 2.0, -0.5});
      case TypeKind::StringType:
        return random_.pick<Arg>({"valid", "same", "none", "tanh"});
      default:
        break;
    }
    const bool shapes = name.find("size") != name.npos || name.find("shape") != name.npos;
    if (!shapes) return numbers_for(name);
    return list_of(name == "normalized_shape" ? last_sizes()
                   : name == "size"           ? expanded()
                                              : reshaped());
  }

  // stride, padding, dilation, dim …
  Arg numbers_for(const std::string& name) {
    if (name.starts_with("dim")) return List{{dim()}};
    const std::size_t rank = near_.empty() ? 3 : near_[0].size();
    const std::size_t n = random_.one_in(4) || rank < 3 ? 1 : rank - 2;
    Sizes sizes;
    const bool zero = name.find("padding") != name.npos;
    for (std::size_t i = 0; i < n; ++i)
      sizes.push_back(random_.between(zero ? 0 : 1, zero ? 1 : 2));
    return list_of(sizes);
  }

  Sizes last_sizes() {
    Sizes sizes = nearby();
    if (sizes.size() > 1)
      sizes.erase(sizes.begin(),
                  sizes.begin() + random_.between(1, static_cast<std::int64_t>(sizes.size()) - 1));
    return sizes;
  }

  Sizes expanded() {
    if (random_.one_in(4)) return reshaped();
    Sizes sizes = near_.empty() ? Sizes{} : near_[0];
    for (std::int64_t& size : sizes)
      if (size == 1 && random_.one_in(2))
        size = random_.between(1, 3);
      else if (random_.one_in(6))
        size = -1;
    return sizes;
  }

  // As many elements as the first argument has.
  Sizes reshaped() {
    const Sizes from = near_.empty() ? Sizes{1} : near_[0];
    const std::int64_t all = elements(from);
    Sizes to = from;
    switch (random_.below(5)) {
      case 0:  // two sizes as one
        if (to.size() >= 2) merge(to, random_.below(static_cast<std::int64_t>(to.size()) - 1));
        break;
      case 1:  // all but the last as one, or all but the last two
        for (const std::size_t rest : {random_.one_in(2) ? 2u : 3u})
          while (to.size() > rest) merge(to, 0);
        break;
      case 2: {  // another shape, with what is left as the last size
        to = random_.pick(near_);
        if (to.empty()) break;
        const std::int64_t others = elements(to) / std::max<std::int64_t>(to.back(), 1);
        if (others == 0 || all % others != 0) break;
        to.back() = all / others;
        break;
      }
      case 3: {  // the first size as two
        if (to.empty() || to[0] < 1) break;
        const std::int64_t first = random_.pick<std::int64_t>({1, 2, 3, to[0]});
        if (to[0] % first != 0) break;
        to[0] /= first;
        to.insert(to.begin(), first);
        break;
      }
      default:
        break;
    }
    if (!to.empty() && random_.one_in(5))
      to[static_cast<std::size_t>(random_.below(static_cast<std::int64_t>(to.size())))] = -1;
    return to;
  }

  static void merge(Sizes& sizes, std::int64_t at) {
    sizes[static_cast<std::size_t>(at)] *= sizes[static_cast<std::size_t>(at) + 1];
    sizes.erase(sizes.begin() + at + 1);
  }

  const Definition& rule_;
  const Body& body_;
  Random& random_;
  Experience& experience_;
  Recipe recipe_;
  c10::ScalarType dtype_;
  Sizes pool_;
  std::vector<Hints> hints_;
  std::map<NodeId, Sizes> known_;  // of the form's calls
  std::vector<Sizes> near_;
  std::map<std::string, Choice> given_;  // to an argument of an operator, the last time
  bool alike_ = false;
  std::size_t own_ = 0;  // how many of them are the call's own
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

// ---- smaller ones ------------------------------------------------------------------------------

namespace {

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
    weight += choice.tensor->layout != TensorChoice::plain;
    weight += choice.tensor->numbers != TensorChoice::normal;
  }
  return weight;
}

std::vector<Recipe> simpler(const Definition& rule, const Recipe& recipe) {
  std::vector<Recipe> all;
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
    if (rule.variables[i].otherwise &&
        may_be_absent(rule.before[recipe.form], rule.variables[i].name))
      add([&](Recipe& r) { r.variables[i] = {.made = true, .absent = true}; });
    if (rules::number_of(choice.literal)) {
      add([&](Recipe& r) { r.variables[i].as_tensor = r.variables[i].inverse = false; });
      add([&](Recipe& r) { r.variables[i].literal = 1.0; });
    }
    if (!choice.tensor) continue;
    sizes.insert(choice.tensor->sizes.begin(), choice.tensor->sizes.end());
    add([&](Recipe& r) {
      r.variables[i].tensor->layout = TensorChoice::plain;
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

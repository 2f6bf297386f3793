// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "book/call.h"
#include "book/schemas.h"
#include "refx/builder.h"
#include "refx/error.h"
#include "rules/definition.h"
#include "rules/literal.h"
#include "text/arg_reader.h"
#include "text/cursor.h"
#include "util/did_you_mean.h"
#include "util/limits.h"

namespace refx::rules {

namespace {

constexpr std::pair<std::string_view, VariableKind> kKinds[] = {
    {"tensor", VariableKind::value}, {"weight", VariableKind::weight},
    {"float", VariableKind::number}, {"factor", VariableKind::factor},
    {"int", VariableKind::integer},  {"bool", VariableKind::boolean},
    {"dtype", VariableKind::dtype},  {"any", VariableKind::any},
};

bool is_literal(VariableKind kind) {
  return kind != VariableKind::value && kind != VariableKind::weight;
}

// ---- expressions -------------------------------------------------------------------------------

// Reads the lines of one small graph.
class BodyReader {
 public:
  enum class Section : std::uint8_t { before, once, after, where };

  BodyReader(Cursor& cursor, Section section) : cursor_(cursor), section_(section) {}

  // A variable, or what `once` computes.
  void declare(const std::string& name, bool literal) {
    const NodeId id = builder_.input(name);
    if (literal) literals_.push_back(id);
    names_.emplace(name, id);
    inputs_.push_back(id);
  }

  // A name that stands for something elsewhere in the rule.
  void take(const std::string& name) { taken_.insert(name); }

  // name = expression
  void assignment() {
    const std::size_t at = cursor_.position();
    const std::string name = cursor_.name("a name, 'return' or the next part of the rule");
    if (name.find('.') != name.npos)
      cursor_.fail(at, fmt::format("'{}' cannot be the name of a value", name));
    if (names_.contains(name) || taken_.contains(name))
      cursor_.fail(at, fmt::format("'{}' has a value already", name));
    cursor_.expect('=');
    names_.emplace(name, expression());
    assigned_.push_back(name);
    end_of_statement();
  }

  void result() {
    const std::size_t at = cursor_.position();
    do {
      results_.push_back(expression());
    } while (cursor_.accept(','));
    end_of_statement();
    if (section_ != Section::before) return;
    for (const Arg& result : results_) {
      require_call(at, result);
      if (std::count(results_.begin(), results_.end(), result) > 1)
        cursor_.fail(at, "'before' returns the same value twice");
    }
  }

  Arg condition() { return expression(); }

  bool returned() const { return !results_.empty(); }
  const std::vector<std::string>& assigned() const { return assigned_; }
  const Arg& value_of(const std::string& name) const { return names_.at(name); }
  bool is_literal(const Arg& arg) const {
    const NodeId* id = arg.get<NodeId>();
    return !id || std::find(literals_.begin(), literals_.end(), *id) != literals_.end();
  }

  Body finish() {
    Body body;
    Tuple all;
    for (const Arg& result : results_) all.items.push_back(result);
    body.model = builder_.build(std::move(all));
    body.results = std::move(results_);
    for (const auto& [name, value] : names_)
      if (const NodeId* id = value.get<NodeId>()) body.named.emplace(name, *id);
    return body;
  }

 private:
  void end_of_statement() {
    if (!cursor_.accept(';')) cursor_.expect_line_end();
  }

  void require_call(std::size_t at, const Arg& result) {
    const NodeId* id = result.get<NodeId>();
    if (!id || std::find(inputs_.begin(), inputs_.end(), *id) != inputs_.end())
      cursor_.fail(at,
                   "'before' has to return what an operator gives: a variable alone is found "
                   "everywhere");
  }

  // or  and  not  == < …  + -  * / // %  -x  **
  // One function for each level, from the loosest to the tightest, with Python's precedence.
  Arg expression() { return either(); }

  Arg either() {
    Arg left = both();
    while (cursor_.accept("or")) left = operate("or_", {left, both()});
    return left;
  }
  Arg both() {
    Arg left = inverted();
    while (cursor_.accept("and")) left = operate("and_", {left, inverted()});
    return left;
  }
  Arg inverted() {
    if (!cursor_.accept("not")) return compared();
    const Depth deeper(*this);
    return operate("not_", {inverted()});
  }

  Arg compared() {
    Arg left = sum();
    // Not chained: a < b < c is not in the language.
    if (const char* op = comparison()) return operate(op, {left, sum()});
    return left;
  }
  const char* comparison() {
    const std::size_t at = cursor_.position();
    if (cursor_.accept('<')) return cursor_.accept('=') ? "le" : "lt";
    if (cursor_.accept('>')) return cursor_.accept('=') ? "ge" : "gt";
    if (cursor_.accept('=')) {
      if (!cursor_.accept('=')) cursor_.fail(at, "expected '==', found '='");
      return "eq";
    }
    if (cursor_.accept('!')) {
      cursor_.expect('=');
      return "ne";
    }
    return nullptr;
  }

  Arg sum() {
    Arg left = product();
    while (true) {
      if (cursor_.accept('+'))
        left = operate("add", {left, product()});
      else if (cursor_.accept('-'))
        left = operate("sub", {left, product()});
      else
        return left;
    }
  }
  Arg product() {
    Arg left = signed_value();
    while (true) {
      if (cursor_.accept('*'))
        left = operate("mul", {left, signed_value()});
      else if (cursor_.accept('%'))
        left = operate("mod", {left, signed_value()});
      else if (cursor_.accept('/'))
        left = cursor_.accept('/') ? operate("floordiv", {left, signed_value()})
                                   : operate("truediv", {left, signed_value()});
      else
        return left;
    }
  }
  Arg signed_value() {
    if (!cursor_.accept('-')) return power();
    const Depth deeper(*this);
    return operate("neg", {signed_value()});
  }
  // Binds tighter than a sign on its left and looser than one on its right: -a ** -b is -(a **
  // (-b)).
  Arg power() {
    Arg base = primary();
    const std::size_t at = cursor_.position();
    if (!cursor_.text().substr(at).starts_with("**")) return base;
    cursor_.expect('*');
    cursor_.expect('*');
    const Depth deeper(*this);
    return operate("pow", {base, signed_value()});
  }

  Arg primary() {
    const Depth deeper(*this);
    if (cursor_.peek('(')) {
      Arg inner;
      cursor_.between('(', ')', [&] { inner = expression(); });
      return inner;
    }
    if (cursor_.peek('[')) {
      List list;
      cursor_.sequence('[', ']', [&] { list.items.push_back(expression()); });
      return list;
    }
    if (cursor_.peek_word() && !cursor_.peek_number()) return word();
    return ArgReader(cursor_, no_nodes_).arg();
  }

  Arg word() {
    const std::size_t at = cursor_.position();
    Cursor ahead(cursor_.text(), at);
    const std::string name(ahead.word());
    // device(…) and complex(…) are literals in the text form, and no calls.
    if (ahead.peek('(') && name != "device" && name != "complex") return call(at);
    if (const auto it = names_.find(name); it != names_.end()) {
      cursor_.word();
      return it->second;
    }
    static constexpr std::string_view kWords[] = {"None", "True",   "False",  "inf",
                                                  "nan",  "device", "complex"};
    const bool known = std::find(std::begin(kWords), std::end(kWords), name) != std::end(kWords);
    if (known || name.starts_with("torch.")) return ArgReader(cursor_, no_nodes_).arg();
    std::vector<std::string> all;
    for (const auto& [other, value] : names_) all.push_back(other);
    cursor_.fail(at, fmt::format("there is no value '{}'{}", name, did_you_mean(name, all)));
  }

  Arg call(std::size_t at) {
    const std::string target(cursor_.word());
    Args args;
    Kwargs kwargs;
    cursor_.sequence('(', ')', [&] {
      const std::size_t start = cursor_.position();
      Cursor ahead(cursor_.text(), start);
      const std::string key(ahead.word());
      // f(a == b) is a comparison, f(a=b) an argument with a name.
      const bool named = !key.empty() && ahead.peek('=') &&
                         !cursor_.text().substr(ahead.position()).starts_with("==");
      if (!named) {
        if (!kwargs.empty()) cursor_.fail(start, "an argument by position after one by name");
        args.push_back(expression());
        return;
      }
      cursor_.word();
      cursor_.expect('=');
      for (const auto& [other, value] : kwargs)
        if (other == key) cursor_.fail(start, fmt::format("'{}' is given twice", key));
      kwargs.emplace_back(key, expression());
    });
    // Operators have a dot in their names, and questions have none.
    if (target.find('.') == target.npos) return ask(at, target, std::move(args), kwargs);
    return add(at, target, std::move(args), std::move(kwargs));
  }

  Arg ask(std::size_t at, const std::string& name, Args args, const Kwargs& kwargs) {
    if (!is_question(name))
      cursor_.fail(at, fmt::format("there is no '{}'{}; operators are written like aten.matmul",
                                   name, did_you_mean(name, questions())));
    if (section_ == Section::before)
      cursor_.fail(
          at, fmt::format("'before' cannot ask for {}(…): write a condition into 'where'", name));
    if (!kwargs.empty()) cursor_.fail(at, fmt::format("{}(…) takes no names", name));
    if (const std::size_t count = arguments_of(name); count != args.size())
      cursor_.fail(at,
                   fmt::format("{}(…) takes {} argument{}", name, count, count == 1 ? "" : "s"));
    const bool constant =
        std::none_of(args.begin(), args.end(), [](const Arg& arg) { return arg.is<NodeId>(); });
    // Literals are computed when the rule is read, so that a mistake is found then.
    if (constant) return constant_of(at, question_target(name), args);
    const bool tensor = may_give_tensor(name) && !is_literal(args.at(0));
    return literal_node(question_target(name), std::move(args), !tensor);
  }

  Arg constant_of(std::size_t at, const std::string& target, const Args& args) {
    const Literal literal = compute(target, args, [](NodeId) { return nullptr; });
    if (!literal.problem.empty()) cursor_.fail(at, literal.problem);
    return literal.value;
  }

  Arg literal_node(const std::string& target, Args args, bool literal = true) {
    const NodeId id = builder_.call(target, std::move(args));
    if (literal) literals_.push_back(id);
    count();
    return id;
  }

  Arg operate(const char* op, Args args) {
    const std::size_t at = cursor_.position();
    const std::string target = std::string("operator.") + op;
    const bool constant =
        std::none_of(args.begin(), args.end(), [](const Arg& arg) { return arg.is<NodeId>(); });
    if (constant) return constant_of(at, target, args);
    const bool literal =
        std::all_of(args.begin(), args.end(), [&](const Arg& arg) { return is_literal(arg); });
    if (!literal && section_ == Section::where)
      cursor_.fail(at, "a condition cannot compute with tensors");
    if (!literal) return add(at, target, std::move(args), {});
    if (section_ == Section::before)
      cursor_.fail(at,
                   "'before' cannot compute with numbers that it matches: give the result a "
                   "name of its own");
    return literal_node(target, std::move(args));
  }

  Arg add(std::size_t at, const std::string& target, Args args, Kwargs kwargs) {
    if (section_ == Section::where) cursor_.fail(at, "a condition cannot call operators");
    check_target(at, target);
    const NodeId id = builder_.call(target, std::move(args), std::move(kwargs));
    count();
    calls_.push_back({id, at});
    return id;
  }

  void check_target(std::size_t at, const std::string& target) {
    const book::Target parts = book::parse_target(target);
    using TargetKind = book::Target::Kind;
    if (parts.kind == TargetKind::other)
      cursor_.fail(at, fmt::format("'{}' is no operator; write it like aten.matmul", target));
    const bool aten = parts.is_aten();
    if (aten && book::overloads(parts.name).empty()) {
      const std::string near = book::nearest_operator(parts.name);
      cursor_.fail(at,
                   fmt::format("there is no operator '{}'{}", target,
                               near.empty() ? "" : fmt::format("; did you mean 'aten.{}'?", near)));
    }
    if (aten && parts.name.ends_with("_") && !parts.name.ends_with("__"))
      cursor_.fail(at, fmt::format("'{}' works in place; rules do not", target));
  }

  void count() {
    if (++nodes_ > limits::kRuleNodes)
      cursor_.fail(cursor_.position(), fmt::format("more than {} operators in one graph of a rule",
                                                   limits::kRuleNodes));
  }

  // The limit of the text form: each level takes a stack frame, and rules come from strangers.
  struct Depth {
    explicit Depth(BodyReader& reader) : reader_(reader) {
      if (++reader_.depth_ > Cursor::kDeepest)
        reader_.cursor_.fail(reader_.cursor_.position(),
                             fmt::format("more than {} levels deep", Cursor::kDeepest));
    }
    ~Depth() { --reader_.depth_; }
    BodyReader& reader_;
  };

 public:
  // That every call has arguments that its operator takes.
  void check_calls(const Body& body) const {
    for (const auto& [id, at] : calls_) {
      const Node& node = body.model.graph()[id];
      const book::Call call(body.model, node);
      if (book::parse_target(node.target).is_aten() && !call.schema())
        cursor_.fail(at, fmt::format("'{}' does not take these arguments", node.target));
    }
  }

 private:
  Cursor& cursor_;
  Section section_;
  Builder builder_;
  const Graph no_nodes_;
  std::map<std::string, Arg> names_;
  std::set<std::string> taken_;
  std::vector<NodeId> inputs_, literals_;
  std::vector<std::pair<NodeId, std::size_t>> calls_;
  std::vector<std::string> assigned_;
  std::vector<Arg> results_;
  std::size_t nodes_ = 0;
  int depth_ = 0;
};

// ---- rules -------------------------------------------------------------------------------------

class RuleReader {
 public:
  explicit RuleReader(Cursor& cursor) : cursor_(cursor) {}

  Definition rule() {
    at_ = cursor_.position();
    cursor_.expect("rule");
    rule_.name = rule_name();
    if (cursor_.peek_quote()) rule_.summary = cursor_.string();
    if (cursor_.accept("approximate")) rule_.same_results = false;
    cursor_.expect_line_end();
    before();
    while (cursor_.next_line() && !starts("rule")) part();
    // Only after has to be there: a rule may have no condition, and compute nothing once.
    if (!has_after_) cursor_.fail(at_, fmt::format("rule '{}' has no 'after'", rule_.name));
    return std::move(rule_);
  }

 private:
  using Section = BodyReader::Section;

  // merge-lora
  std::string rule_name() {
    if (!cursor_.peek_word()) cursor_.fail_expected("the name of the rule");
    std::string name(cursor_.word());
    while (cursor_.accept('-')) {
      const std::string_view more = cursor_.word();
      if (more.empty()) cursor_.fail_expected("a letter");
      name.append("-").append(more);
    }
    return name;
  }

  bool starts(std::string_view word) {
    Cursor ahead(cursor_.text(), cursor_.position());
    return ahead.word() == word;
  }
  bool starts_part() {
    for (const char* word : {"rule", "before", "once", "after", "where"})
      if (starts(word)) return true;
    Cursor ahead(cursor_.text(), cursor_.position());
    return ahead.word() == "or" && ahead.peek(':');
  }

  void before() {
    const bool more = cursor_.next_line();
    const std::size_t at = cursor_.position();
    if (!more || !cursor_.accept("before")) cursor_.fail_expected("'before(…):'");
    cursor_.sequence('(', ')', [&] { variable(); });
    cursor_.expect(':');
    pattern(at);
  }

  void variable() {
    const std::size_t at = cursor_.position();
    Variable variable{.name = cursor_.name("the name of a variable")};
    if (find_variable(rule_, variable.name))
      cursor_.fail(at, fmt::format("'{}' is there twice", variable.name));
    if (variable.name.find('.') != variable.name.npos || variable.name == "return")
      cursor_.fail(at, fmt::format("'{}' cannot be the name of a variable", variable.name));
    if (cursor_.accept(':')) variable.kind = kind();
    if (cursor_.accept('=')) variable.default_value = ArgReader(cursor_, no_nodes_).arg();
    rule_.variables.push_back(std::move(variable));
    if (rule_.variables.size() > limits::kRuleVariables)
      cursor_.fail(at, fmt::format("more than {} variables", limits::kRuleVariables));
  }

  VariableKind kind() {
    const std::size_t at = cursor_.position();
    const std::string name = cursor_.name("a kind: weight, float, factor, int, bool, dtype, any");
    std::vector<std::string> all;
    for (const auto& [known, kind] : kKinds) {
      if (known == name) return kind;
      all.emplace_back(known);
    }
    cursor_.fail(at, fmt::format("there is no kind '{}'{}", name, did_you_mean(name, all)));
  }

  void part() {
    const std::size_t at = cursor_.position();
    if (cursor_.accept("or")) {
      cursor_.expect(':');
      return pattern(at);
    }
    if (cursor_.accept("once")) return once(at);
    if (cursor_.accept("after")) return after(at);
    if (cursor_.accept("where")) return where(at);
    cursor_.fail_expected("'or:', 'once:', 'after:', 'where:' or the next 'rule'");
  }

  // The statements of a part; they may begin on its own line.
  template <class F>
  void statements(F&& statement) {
    while (cursor_.next_line() && !starts_part()) statement();
  }

  void declare_variables(BodyReader& reader, bool tensors = true) {
    for (const Variable& variable : rule_.variables)
      if (tensors || variable.kind != VariableKind::value)
        reader.declare(variable.name, is_literal(variable.kind));
  }

  void graph(std::size_t at, BodyReader& reader, const char* part) {
    statements([&] {
      if (reader.returned()) cursor_.fail(cursor_.position(), "a line after 'return'");
      if (cursor_.accept("return"))
        reader.result();
      else
        reader.assignment();
    });
    if (!reader.returned()) cursor_.fail(at, fmt::format("'{}' returns nothing", part));
  }

  static std::set<NodeId> what_results_need(const Body& body) {
    std::set<NodeId> needed;
    std::vector<NodeId> next;
    for (const Arg& result : body.results) next.push_back(*result.get<NodeId>());
    while (!next.empty()) {
      const NodeId id = next.back();
      next.pop_back();
      if (needed.insert(id).second)
        for_each_input(body.model.graph()[id], [&](NodeId input) { next.push_back(input); });
    }
    return needed;
  }

  void pattern(std::size_t at) {
    BodyReader reader(cursor_, Section::before);
    declare_variables(reader);
    graph(at, reader, "before");
    Body body = reader.finish();
    const std::set<NodeId> needed = what_results_need(body);
    for (const Variable& variable : rule_.variables)
      // Each form has to bind every variable, or the rule has to say what it is where a form does
      // not.
      if (!variable.default_value && !needed.contains(body.named.at(variable.name)))
        cursor_.fail(at, fmt::format("this 'before' does not use '{}', which has no default",
                                     variable.name));
    reader.check_calls(body);
    if (!rule_.before.empty() && rule_.before[0].results.size() != body.results.size())
      cursor_.fail(at, "the forms of 'before' return different numbers of values");
    rule_.before.push_back(std::move(body));
    if (rule_.before.size() > limits::kRuleForms)
      cursor_.fail(at, fmt::format("more than {} forms of 'before'", limits::kRuleForms));
  }

  void once(std::size_t at) {
    if (rule_.once) cursor_.fail(at, "'once' is there twice");
    if (has_after_) cursor_.fail(at, "'once' comes before 'after'");
    cursor_.expect(':');
    BodyReader reader(cursor_, Section::once);
    // once runs when the rule is applied. Tensors of the graph have no values then.
    declare_variables(reader, /*tensors=*/false);
    // Its names are used in after, beside those of the variables.
    for (const Variable& variable : rule_.variables) reader.take(variable.name);
    statements([&] { reader.assignment(); });
    if (reader.assigned().empty()) cursor_.fail(at, "'once' computes nothing");
    rule_.once_names = reader.assigned();
    Body body = reader.finish();
    for (const std::string& name : rule_.once_names) body.results.push_back(reader.value_of(name));
    reader.check_calls(body);
    rule_.once = std::move(body);
  }

  void after(std::size_t at) {
    if (has_after_) cursor_.fail(at, "'after' is there twice");
    has_after_ = true;
    cursor_.expect(':');
    BodyReader reader(cursor_, Section::after);
    declare_variables(reader);
    for (const std::string& name : rule_.once_names) reader.declare(name, false);
    graph(at, reader, "after");
    Body body = reader.finish();
    reader.check_calls(body);
    if (body.results.size() != rule_.before[0].results.size())
      cursor_.fail(at, fmt::format("'after' returns {} values and 'before' {}", body.results.size(),
                                   rule_.before[0].results.size()));
    for (const Arg& result : body.results)
      if (reader.is_literal(result))
        cursor_.fail(at, "'after' returns something that is not a tensor");
    rule_.after = std::move(body);
  }

  void where(std::size_t at) {
    if (!rule_.conditions.empty()) cursor_.fail(at, "'where' is there twice");
    cursor_.expect(':');
    BodyReader reader(cursor_, Section::where);
    declare_variables(reader);
    // The values that only some forms name are known there.
    for (const Body& body : rule_.before)
      for (const auto& [name, node] : body.named)
        if (!find_variable(rule_, name) && declared_.insert(name).second)
          reader.declare(name, false);
    statements([&] {
      do {
        const std::size_t start = cursor_.position();
        Condition condition;
        condition.value = reader.condition();
        condition.text = cursor_.text().substr(start, cursor_.position() - start);
        while (condition.text.ends_with(' ') || condition.text.ends_with('\r'))
          condition.text.pop_back();
        if (!reader.is_literal(condition.value)) cursor_.fail(start, "a tensor is no condition");
        rule_.conditions.push_back(std::move(condition));
      } while (cursor_.accept(';') && !cursor_.at_line_end());
      cursor_.expect_line_end();
    });
    if (rule_.conditions.empty()) cursor_.fail(at, "'where' says nothing");
    rule_.where = reader.finish();
  }

  Cursor& cursor_;
  const Graph no_nodes_;
  Definition rule_;
  std::set<std::string> declared_;
  std::size_t at_ = 0;
  bool has_after_ = false;
};

}  // namespace

std::string_view to_string(VariableKind kind) {
  for (const auto& [name, known] : kKinds)
    if (known == kind) return name;
  return "";
}

const Variable* find_variable(const Definition& rule, std::string_view name) {
  for (const Variable& variable : rule.variables)
    if (variable.name == name) return &variable;
  return nullptr;
}

namespace {

// What stands between two rules is about the second.
std::string_view without_last_comment(std::string_view text) {
  while (true) {
    text = text.substr(0, text.find_last_not_of(" \t\r\n") + 1);
    const std::size_t line = text.rfind('\n') + 1;
    if (line == 0 || text[text.find_first_not_of(" \t", line)] != '#') return text;
    text = text.substr(0, line);
  }
}

}  // namespace

std::vector<Definition> parse_definitions(std::string_view text) {
  Cursor cursor(text);
  std::vector<Definition> rules;
  std::unordered_set<std::string> names;
  if (text.size() > limits::kRuleText)
    throw Error(fmt::format("a text of rules of more than {} bytes", limits::kRuleText));
  while (cursor.next_line()) {
    const std::size_t at = cursor.position();
    rules.push_back(RuleReader(cursor).rule());
    rules.back().text = without_last_comment(text.substr(at, cursor.position() - at));
    if (!names.insert(rules.back().name).second)
      cursor.fail(at, fmt::format("rule '{}' is there twice", rules.back().name));
  }
  if (rules.empty()) throw Error("line 1, column 1: expected 'rule NAME', found no rule");
  return rules;
}

}  // namespace refx::rules

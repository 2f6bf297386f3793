// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "book/effect.h"
#include "book/functions.h"
#include "book/layers.h"
#include "book/target.h"
#include "refx/model.h"

namespace c10 {
struct IValue;
struct FunctionSchema;
}  // namespace c10

namespace refx::book {

// What the book has on one target. Looked up once, then kept.
struct Entry {
  std::string target;
  Target parts;                                 // of a function; they point into `target`
  std::string name;                             // aten's, "div"; empty for somebody else's function
  const c10::FunctionSchema* schema = nullptr;  // of an operator that is spelled out
  const Function* function = nullptr;  // of torch.nn.functional, where it differs from aten
  std::uint32_t facts = 0;
  Effect effect;       // whatever its arguments are
  bool draws = false;  // random numbers, with some arguments
};
const Entry& look_up(const Node& node);  // of a call_function or call_method

// A call as aten has it, whichever way the model spells it. Refers to the model and the node.
class Call {
 public:
  enum class Spelled : std::uint8_t { nothing, op, function, method, module };

  Call(const Model& model, const Node& node);

  // How it is spelled; `nothing` for a node that calls nothing aten has: an input, an output, a
  // custom module, somebody else's function.
  Spelled spelled() const { return spelled_; }
  std::string_view name() const { return name_; }  // aten's: "linear"; empty for nothing
  bool is(std::string_view name) const { return name_ == name; }
  std::uint32_t facts() const;

  // An argument by the schema's name for it, as it is given or by default. None where it is left
  // out and has no default, where aten has no argument of that name, and where it is a layer's
  // tensor.
  std::optional<Arg> argument(std::string_view name) const;
  // The value of the graph that is given there; no id if it is something else.
  NodeId value(std::string_view name) const;
  // The state entry that is a layer's tensor there; none if it has none.
  StateId tensor(std::string_view name) const;
  // Whether aten has an argument of that name in such a call.
  bool takes(std::string_view name) const { return position(name).has_value(); }

  const Module* module() const { return module_; }
  // Of the operator that is meant, as far as its arguments tell; null for nothing.
  const c10::FunctionSchema* schema() const;

 private:
  std::optional<std::size_t> position(std::string_view name) const;
  const Operation* operation() const;
  std::optional<Arg> by_name(const std::string& name) const;

  const Model* model_;
  const Node* node_;
  Spelled spelled_ = Spelled::nothing;
  std::string_view name_;
  const Entry* entry_ = nullptr;
  const Module* module_ = nullptr;
  const Layer* layer_ = nullptr;
  mutable const c10::FunctionSchema* schema_ = nullptr;
};

// A default value of a schema as an argument; none for one that no graph can hold.
std::optional<Arg> arg_of(const c10::IValue& value);

// aten's name for what a node calls; empty if it calls nothing that aten has.
std::string_view name_of_call(const Model& model, const Node& node);
// What is called, for people: without namespace and overload; for a call_module, the module's type.
std::string_view shown_name(const Model& model, const Node& node);

}  // namespace refx::book

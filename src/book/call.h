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

// What the book knows about one target. It is looked up once and kept.
struct Entry {
  std::string target;
  Target parts;      // of a function; they point into `target`
  std::string name;  // aten's, "div"; empty for a function of another library
  const c10::FunctionSchema* schema = nullptr;  // of an operator that is spelled out
  const Function* function = nullptr;  // of torch.nn.functional, where it differs from aten
  std::uint32_t facts = 0;
  Effect effect;       // whatever its arguments are
  bool draws = false;  // random numbers, with some arguments
};
const Entry& look_up(const Node& node);  // of a call_function or call_method

// A call in terms of aten, for every spelling. It refers to the model and the node.
class Call {
 public:
  enum class Spelled : std::uint8_t { nothing, op, function, method, module };

  Call(const Model& model, const Node& node);

  // How the call is spelled; `nothing` for a node that calls nothing of aten: an input, an output,
  // a custom module, a function of another library.
  Spelled spelled() const { return spelled_; }
  std::string_view name() const { return name_; }  // aten's: "linear"; empty for nothing
  bool is(std::string_view name) const { return name_ == name; }
  std::uint32_t facts() const;

  // The argument with this name in the schema, as passed or by default. Nothing if it is left out
  // and has no default, if aten has no such argument, or if it is a layer's tensor.
  std::optional<Arg> argument(std::string_view name) const;
  // The value of the graph that is passed as this argument; no id for anything else.
  NodeId value(std::string_view name) const;
  // The state entry of a layer that is this argument; no id if the layer has none.
  StateId tensor(std::string_view name) const;
  // Returns true if the operator has an argument of that name.
  bool takes(std::string_view name) const { return position(name).has_value(); }

  const Module* module() const { return module_; }
  // The schema of the overload that the arguments select; null if there is none.
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
  const LayerFacts* layer_ = nullptr;
  mutable const c10::FunctionSchema* schema_ = nullptr;
};

// A default value of a schema as an argument; nothing if a graph cannot hold it.
std::optional<Arg> arg_of(const c10::IValue& value);

// The value that a call takes first, by position or by name; no id if that is no value.
NodeId first_input(const Node& node);

// aten's name of the operator that a node calls; empty if it calls nothing of aten.
std::string_view name_of_call(const Model& model, const Node& node);
// The name to show to users: without namespace and overload; for a call_module, the module's type.
std::string_view shown_name(const Model& model, const Node& node);

}  // namespace refx::book

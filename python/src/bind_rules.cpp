// SPDX-License-Identifier: Apache-2.0

// Rules: parsed, asked and registered in the library.

#include <torch/csrc/autograd/python_variable.h>

#include "bind.h"
#include "refx/rule.h"
#include "refx/text.h"

namespace refx::python {

namespace {

py::object from_arg(const Arg& arg, const Graph& graph) {
  auto items = [&](const Args& args) {
    py::list list;
    for (const Arg& item : args) list.append(from_arg(item, graph));
    return list;
  };
  return std::visit(
      [&]<class T>(const T& value) -> py::object {
        if constexpr (std::is_same_v<T, None>)
          return py::none();
        else if constexpr (std::is_same_v<T, List>)
          return items(value.items);
        else if constexpr (std::is_same_v<T, Tuple>)
          return py::tuple(items(value.items));
        else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                           std::is_same_v<T, c10::ScalarType> || std::is_same_v<T, c10::Device>)
          return py::cast(value);
        else
          return py::cast(print(arg, graph));
      },
      arg.value());
}

py::object shape_of(const TensorType& type) {
  py::list sizes;
  for (const Dim& size : type.sizes)
    sizes.append(size.known() ? py::object(py::int_(size.value)) : py::str(std::string(size.expr)));
  return py::tuple(sizes);
}

// Name, sizes, dtype and values of a tensor, as far as they are known.
py::tuple from_variable(const Model& model, const RuleMatch::Variable& variable) {
  if (variable.state) {
    const StateEntry& entry = model.state()[variable.state];
    require_content(entry.tensor);
    const TypePtr type = type_of(entry.tensor);
    return py::make_tuple(entry.name, shape_of(*type), type->dtype, at::Tensor(entry.tensor));
  }
  const Node& node = model.graph()[*variable.value.get<NodeId>()];
  if (!node.type) return py::make_tuple(node.name, py::none(), py::none(), py::none());
  return py::make_tuple(node.name, shape_of(*node.type), node.type->dtype, py::none());
}

// By name: whether it is a tensor, and what it is.
py::dict from_match(const RuleMatch& match) {
  py::dict variables;
  for (const RuleMatch::Variable& variable : match.variables) {
    const bool tensor = variable.state || variable.value.is<NodeId>();
    variables[py::str(variable.name)] =
        py::make_tuple(tensor, tensor ? from_variable(match.model, variable)
                                      : from_arg(variable.value, match.model.graph()));
  }
  return variables;
}

void set_check(Rule& rule, py::function check) {
  // Rules are registered until the end, when there is no Python any more: so it is never let go.
  using Why = std::optional<Reason>;
  rule.set_check([check = py::handle(check.release())](const RuleMatch& match) -> Why {
    const py::gil_scoped_acquire gil;
    const auto why = check(from_match(match)).cast<std::string>();
    return why.empty() ? Why() : custom_reason(why);
  });
}

}  // namespace

void bind_rules(py::module_& m) {
  py::class_<Rule>(m, "Rule", "A declarative rewrite rule.")
      .def_property_readonly("name", &Rule::name)
      .def_property_readonly("summary", &Rule::summary)
      .def_property_readonly("text", &Rule::text)
      .def_property_readonly("preserves_computation", &Rule::preserves_computation)
      .def("set_check", &set_check, py::arg("check"),
           "The check takes the matched variables by name, and returns a reason or ''.")
      .def("register", [](const Rule& self) { register_rule(self); });
  m.def("parse_rules", &parse_rules, py::arg("text"));
  m.def("load_rules", &load_rules, py::arg("path"));
}

}  // namespace refx::python

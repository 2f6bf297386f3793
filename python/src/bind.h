// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/ivalue.h>
#include <torch/csrc/utils/pybind.h>

#include "refx/model.h"
#include "refx/name.h"
#include "refx/reverse.h"

// A name is a str.
template <>
struct pybind11::detail::type_caster<refx::Name> {
  static constexpr auto name = const_name("str");
  static handle cast(const refx::Name& value, return_value_policy, handle) {
    return pybind11::str(std::string(value)).release();
  }
};

namespace refx::python {

namespace py = pybind11;

// The areas of the extension, one bind_<area>.cpp each.

void bind_tables(py::module_& m);
void bind_mirror(py::module_& m);
void bind_model(py::module_& m);
void bind_rules(py::module_& m);
void bind_lab(py::class_<Model>& model);

// Bisects the steps of a model; `judge` takes the ids of those that are kept. JSON and text.
std::pair<std::string, std::string> bisect_steps(const Model& model, const py::object& judge,
                                                 const py::object& progress);

// Tensors, numbers, strings and None, in tuples, lists and dicts.
c10::IValue to_value(py::handle object);

// 'reapply', 'refuse' or 'cascade'.
Dependents to_dependents(const std::string& text);

// Of the steps that depended on reversed ones, those that were not applied again: id, label, and
// whether their transformation is registered.
std::vector<std::tuple<std::uint32_t, std::string, bool>> dropped_steps(
    const std::vector<Reversal::Replaced>& replaced);

}  // namespace refx::python

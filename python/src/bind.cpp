// SPDX-License-Identifier: Apache-2.0

// The extension refx._core. No logic here: areas bind what the library has.

#include "bind.h"

#include "refx/explain.h"
#include "refx/hint.h"
#include "refx/old_names.h"
#include "refx/registry.h"
#include "refx/target.h"
#include "util/printable.h"

namespace refx::python {
namespace {

void bind_errors(py::module_& m) {
  static const py::handle error = py::exception<Error>(m, "Error", PyExc_ValueError).release();
  static const py::handle internal =
      py::exception<InternalError>(m, "InternalError", PyExc_RuntimeError).release();
  error.attr("__module__") = "refx";
  internal.attr("__module__") = "refx";
  py::register_exception_translator([](std::exception_ptr pointer) {
    try {
      if (pointer) std::rethrow_exception(pointer);
    } catch (const UnmatchedPattern& e) {
      const char* argument = e.of() == UnmatchedPattern::Of::site ? "site=" : "exclude=";
      const std::string problem = argument + e.problem("`Model.sites()` lists the sites");
      PyErr_SetString(error.ptr(), printable(problem).c_str());
    } catch (const HintedError& e) {
      PyErr_SetString(error.ptr(), printable(e.message(hint_as_argument)).c_str());
    } catch (const Error& e) {
      PyErr_SetString(error.ptr(), printable(e.what()).c_str());
    } catch (const InternalError& e) {
      PyErr_SetString(internal.ptr(), printable(e.what()).c_str());
    }
  });
}

}  // namespace
}  // namespace refx::python

PYBIND11_MODULE(_core, m) {
  using namespace refx::python;
  m.attr("__version__") = REFX_VERSION;
  bind_errors(m);
  m.def(
      "printable", [](const std::string& name) { return refx::printable(name); }, py::arg("name"),
      "A name with its control characters as escapes.");
  m.def(
      "transformations",
      [] {
        std::vector<std::pair<std::string, std::string>> all;
        for (const auto& t : refx::registry()) all.emplace_back(t->name(), t->summary());
        return all;
      },
      "Name and summary of every transformation of the library.");
  m.def(
      "find_transformations",
      [](const std::vector<std::string>& names) {
        std::vector<std::string> found;
        for (const auto& t : refx::find_transformations(names)) found.emplace_back(t->name());
        return found;
      },
      py::arg("names"), "The names themselves, and for \"all\" those that it stands for.");
  m.def(
      "all_names", [](const std::string& name) { return refx::all_names(name); }, py::arg("name"),
      "The current name of a transformation, followed by its former names.");
  m.def(
      "old_names",
      [] {
        std::vector<std::pair<std::string, std::string>> all;
        for (const refx::OldName& known : refx::old_names())
          all.emplace_back(known.old, known.current);
        return all;
      },
      "Former names of transformations, each with the current one.");
  m.def(
      "explain", &refx::explain, py::arg("what"),
      "Explains a transformation by its name, or a reason for a refusal by its code or its text.");
  m.def(
      "preserves_computation",
      [](const std::string& name) {
        return refx::find_transformation(name).preserves_computation();
      },
      py::arg("name"));
  bind_rules(m);
  bind_tables(m);
  m.def(
      "operator_parts",
      [](const std::string& target)
          -> std::optional<std::tuple<std::string, std::string, std::string>> {
        const auto parts = refx::operator_parts(target);
        if (!parts) return std::nullopt;
        return std::tuple(parts->space, parts->name, parts->overload);
      },
      py::arg("target"), "Namespace, name and overload of an operator of the dispatcher, or None.");
  bind_mirror(m);
  bind_model(m);
}

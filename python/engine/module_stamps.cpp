// SPDX-License-Identifier: Apache-2.0

#include "engine/module_stamps.h"

#include <algorithm>
#include <utility>

#include "engine/paths.h"
#include "refx/registry.h"

namespace refx::fx {

namespace {

// The attribute of a module or tensor that is its stamp.
PyObject* stamp() {
  static PyObject* name = intern("_refx_made");
  return name;
}

}  // namespace

void ModuleStamps::stamp_module(py::handle attributes, const std::string& path) {
  std::vector<std::string> signatures;
  if (PyObject* earlier = find(attributes, stamp()); earlier && PyTuple_Check(earlier))
    for (py::handle signature : py::handle(earlier))
      if (!tables_.stamped.contains(signature)) signatures.push_back(to_string(signature));
  if (auto found = authors().find(path); found != authors().end())
    for (const std::string& signature : found->second)
      if (std::find(signatures.begin(), signatures.end(), signature) == signatures.end()) {
        signatures.push_back(signature);
        tables_.stamped.add(signature);
      }
  if (signatures.empty()) {
    if (find(attributes, stamp())) check(PyDict_DelItem(attributes.ptr(), stamp()));
    return;
  }
  check(PyDict_SetItem(attributes.ptr(), stamp(), py::tuple(py::cast(signatures)).ptr()));
}

void ModuleStamps::stamp_tensor(py::handle tensor, std::string_view path) {
  if (auto found = authors().find(std::string(path)); found != authors().end())
    check(PyObject_SetAttr(tensor.ptr(), stamp(), py::tuple(py::cast(found->second)).ptr()));
}

const std::unordered_map<std::string, std::vector<std::string>>& ModuleStamps::authors() {
  if (!authors_) authors_ = mirror_.authors(tables_);
  return *authors_;
}

std::unordered_map<std::string, std::vector<std::string>> Mirror::authors(
    const Tables& tables) const {
  const py::dict& own = tables.signatures;
  std::unordered_map<std::string, std::vector<std::string>> authors;
  std::pair<Name, bool> known;  // a transformation, and whether it is the library's
  for (const Step& step : model_.history()) {
    if (known.first != step.transformation)
      known = {step.transformation, lookup_transformation(step.transformation) != nullptr};
    if (!known.second) continue;
    std::string signature = step.signature;
    if (own.size() > 0)
      if (PyObject* found = fx::find(own, py::int_(step.id.value))) signature = to_string(found);
    std::string_view last;
    auto note = [&](std::string_view path) {
      if (path == std::exchange(last, path)) return;
      auto& all = authors[std::string(path)];
      if (all.empty() || all.back() != signature) all.push_back(signature);
    };
    for (const Edit& edit : step.edits) {
      if (const auto* change = std::get_if<Change<Module>>(&edit); change && change->after)
        note(change->after->name);
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after) {
        const std::string_view path = split(change->after->name).first;
        note(!path.empty() && model_.modules().find(path) ? path : change->after->name.view());
      }
    }
  }
  return authors;
}

}  // namespace refx::fx

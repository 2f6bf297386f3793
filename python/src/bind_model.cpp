// SPDX-License-Identifier: Apache-2.0

// Exported programs: refx::Model as Python sees it. Values cross as tensors, numbers and strings in
// tuples, lists and dicts.

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/ivalue.h>
#include <torch/csrc/autograd/python_variable.h>

#include "bind.h"
#include "refx/detach.h"
#include "refx/diff.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/original.h"
#include "refx/pt2.h"
#include "refx/registry.h"
#include "refx/reverse.h"
#include "refx/source.h"
#include "refx/text.h"
#include "refx/values.h"
#include "refx/verify.h"
#include "refx/weights.h"

namespace refx::python {

namespace {

std::string type_name(py::handle object) {
  return py::str(py::type::handle_of(object).attr("__name__")).cast<std::string>();
}

// The parts of a container whose class is registered with torch's pytrees, such as a cache of
// transformers or a dataclass; null for anything else. The program knows its parts by their order.
py::object parts_of(py::handle object) {
  const py::object type = py::type::of(py::reinterpret_borrow<py::object>(object));
  const py::object nodes = py::module_::import("torch.utils._pytree").attr("SUPPORTED_NODES");
  const py::object node = nodes.attr("get")(type);
  if (node.is_none()) return {};
  const py::tuple flat = node.attr("flatten_fn")(object);
  return py::tuple(py::reinterpret_borrow<py::object>(flat[0]));
}

}  // namespace

c10::IValue to_value(py::handle object) {
  PyObject* p = object.ptr();
  if (object.is_none()) return {};
  if (THPVariable_Check(p)) return THPVariable_Unpack(p);
  if (PyBool_Check(p)) return p == Py_True;
  if (PyLong_Check(p)) return object.cast<std::int64_t>();
  if (PyFloat_Check(p)) return PyFloat_AS_DOUBLE(p);
  if (PyUnicode_Check(p)) return object.cast<std::string>();
  if (!PyTuple_CheckExact(p) && !PyList_CheckExact(p) && !PyDict_CheckExact(p))
    if (const py::object parts = parts_of(object)) return to_value(parts);
  if (PyTuple_Check(p)) {
    std::vector<c10::IValue> items;
    for (py::handle item : object) items.push_back(to_value(item));
    return c10::ivalue::Tuple::create(std::move(items));
  }
  if (PyList_Check(p)) {
    c10::impl::GenericList list(c10::AnyType::get());
    for (py::handle item : object) list.push_back(to_value(item));
    return list;
  }
  if (PyDict_Check(p)) {
    c10::impl::GenericDict dict(c10::StringType::get(), c10::AnyType::get());
    for (const auto& [key, item] : py::reinterpret_borrow<py::dict>(object)) {
      if (!PyUnicode_Check(key.ptr())) throw Error("inputs in a dict have strings as keys");
      dict.insert(key.cast<std::string>(), to_value(item));
    }
    return dict;
  }
  throw Error("an input is a " + type_name(object) +
              "; inputs are tensors, numbers and strings, in tuples, lists, dicts and containers "
              "that are registered with torch.utils._pytree");
}

namespace {

py::object from_value(const c10::IValue& value) {
  if (value.isNone()) return py::none();
  if (value.isTensor()) return py::cast(value.toTensor());
  if (value.isBool()) return py::bool_(value.toBool());
  if (value.isInt()) return py::int_(value.toInt());
  if (value.isDouble()) return py::float_(value.toDouble());
  if (value.isString()) return py::str(value.toStringRef());
  if (value.isTuple()) {
    const auto& items = value.toTupleRef().elements();
    py::tuple tuple(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) tuple[i] = from_value(items[i]);
    return tuple;
  }
  if (value.isList()) {
    py::list list;
    for (const c10::IValue& item : value.toListRef()) list.append(from_value(item));
    return list;
  }
  if (value.isGenericDict()) {
    py::dict dict;
    for (const auto& entry : value.toGenericDict())
      dict[from_value(entry.key())] = from_value(entry.value());
    return dict;
  }
  throw Error("the model returns a " + value.tagKind() + ", which has no Python form here");
}

py::object run(const Model& model, Executor& executor, py::handle args, py::handle kwargs) {
  std::vector<c10::IValue> both{to_value(args), to_value(kwargs)};
  const c10::IValue inputs = c10::ivalue::Tuple::create(std::move(both));
  c10::IValue output;
  {
    const py::gil_scoped_release no_gil;
    output = nest_output(model, executor.run(flatten_inputs(model, inputs)));
  }
  return from_value(output);
}

using Tensors = std::vector<std::tuple<std::string, std::string, std::size_t>>;

Tensors as_tuples(const std::vector<DetachedTensor>& tensors) {
  Tensors all;
  for (const DetachedTensor& tensor : tensors)
    all.emplace_back(tensor.name, print(tensor.dtype, Graph()), tensor.bytes);
  return all;
}

// The steps that any of these choose, each once; without them all.
std::vector<StepId> chosen(const Model& model,
                           const std::optional<std::vector<std::string>>& what) {
  if (!what) return model.history().ids();
  std::vector<StepId> all;
  for (const std::string& one : *what)
    for (StepId id : model.history().select(one))
      if (std::find(all.begin(), all.end(), id) == all.end()) all.push_back(id);
  return all;
}

}  // namespace

void bind_model(py::module_& m) {
  py::class_<Model> model(m, "Model", "An exported program in the library.");
  py::class_<Executor>(m, "Executor", "A model that is compiled to run, and the state of its runs.")
      .def(py::init([](const Model& model) {
             const py::gil_scoped_release no_gil;
             return std::make_unique<Executor>(model);
           }),
           py::arg("model"))
      .def("revision", &Executor::revision)
      .def("state", &Executor::state, py::call_guard<py::gil_scoped_release>())
      .def("reset_state", &Executor::reset_state, py::call_guard<py::gil_scoped_release>());
  model.def("copy", [](const Model& self) { return self; })
      .def(
          "save",
          [](const Model& self, const std::string& path) {
            const py::gil_scoped_release no_gil;
            save(self, path);
          },
          py::arg("path"))
      .def("require_unchanged",
           [](const Model& self) {
             if (self.source()) require_unchanged(*self.source());
           })
      .def("revision", &Model::revision)
      .def("text", [](const Model& self) { return print(self); })
      .def("output_spec",
           [](const Model& self) {
             return self.source() ? std::string(self.source()->output_spec()) : std::string();
           })
      .def("counts",
           [](const Model& self) {
             return py::make_tuple(self.graph().size(), self.state().size(), self.history().size());
           })
      .def("state",
           [](const Model& self) {
             py::list all;
             for (StateId id : self.state()) {
               const StateEntry& entry = self.state()[id];
               require_content(entry.tensor);
               all.append(py::make_tuple(entry.name, at::Tensor(entry.tensor),
                                         to_string(entry.kind), entry.persistent));
             }
             return all;
           })
      .def(
          "find",
          [](const Model& self, const std::vector<std::string>& names,
             std::vector<std::string> site, std::vector<std::string> exclude) {
            const auto transformations = find_transformations(names);
            std::vector<Findings> all;
            {
              const py::gil_scoped_release no_gil;
              all = find_sites(self, transformations, {std::move(site), std::move(exclude)});
            }
            // A refusal is (code, reason, names of the nodes that the reason is about).
            using Why = std::tuple<std::string, std::string, std::vector<std::string>>;
            std::vector<std::tuple<std::string, std::string, std::optional<Why>>> found;
            for (std::size_t i = 0; i < all.size(); ++i) {
              const std::string name = transformations[i]->name();
              for (const Site& site : all[i].sites)
                found.emplace_back(name, site.name, std::nullopt);
              for (const Refusal& refusal : all[i].refusals) {
                std::vector<std::string> nodes;
                for (NodeId id : refusal.nodes())
                  if (const Node* node = self.graph().find(id)) nodes.push_back(node->name);
                found.emplace_back(
                    name, refusal.site.name,
                    Why{code(refusal.reason), to_string(refusal.reason), std::move(nodes)});
              }
            }
            return found;
          },
          py::arg("transformations"), py::arg("site"), py::arg("exclude"))
      .def(
          "apply",
          [](Model& self, const std::vector<std::string>& names, std::vector<std::string> site,
             std::vector<std::string> exclude) {
            const py::gil_scoped_release no_gil;
            std::vector<std::uint32_t> ids;
            for (const Outcome& outcome : refx::apply(self, find_transformations(names),
                                                      {std::move(site), std::move(exclude)}))
              for (StepId id : outcome.steps) ids.push_back(id.value);
            return ids;
          },
          py::arg("transformations"), py::arg("site"), py::arg("exclude"))
      .def("steps",
           [](const Model& self) {
             py::list all;
             for (const Step& step : self.history()) {
               std::vector<std::string> nodes;
               for (NodeId id : step.nodes)
                 if (const Node* node = self.graph().find(id)) nodes.push_back(node->name);
               all.append(py::make_tuple(step.id.value, step.transformation, step.site, nodes,
                                         step.bytes(), step.signature, to_string(step.numerics)));
             }
             return all;
           })
      .def(
          "reverse",
          [](Model& self, const std::optional<std::vector<std::string>>& what,
             const std::string& dependents, bool discard, const std::string& base) {
            const py::gil_scoped_release no_gil;
            const ReversalPlan plan = plan_reversal(self, chosen(self, what));
            if (!base.empty()) attach(self, plan, base);
            return dropped_steps(
                refx::reverse(self, plan, {to_dependents(dependents), discard}).replaced);
          },
          py::arg("what"), py::arg("dependents"), py::arg("discard_changes"), py::arg("base"))
      .def(
          "load_weights",
          [](Model& self, const std::map<std::string, at::Tensor>& weights) {
            const py::gil_scoped_release no_gil;
            load_weights(self, {weights.begin(), weights.end()});
          },
          py::arg("weights"))
      .def(
          "move_to",
          [](Model& self, const at::Device& device) {
            const py::gil_scoped_release no_gil;
            move_to(self, device);
          },
          py::arg("device"))
      .def("redo", [](Model& self) { return redo(self); })
      .def("forget", [](Model& self) { forget(self); })
      .def("detach", [](Model& self) { return as_tuples(detach(self)); })
      .def("detached", [](const Model& self) { return as_tuples(detached(self)); })
      .def(
          "attach",
          [](Model& self, const std::string& base) {
            const py::gil_scoped_release no_gil;
            attach(self, base);
          },
          py::arg("base"))
      .def("original", [](const Model& self) { return original_of(self); })
      .def(
          "diff", [](const Model& self, const Model& other) { return to_text(diff(self, other)); },
          py::arg("other"))
      .def("run", &run, py::arg("executor"), py::arg("args"), py::arg("kwargs"));
  bind_lab(model);
  m.def(
      "load",
      [](const std::string& path, bool history, std::vector<std::string> allow_ops) {
        const py::gil_scoped_release no_gil;
        return load(path, {history, std::move(allow_ops)});
      },
      py::arg("path"), py::arg("history"), py::arg("allow_ops"));
}

}  // namespace refx::python

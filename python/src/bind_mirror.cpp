// SPDX-License-Identifier: Apache-2.0

#include <memory>

#include "bind.h"
#include "engine/mirror.h"
#include "refx/error.h"
#include "refx/registry.h"

namespace refx::python {

using namespace fx;

namespace {

std::vector<StepId> step_ids(const std::vector<std::uint32_t>& numbers) {
  std::vector<StepId> ids;
  for (std::uint32_t number : numbers) ids.emplace_back(number);
  return ids;
}

template <class T>
std::vector<std::uint32_t> numbers(const std::vector<Id<T>>& ids) {
  std::vector<std::uint32_t> values;
  for (Id<T> id : ids) values.push_back(id.value);
  return values;
}

template <class T>
std::vector<std::string> names(const std::vector<std::pair<Id<T>, std::string>>& objects) {
  std::vector<std::string> names;
  for (const auto& [id, name] : objects) names.push_back(name);
  return names;
}

py::list steps(const Mirror& mirror) {
  py::list all;
  for (const Step& step : mirror.model().history())
    all.append(py::make_tuple(step.id.value, step.transformation, step.signature, step.site,
                              numbers(step.nodes), step.bytes(), to_string(step.numerics)));
  return all;
}

// The tensors that live steps made, oldest first: (name, tensor, pieces). A piece is (name and
// tensor of the part, or None and None; dim, start, length). Without pieces it was computed.
py::list made(const Mirror& mirror) {
  py::list all;
  for (const Step& step : mirror.model().history()) {
    std::unordered_map<StateId, const Change<StateEntry>*> changes;
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit)) changes[change->id] = change;
    for (const Edit& edit : step.edits) {
      const auto* change = std::get_if<Change<StateEntry>>(&edit);
      if (!change || !change->after) continue;
      py::list pieces;
      for (const Piece& piece : step.pieces) {
        if (piece.whole != change->id) continue;
        const StateEntry* part = piece.part ? changes.at(piece.part)->before.get() : nullptr;
        pieces.append(py::make_tuple(part ? py::object(py::str(part->name)) : py::none(),
                                     part ? py::cast(at::Tensor(part->tensor)) : py::none(),
                                     piece.dim, piece.start, piece.length));
      }
      all.append(py::make_tuple(change->after->name, at::Tensor(change->after->tensor), pieces));
    }
  }
  return all;
}

py::tuple find_sites(const Mirror& mirror, const std::string& transformation) {
  Findings findings;
  {
    const py::gil_scoped_release no_gil;
    findings = mirror.find(find_transformation(transformation));
  }
  py::list sites, refusals;
  for (const Site& site : findings.sites)
    sites.append(py::make_tuple(site.name, numbers(site.nodes)));
  for (const Refusal& refusal : findings.refusals)
    refusals.append(py::make_tuple(refusal.site.name, numbers(refusal.nodes()),
                                   code(refusal.reason), to_string(refusal.reason)));
  return py::make_tuple(sites, refusals);
}

}  // namespace

std::vector<std::tuple<std::uint32_t, std::string, bool>> dropped_steps(
    const std::vector<Reversal::Replaced>& replaced) {
  std::vector<std::tuple<std::uint32_t, std::string, bool>> dropped;
  for (const Reversal::Replaced& step : replaced)
    if (step.reapplied.empty()) dropped.emplace_back(step.id.value, step.label, step.known);
  return dropped;
}

Dependents to_dependents(const std::string& text) {
  if (text == "reapply") return Dependents::reapply;
  if (text == "refuse") return Dependents::refuse;
  if (text == "cascade") return Dependents::cascade;
  throw Error("dependents is 'reapply', 'refuse' or 'cascade', not '" + text + "'");
}

void bind_mirror(py::module_& m) {
  py::class_<ChangedObjects>(m, "ChangedObjects",
                             "The objects that a change of a mirror concerns, for write().");
  py::class_<Mirror> mirror(m, "Mirror", "The model of a torch.fx.GraphModule, and its history.");
  mirror.attr("OTHERS") = Mirror::kOthers;
  mirror.def(py::init<>())
      .def(
          "read",
          [](Mirror& self, Tables& tables, py::handle graph_module,
             const std::string& transformation, const std::string& signature,
             bool preserves_computation) {
            const Numerics numerics =
                preserves_computation ? Numerics::preserved : Numerics::approximate;
            const StepId id =
                self.read(tables, graph_module, {transformation, signature, numerics});
            return id ? std::optional(id.value) : std::nullopt;
          },
          py::arg("tables"), py::arg("graph_module"), py::arg("transformation") = Mirror::kOthers,
          py::arg("signature") = "", py::arg("preserves_computation") = true)
      .def("attach", &Mirror::attach, py::arg("tables"), py::arg("graph_module"), py::arg("names"))
      .def(
          "bisect",
          [](const Mirror& self, const py::object& judge, const py::object& progress) {
            return bisect_steps(self.model(), judge, progress);
          },
          py::arg("judge"), py::arg("progress"))
      .def(
          "apply",
          [](Mirror& self, const std::string& transformation, const std::string& mark) {
            Mirror::Applied applied;
            {
              const py::gil_scoped_release no_gil;
              applied = self.apply(find_transformation(transformation), mark);
            }
            return std::pair(numbers(applied.steps), std::move(applied.changed));
          },
          py::arg("transformation"), py::arg("mark"))
      .def(
          "reverse",
          [](Mirror& self, const std::vector<std::uint32_t>& steps, const std::string& dependents,
             bool discard_changes) {
            ChangedObjects changed;
            std::vector<Reversal::Replaced> replaced;
            {
              const py::gil_scoped_release no_gil;
              changed = self.reverse(step_ids(steps), {to_dependents(dependents), discard_changes},
                                     replaced);
            }
            return std::pair(std::move(changed), dropped_steps(replaced));
          },
          py::arg("steps"), py::arg("dependents"), py::arg("discard_changes"))
      .def("write", &write, py::arg("tables"), py::arg("graph_module"), py::arg("changed"),
           py::arg("hooks"))
      .def("write_all", &write_all, py::arg("tables"), py::arg("graph_module"), py::arg("changed"))
      .def_static("put_back_containers", &put_back_containers, py::arg("tables"),
                  py::arg("graph_module"))
      .def(
          "select",
          [](const Mirror& self, const std::string& what) { return numbers(self.select(what)); },
          py::arg("what"))
      .def("find", &find_sites, py::arg("transformation"))
      .def("changed_by_steps",
           [](const Mirror& self) {
             const ChangedObjects changed = self.changed_by_steps();
             return py::make_tuple(numbers(changed.nodes), names(changed.states),
                                   names(changed.modules));
           })
      .def("tensors", &Mirror::tensors)
      .def("made", &made)
      .def("steps", &steps)
      .def(
          "steps_of",
          [](const Mirror& self, const std::string& signature) {
            return numbers(self.steps_of(signature));
          },
          py::arg("signature"))
      .def("has_steps", &Mirror::has_steps)
      .def("live",
           [](const Mirror& self) {
             const Graph& graph = self.model().graph();
             return numbers(std::vector<NodeId>(graph.begin(), graph.end()));
           })
      .def("slots", [](const Mirror& self) { return numbers(self.model().graph().slots()); })
      .def("save",
           [](const Mirror& self) {
             std::vector<at::Tensor> tensors;
             const std::string bytes = self.save(tensors);
             return py::make_tuple(py::bytes(bytes), tensors);
           })
      .def_static(
          "load",
          [](const py::bytes& bytes, const std::vector<at::Tensor>& tensors) {
            return Mirror::load(std::string_view(bytes), tensors);
          },
          py::arg("bytes"), py::arg("tensors"));
}

}  // namespace refx::python

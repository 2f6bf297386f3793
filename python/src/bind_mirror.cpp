#include <memory>

#include "bind.h"
#include "mirror.h"
#include "refx/error.h"
#include "refx/registry.h"

namespace refx::python {

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

py::tuple as_tuple(const Touched& touched) {
  return py::make_tuple(numbers(touched.nodes), touched.states, touched.modules);
}

py::object node(const Mirror& mirror, const Tables& tables, std::uint32_t id) {
  const Node* node = mirror.model().graph().find(NodeId(id));
  if (!node) return py::none();
  const auto [op, target] = from_target(tables, *node);
  return py::make_tuple(op, node->name, target, from_args(tables, node->args),
                        from_kwargs(tables, node->kwargs), py::tuple(py::cast(node->marks)));
}

py::object state(const Mirror& mirror, const std::string& name) {
  const State& state = mirror.model().state();
  const StateId id = state.find(name);
  if (!id) return py::none();
  return py::make_tuple(at::Tensor(state[id].tensor), to_string(state[id].kind),
                        state[id].persistent);
}

py::object module(const Mirror& mirror, const Tables& tables, const std::string& path) {
  const ModuleId id = mirror.model().modules().find(path);
  if (!id) return py::none();
  const Module& module = mirror.model().modules()[id];
  return py::make_tuple(module.type, from_kwargs(tables, module.parameters), module.training);
}

py::list steps(const Mirror& mirror) {
  py::list all;
  for (const Step& step : mirror.model().history())
    all.append(py::make_tuple(step.id.value, step.transformation, step.signature, step.site,
                              numbers(step.nodes), step.bytes()));
  return all;
}

py::tuple find(const Mirror& mirror, const std::string& transformation) {
  Findings findings;
  {
    const py::gil_scoped_release no_gil;
    findings = mirror.find(find_transformation(transformation));
  }
  py::list sites, refusals;
  for (const Site& site : findings.sites) sites.append(py::make_tuple(site.name, numbers(site.nodes)));
  for (const Refusal& refusal : findings.refusals)
    refusals.append(
        py::make_tuple(refusal.site.name, numbers(refusal.site.nodes), refusal.reason));
  return py::make_tuple(sites, refusals);
}

}  // namespace

Dependents to_dependents(const std::string& text) {
  if (text == "reapply") return Dependents::reapply;
  if (text == "refuse") return Dependents::refuse;
  if (text == "cascade") return Dependents::cascade;
  throw Error("dependents is 'reapply', 'refuse' or 'cascade', not '" + text + "'");
}

void bind_mirror(py::module_& m) {
  py::class_<Tables>(m, "Tables", "A journal's tables, looked up once for many questions.")
      .def(py::init<py::handle>(), py::keep_alive<1, 2>());
  py::class_<Mirror>(m, "Mirror", "What a torch.fx.GraphModule is to the library.")
      .def(py::init<>())
      .def("read",
           [](Mirror& self, py::handle owner, py::handle graph_module,
              const std::string& transformation, const std::string& signature) {
             const StepId id = self.read(owner, graph_module, {transformation, signature});
             return id ? std::optional(id.value) : std::nullopt;
           },
           py::arg("owner"), py::arg("graph_module"), py::arg("transformation") = Mirror::kOthers,
           py::arg("signature") = "")
      .def("attach", &Mirror::attach)
      .def("apply",
           [](Mirror& self, const std::string& transformation, std::vector<std::string> only,
              std::vector<std::string> except) {
             Mirror::Applied applied;
             {
               const py::gil_scoped_release no_gil;
               applied = self.apply(find_transformation(transformation),
                                    {std::move(only), std::move(except)});
             }
             return py::make_tuple(numbers(applied.steps), as_tuple(applied.touched));
           })
      .def("reverse",
           [](Mirror& self, const std::vector<std::uint32_t>& steps, const std::string& dependents,
              bool discard_changes) {
             Touched touched;
             {
               const py::gil_scoped_release no_gil;
               touched = self.reverse(step_ids(steps), {to_dependents(dependents), discard_changes});
             }
             return as_tuple(touched);
           })
      .def("select",
           [](const Mirror& self, const std::string& what) {
             return numbers(self.model().history().select(what));
           })
      .def("find", &find)
      .def("remembered", [](const Mirror& self) { return as_tuple(self.remembered()); })
      .def("fits",
           [](const Mirror& self, const Tables& tables, const std::string& path, py::handle module) {
             return self.fits(tables, path, module);
           })
      .def("node", &node)
      .def("state", &state)
      .def("module", &module)
      .def("has_module",
           [](const Mirror& self, const std::string& path) {
             return static_cast<bool>(self.model().modules().find(path));
           })
      .def("originals", [](const Mirror& self) {
        std::vector<at::Tensor> tensors;
        for (const Step& step : self.model().history())
          for (const Edit& edit : step.edits)
            if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
              tensors.emplace_back(change->before->tensor);
        return tensors;
      })
      .def("steps", &steps)
      .def("steps_of",
           [](const Mirror& self, const std::string& signature) {
             std::vector<std::uint32_t> ids;
             for (const Step& step : self.model().history())
               if (step.signature == signature) ids.push_back(step.id.value);
             return ids;
           })
      .def("has_steps",
           [](const Mirror& self) {
             for (const Step& step : self.model().history())
               if (step.transformation != Mirror::kOthers) return true;
             return false;
           })
      .def("previous",
           [](const Mirror& self, std::uint32_t id) {
             const NodeId previous = self.model().graph().previous(NodeId(id));
             return previous ? std::optional(previous.value) : std::nullopt;
           })
      .def("live", [](const Mirror& self) {
        const Graph& graph = self.model().graph();
        return numbers(std::vector<NodeId>(graph.begin(), graph.end()));
      })
      .def("places", [](const Mirror& self) { return numbers(self.model().graph().places()); })
      .def("save", [](const Mirror& self) {
        std::vector<at::Tensor> tensors;
        const std::string bytes = self.save(tensors);
        return py::make_tuple(py::bytes(bytes), tensors);
      })
      .def_static("load", [](const py::bytes& bytes, const std::vector<at::Tensor>& tensors) {
        return Mirror::load(std::string_view(bytes), tensors);
      });
}

}  // namespace refx::python

// Reads a GraphModule into its mirror. The first time everything is new. Later only what differs is
// written: nodes, modules and tensors that came, went or changed become one step; what training,
// .to() and .train() do is no rewrite, and is adopted without one.

#include <ATen/core/grad_mode.h>
#include <c10/core/SymInt.h>
#include <fmt/format.h>
#include <torch/csrc/Dtype.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "ir/id_set.h"
#include "mirror.h"
#include "paths.h"
#include "refx/editor.h"
#include "refx/error.h"
#include "refx/restore.h"
#include "refx/validate.h"

namespace refx::python {

namespace {

struct FoundState {
  std::string name;
  StateKind kind;
  bool persistent;
  PyObject* tensor;  // borrowed
  StateId id = {};   // of the model's entry of that name, once looked up
};

struct FoundModule {
  std::string path;
  PyObject* module;        // borrowed
  std::string_view outer;  // the path of a called module that it is part of; mostly none
};

// As a call in Python: a module that is inside itself is an error there.
struct Deeper {
  Deeper() {
    if (Py_EnterRecursiveCall(" while the modules are read") != 0) throw py::error_already_set();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
};

struct FxNode {
  py::object node;
  Opcode op;
};

TypePtr type_of_fake(const at::Tensor& tensor) {
  auto type = std::make_shared<TensorType>();
  type->dtype = tensor.scalar_type();
  type->device = tensor.device();
  for (const c10::SymInt& size : tensor.sym_sizes()) {
    const auto number = size.maybe_as_int();
    type->sizes.push_back(number ? Dim(*number) : Dim("s", -1));
  }
  return type;
}

// What ShapeProp or export left in the node's metadata.
TypePtr type_of_meta(PyObject* source) {
  if (!source) return nullptr;
  if (THPVariable_Check(source)) {
    const at::Tensor& tensor = THPVariable_Unpack(source);
    return tensor.layout() == c10::kStrided ? type_of_fake(tensor) : nullptr;
  }
  const py::handle meta(source);
  if (!PyTuple_Check(source) || !py::hasattr(meta, "shape") || !py::hasattr(meta, "dtype"))
    return nullptr;
  const py::object dtype = meta.attr("dtype");
  if (!THPDtype_Check(dtype.ptr())) return nullptr;
  auto type = std::make_shared<TensorType>();
  type->dtype = reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type;
  for (py::handle size : meta.attr("shape"))
    type->sizes.push_back(PyLong_CheckExact(size.ptr()) ? Dim(size.cast<std::int64_t>())
                                                        : Dim("s", -1));
  return type;
}

std::string names_of(const std::vector<Edit>& edits) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  for (const Edit& edit : edits)
    std::visit(
        [&](const auto& change) {
          names.push_back((change.after ? change.after : change.before)->name);
        },
        edit);
  std::string text;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) text += (i ? "," : "") + names[i];
  if (names.size() > kShown) text += fmt::format(",... ({} in all)", names.size());
  return text;
}

}  // namespace

namespace {

// A few places of its memory, mixed; none where that cannot be read at once.
std::optional<std::uint64_t> sample_of(const at::TensorBase& tensor, const void* storage) {
  constexpr std::size_t kWidth = 8, kPlaces = 64;
  if (!storage || !tensor.is_cpu() || !tensor.is_non_overlapping_and_dense() ||
      tensor.key_set().has(c10::DispatchKey::Python))
    return std::nullopt;
  const char* data =
      static_cast<const char*>(storage) + tensor.storage_offset() * tensor.itemsize();
  const std::size_t size = tensor.nbytes();
  if (size <= kWidth * kPlaces) return std::hash<std::string_view>{}({data, size});
  char places[kWidth * kPlaces];
  for (std::size_t i = 0; i < kPlaces; ++i)
    std::memcpy(places + kWidth * i, data + (size - kWidth) * i / (kPlaces - 1), kWidth);
  return std::hash<std::string_view>{}({places, sizeof places});
}

}  // namespace

Mirror::TensorSnapshot Mirror::TensorSnapshot::of(const at::TensorBase& tensor, bool sampled) {
  TensorSnapshot snapshot;
  snapshot.dtype = tensor.scalar_type();
  snapshot.device = tensor.device();
  if (tensor.has_storage()) snapshot.data = tensor.storage().unsafeGetStorageImpl()->data();
  if (sampled) snapshot.sample = sample_of(tensor, snapshot.data);
  return snapshot;
}

void Mirror::take_snapshots() {
  snapshots_.resize(model_.state().id_limit());
  for (StateId id : model_.state()) {
    TensorSnapshot& last = snapshots_[id.value];
    last = TensorSnapshot::of(model_.state().tensor(id), last.sample.has_value());
  }
}

void Mirror::take_snapshots(const ChangedObjects& changed) {
  snapshots_.resize(model_.state().id_limit());
  for (const auto& [id, name] : changed.states)
    if (const StateEntry* entry = model_.state().find(id))
      snapshots_[id.value] = TensorSnapshot::of(entry->tensor, true);
}

class Reader {
 public:
  Reader(Mirror& mirror, Tables& tables, py::handle graph_module)
      : mirror_(mirror),
        model_(mirror.model_),
        tables_(tables),
        graph_module_(graph_module),
        graph_(graph_module.attr("graph")) {}

  StepId run(const Mirror::Author& author) {
    survey_graph();
    survey_module(graph_module_, "", "");
    survey_attributes();
    if (!mirror_.is_read_) {
      fill();
      return {};
    }
    by_others_ = author.transformation == Mirror::kOthers;
    adopt_tensors();
    return compare(author);
  }

  void attach(const std::vector<std::string>& names);

 private:
  // Whether the node of the model does what that one does.
  bool is_like(NodeId id, const FxNode& fx_node) const;

  // ---- what is there ----------------------------------------------------------------------------

  void survey_graph() {
    const Fx& fx = Fx::get();
    const py::object root = attr(graph_, fx.root);
    for (py::object node = attr(root, fx.next); !node.is(root);) {
      const Opcode op = to_opcode(attr(node, fx.op));
      if (op == Opcode::call_module) called_.insert(to_string(attr(node, fx.target)));
      if (op == Opcode::get_attr) attributes_.push_back(to_string(attr(node, fx.target)));
      py::object next = attr(node, fx.next);
      fx_nodes_.push_back({std::move(node), op});
      node = std::move(next);
    }
  }

  void survey_module(py::handle module, const std::string& path, std::string_view outer) {
    const Deeper deeper;
    const Fx& fx = Fx::get();
    const py::dict attributes = attr(module, fx.dict);
    auto table = [&](PyObject* name) {
      PyObject* found = PyDict_GetItemWithError(attributes.ptr(), name);
      return found && PyDict_Check(found) ? found : nullptr;
    };
    auto below = [&](PyObject* name) {
      return path.empty() ? to_string(name) : path + "." + to_string(name);
    };
    if (auto called = called_.find(path); called != called_.end()) {
      modules_.push_back({path, module.ptr(), outer});
      outer = *called;
    } else if (!path.empty() && is_bare(attributes)) {  // so that its name is not given away
      modules_.push_back({path, module.ptr(), outer});
    }
    PyObject *key = nullptr, *value = nullptr;
    if (PyObject* parameters = table(fx.parameters))
      for (Py_ssize_t at = 0; PyDict_Next(parameters, &at, &key, &value);)
        add_state(below(key), StateKind::parameter, true, value);
    if (PyObject* buffers = table(fx.buffers)) {
      PyObject* transient = PyDict_GetItemWithError(attributes.ptr(), fx.non_persistent);
      for (Py_ssize_t at = 0; PyDict_Next(buffers, &at, &key, &value);)
        add_state(below(key), StateKind::buffer,
                  !(transient && PySet_Contains(transient, key) == 1), value);
    }
    if (PyObject* children = table(fx.modules))
      for (Py_ssize_t at = 0; PyDict_Next(children, &at, &key, &value);)
        if (value != Py_None) survey_module(value, below(key), outer);
  }

  // Whether there is nothing in it.
  static bool is_bare(const py::dict& attributes) {
    const Fx& fx = Fx::get();
    for (PyObject* name : {fx.parameters, fx.buffers, fx.modules})
      if (PyObject* found = PyDict_GetItemWithError(attributes.ptr(), name);
          !found || !PyDict_Check(found) || PyDict_GET_SIZE(found) > 0)
        return false;
    return true;
  }

  void add_state(std::string name, StateKind kind, bool persistent, PyObject* tensor) {
    if (!THPVariable_Check(tensor) || !THPVariable_Unpack(tensor).defined()) return;
    if (!THPVariable_CheckExact(tensor)) special_.insert(name);
    states_.push_back({std::move(name), kind, persistent, tensor});
  }

  // Tensors that are plain attributes, which get_attr nodes read.
  void survey_attributes() {
    if (attributes_.empty()) return;
    std::unordered_set<std::string_view> known;
    for (const FoundState& state : states_) known.insert(state.name);
    std::vector<FoundState> constants;
    std::unordered_set<std::string> seen;
    for (const std::string& name : attributes_) {
      if (known.count(name) || !seen.insert(name).second) continue;
      const py::object value = attribute_at(graph_module_, name);
      if (!THPVariable_Check(value.ptr())) continue;
      kept_.push_back(value);
      if (!THPVariable_CheckExact(value.ptr())) special_.insert(name);
      constants.push_back({name, StateKind::constant, false, value.ptr()});
    }
    for (FoundState& constant : constants) states_.push_back(std::move(constant));
  }

  // ---- as values of the core --------------------------------------------------------------------

  StateEntry entry_of(const FoundState& found) const {
    return {found.name, found.kind, found.persistent, THPVariable_Unpack(found.tensor)};
  }

  Module module_of(const FoundModule& found) const {
    Module module = describe(tables_, found.path, found.module);
    if (module.custom.empty() && !found.outer.empty())
      module.custom = fmt::format("is part of module '{}', which is called too", found.outer);
    return module;
  }

  // Metadata with the module that a call was made in, shared among the calls made there.
  MetaPtr meta_of(py::handle meta) {
    PyObject* stack = PyDict_GetItemWithError(meta.ptr(), Fx::get().module_stack);
    if (!stack || !PyDict_Check(stack) || PyDict_Size(stack) == 0) return nullptr;
    PyObject *key = nullptr, *value = nullptr, *last = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(stack, &at, &key, &value);) last = value;
    if (!PyTuple_Check(last) || PyTuple_GET_SIZE(last) == 0) return nullptr;
    if (!PyUnicode_Check(PyTuple_GET_ITEM(last, 0))) return nullptr;
    const std::string path = to_string(PyTuple_GET_ITEM(last, 0));
    if (path.empty()) return nullptr;
    MetaPtr& shared = metas_[path];
    if (!shared)
      shared = std::make_shared<const Meta>(Meta{{"nn_module_stack", path + "," + path + ","}});
    return shared;
  }

  static PyObject* type_source(const FxNode& fx_node, py::handle meta) {
    if (fx_node.op == Opcode::get_attr || PyDict_Size(meta.ptr()) == 0) return Py_None;
    PyObject* source = PyDict_GetItemWithError(meta.ptr(), Fx::get().val);
    if (!source) source = PyDict_GetItemWithError(meta.ptr(), Fx::get().tensor_meta);
    return source ? source : Py_None;
  }

  std::vector<std::string> marks_of(py::handle meta) const {
    std::vector<std::string> marks;
    PyObject* found = PyDict_GetItemWithError(meta.ptr(), Fx::get().marks);
    if (!found || !PyTuple_Check(found)) return marks;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(found); ++i)
      if (PyObject* mark = PyTuple_GET_ITEM(found, i); PyUnicode_Check(mark))
        marks.push_back(to_string(mark));
    return marks;
  }

  Node node_of(const FxNode& fx_node, py::handle meta) {
    const Fx& fx = Fx::get();
    Node node{.op = fx_node.op, .name = to_string(attr(fx_node.node, fx.name))};
    set_target(tables_, attr(fx_node.node, fx.target), node);
    if (node.op == Opcode::get_attr &&
        (!model_.state().find(node.target) || special_.count(node.target))) {
      node.op = Opcode::call_function;
      node.target = std::string(kOpaqueAttr) + node.target;
    }
    if (node.op == Opcode::call_module && !model_.modules().find(node.target))
      throw Error(fmt::format("node '{}' calls module '{}', which the GraphModule does not have",
                              node.name, node.target));
    const py::object args = attr(fx_node.node, fx.args);
    node.args.reserve(static_cast<std::size_t>(PyTuple_GET_SIZE(args.ptr())));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args.ptr()); ++i)
      node.args.push_back(to_arg(tables_, PyTuple_GET_ITEM(args.ptr(), i)));
    const py::object kwargs = attr(fx_node.node, fx.kwargs);
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; PyDict_Next(kwargs.ptr(), &at, &key, &value);)
      node.kwargs.emplace_back(to_string(key), to_arg(tables_, value));
    PyObject* source = type_source(fx_node, meta);
    node.type = type_of_meta(source == Py_None ? nullptr : source);
    if (node.op == Opcode::call_function || node.op == Opcode::call_method)
      node.meta = meta_of(meta);
    node.marks = marks_of(meta);
    return node;
  }

  // ---- the Python side of the tables ------------------------------------------------------------

  void remember(NodeId id, const FxNode& fx_node, py::handle meta) {
    const Fx& fx = Fx::get();
    tables_.grow(id.value + 1);
    tables_.set_node(id, fx_node.node);
    tables_.seen[id.value] = {attr(fx_node.node, fx.args), attr(fx_node.node, fx.kwargs),
                              attr(fx_node.node, fx.target),
                              py::reinterpret_borrow<py::object>(type_source(fx_node, meta))};
  }

  void set_id(const FxNode& fx_node, NodeId id) { tables_.set_id(fx_node.node, id); }

  // ---- the first time ---------------------------------------------------------------------------

  void fill() try {
    Restorer restorer(model_);
    tables_.grow(static_cast<std::uint32_t>(fx_nodes_.size()));
    restorer.reserve<StateEntry>(states_.size());
    restorer.reserve<Module>(modules_.size());
    restorer.reserve<Node>(fx_nodes_.size());
    for (const FoundState& found : states_)
      restorer.put(restorer.add_place<StateEntry>(),
                   std::make_shared<const StateEntry>(entry_of(found)));
    for (const FoundModule& found : modules_)
      restorer.put(restorer.add_place<Module>(), std::make_shared<const Module>(module_of(found)));
    for (const FxNode& fx_node : fx_nodes_) {
      const py::object meta = attr(fx_node.node, Fx::get().meta);
      Node node = node_of(fx_node, meta);
      const NodeId id = restorer.add_place<Node>();
      set_id(fx_node, id);
      remember(id, fx_node, meta);
      restorer.put(id, std::make_shared<const Node>(std::move(node)));
    }
    finish();
    mirror_.is_read_ = true;
  } catch (...) {
    model_ = Model();
    tables_.clear_nodes();
    throw;
  }

  void finish() {
    mirror_.training_ = attr(graph_module_, Fx::get().training).ptr() == Py_True;
    mirror_.take_snapshots();
  }

  // ---- training, .to(), .train() ----------------------------------------------------------------

  struct Conversion {
    std::optional<c10::ScalarType> dtype;  // of what is floating-point, where that changed
    c10::Device device;
  };
  using Impl = const c10::TensorImpl*;

  void adopt_tensors() {
    Editor quiet(model_);
    for (FoundState& found : states_) {
      const StateId id = found.id = model_.state().find(found.name);
      if (!id) continue;
      const at::Tensor& now = THPVariable_Unpack(found.tensor);
      const StateEntry& entry = model_.state()[id];
      const Impl then = entry.tensor.unsafeGetTensorImpl();
      const bool same = entry.tensor.is_same(now);
      if ((same || by_others_) && id.value < mirror_.snapshots_.size()) note_change(id, then, now);
      const bool rebound = !same && is_same_weight(entry.tensor, now);
      const bool registered = is_registered_anew(entry, found);
      if (!rebound && !registered) continue;
      StateEntry current = entry;
      if (rebound) current.tensor = now;
      if (registered) {
        current.kind = found.kind;
        current.persistent = found.persistent;
      }
      quiet.set_state(id, std::move(current));
    }
    for (const FoundModule& found : modules_) {
      if (!by_others_) break;
      const ModuleId id = model_.modules().find(found.path);
      const bool training = attr(found.module, Fx::get().training).ptr() == Py_True;
      if (!id || model_.modules()[id].training == training) continue;
      Module module = model_.modules()[id];
      module.training = training;
      quiet.set_module(id, std::move(module));
    }
    const bool training = attr(graph_module_, Fx::get().training).ptr() == Py_True;
    const bool toggled = training != mirror_.training_;
    if (!converted_.empty() || !moved_.empty() || toggled)
      adopt_in_history(quiet, toggled ? std::optional(training) : std::nullopt);
    quiet.commit_without_step();
  }

  // Another tensor in its place: a new value of the weight, or a rewrite?
  bool is_same_weight(const at::TensorBase& then, const at::Tensor& now) const {
    return by_others_ && then.sizes() == now.sizes();
  }

  // torch.fx registers whatever tensor a graph reads as a persistent buffer when it copies.
  bool is_registered_anew(const StateEntry& then, const FoundState& now) const {
    if (!by_others_ || then.kind == StateKind::parameter || now.kind == StateKind::parameter)
      return false;
    return then.kind != now.kind || then.persistent != now.persistent;
  }

  void note_change(StateId id, Impl then, const at::Tensor& now) {
    const Mirror::TensorSnapshot& last = mirror_.snapshots_[id.value];
    const Mirror::TensorSnapshot current = Mirror::TensorSnapshot::of(now, last.sample.has_value());
    if (last.dtype == c10::ScalarType::Undefined) return;
    if (last.dtype != current.dtype || last.device != current.device) {
      Conversion conversion{std::nullopt, current.device};
      if (last.dtype != current.dtype) conversion.dtype = current.dtype;
      converted_.emplace(then, conversion);
      if (then != now.unsafeGetTensorImpl()) replaced_.emplace(then, now);
    } else if (then == now.unsafeGetTensorImpl() &&
               ((last.data && last.data != current.data) || last.sample != current.sample)) {
      moved_.insert(then);
    }
  }

  // What was done to the GraphModule as a whole is done to what its history keeps.
  void adopt_in_history(Editor& quiet, std::optional<bool> training) {
    const std::vector<StepId> ids = model_.history().ids();
    for (auto it = ids.rbegin(); it != ids.rend(); ++it) {
      Step step = model_.history()[*it];
      std::unordered_map<StateId, TensorStamp*> stamps;
      for (TensorStamp& stamp : step.stamps) stamps.emplace(stamp.state, &stamp);
      std::optional<Conversion> conversion;
      for (Edit& edit : step.edits)
        if (auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after)
          adopt_after(*change, stamps[change->id], conversion);
      for (Edit& edit : step.edits) {
        if (auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
          if (conversion) convert_before(*change, *conversion);
        if (auto* change = std::get_if<Change<Module>>(&edit); change && training) {
          set_training(change->before, *training);
          set_training(change->after, *training);
        }
      }
      quiet.amend(std::move(step));
    }
  }

  void adopt_after(Change<StateEntry>& change, TensorStamp* stamp,
                   std::optional<Conversion>& conversion) {
    const Impl impl = change.after->tensor.unsafeGetTensorImpl();
    if (moved_.count(impl) && stamp) stamp->changed = true;
    auto found = converted_.find(impl);
    if (found == converted_.end()) return;
    if (!conversion) conversion = found->second;
    if (!conversion->dtype) conversion->dtype = found->second.dtype;
    auto replaced = replaced_.find(impl);
    if (replaced == replaced_.end()) return;
    const bool same = stamp && !is_changed(*stamp, change.after->tensor);
    set_tensor(change.after, replaced->second);
    if (same) *stamp = stamp_of(stamp->state, replaced->second);
  }

  void convert_before(Change<StateEntry>& change, const Conversion& conversion) {
    const at::Tensor old(change.before->tensor);
    const Impl impl = old.unsafeGetTensorImpl();
    converted_.emplace(impl, conversion);
    if (!replaced_.count(impl)) {
      const bool converts = conversion.dtype && at::isFloatingType(old.scalar_type());
      const auto dtype = converts ? *conversion.dtype : old.scalar_type();
      if (dtype == old.scalar_type() && conversion.device == old.device()) return;
      const at::NoGradGuard no_grad;
      at::Tensor now = old.detach().to(conversion.device, dtype);
      now.set_requires_grad(old.requires_grad());
      replaced_.emplace(impl, now);
    }
    set_tensor(change.before, replaced_.at(impl));
  }

  static void set_tensor(std::shared_ptr<const StateEntry>& entry, const at::Tensor& tensor) {
    auto changed = std::make_shared<StateEntry>(*entry);
    changed->tensor = tensor;
    entry = std::move(changed);
  }

  static void set_training(std::shared_ptr<const Module>& module, bool training) {
    if (!module) return;
    auto changed = std::make_shared<Module>(*module);
    changed->training = training;
    module = std::move(changed);
  }

  // ---- rewrites by others -----------------------------------------------------------------------

  StepId compare(const Mirror::Author& author) {
    Editor editor(model_);
    std::vector<std::pair<FxNode*, NodeId>> renumbered;  // and what they had been; no id: unknown
    try {
      compare_states(editor);
      compare_modules(editor);
      compare_nodes(editor, renumbered);
      erase_missing(editor);
      if (const auto found = problems(model_, editor.edits()); !found.empty())
        throw Error("the GraphModule is broken: " + found.front());
    } catch (...) {
      for (const auto& [fx_node, before] : renumbered)
        if (before)
          set_id(*fx_node, before);
        else
          PyDict_DelItem(tables_.ids.ptr(), fx_node->node.ptr());
      PyErr_Clear();
      throw;
    }
    for (NodeId id : gone_) {
      const py::object node = tables_.node(id);
      if (tables_.id_of(node) == id) PyDict_DelItem(tables_.ids.ptr(), node.ptr());
    }
    for (const auto& [fx_node, id] : reread_)
      remember(id, *fx_node, attr(fx_node->node, Fx::get().meta));
    const StepId step =
        editor.commit({author.transformation, author.signature, names_of(editor.edits()), {}});
    adopt_learnt();
    finish();
    return step;
  }

  void compare_states(Editor& editor) {
    StateId previous;
    for (const FoundState& found : states_) {
      StateId id = found.id;
      if (!id) {
        const StateId where = previous ? model_.state().next(previous) : model_.state().first();
        id = editor.insert_before(where, entry_of(found));
      } else {
        const StateEntry& entry = model_.state()[id];
        if (entry.kind != found.kind || entry.persistent != found.persistent ||
            !entry.tensor.is_same(THPVariable_Unpack(found.tensor)))
          editor.set_state(id, entry_of(found));
      }
      live_states_.insert(id);
      previous = id;
    }
  }

  void compare_modules(Editor& editor) {
    ModuleId previous;
    for (const FoundModule& found : modules_) {
      Module module = module_of(found);
      ModuleId id = model_.modules().find(found.path);
      if (!id && is_emptied(found)) continue;
      if (!id) {
        const ModuleId where =
            previous ? model_.modules().next(previous) : model_.modules().first();
        id = editor.insert_before(where, std::move(module));
      } else if (!(model_.modules()[id] == module)) {
        editor.set_module(id, std::move(module));
      }
      live_modules_.insert(id);
      previous = id;
    }
  }

  // Whether it did not come, but was there and lost what it held, to a step or just now.
  bool is_emptied(const FoundModule& found) {
    if (called_.count(found.path)) return false;
    if (!holders_) {
      holders_.emplace(model_);
      for (const Step& step : model_.history()) holders_->add(step);
    }
    return holders_->contains(found.path);
  }

  bool is_unchanged(NodeId id, const FxNode& fx_node, py::handle meta) const {
    const Node& node = model_.graph()[id];
    const bool opaque = node.target.starts_with(kOpaqueAttr);
    if (node.op != fx_node.op && !(opaque && fx_node.op == Opcode::get_attr)) return false;
    const Fx& fx = Fx::get();
    const Tables::Seen& seen = tables_.seen[id.value];
    if (!seen.args.is(attr(fx_node.node, fx.args)) ||
        !seen.kwargs.is(attr(fx_node.node, fx.kwargs)) ||
        !seen.target.is(attr(fx_node.node, fx.target)) ||
        seen.type.ptr() != type_source(fx_node, meta))
      return false;
    if (by_others_)
      return true;  // marks are refx's; others may share a dictionary with a marked node
    PyObject* marks = PyDict_GetItemWithError(meta.ptr(), fx.marks);
    return marks || !node.marks.empty() ? marks_of(meta) == node.marks : true;
  }

  void compare_nodes(Editor& editor, std::vector<std::pair<FxNode*, NodeId>>& renumbered) {
    const Graph& graph = model_.graph();
    NodeId previous;
    std::unordered_set<PyObject*> disturbed;  // they use a node that is another one now
    for (FxNode& fx_node : fx_nodes_) {
      const py::object meta = attr(fx_node.node, Fx::get().meta);
      const NodeId former = tables_.id_of(fx_node.node);
      NodeId id = former;
      // A node that was moved has lost its place: it is another one to the core.
      const bool known = id && graph.contains(id) && (!previous || graph.precedes(previous, id));
      if (known && !disturbed.count(fx_node.node.ptr()) && is_unchanged(id, fx_node, meta)) {
        visited_.insert(id);
        previous = id;
        continue;
      }
      Node node = node_of(fx_node, meta);
      if (known) {
        visited_.insert(id);
        const Node& old = graph[id];
        node.name = old.name;
        TypePtr type = std::exchange(node.type, old.type);
        MetaPtr place = std::exchange(node.meta, old.meta);
        const bool learnt = (type && (!old.type || *type != *old.type)) || (place && !old.meta);
        if (learnt) learnt_.push_back({id, type ? type : old.type, old.meta ? old.meta : place});
        if (!(node == old)) {
          std::vector<std::string> marks = node.marks;
          editor.set_node(id, std::move(node));
          if (marks != graph[id].marks) editor.set_marks(id, std::move(marks));
        }
      } else {
        const NodeId where = previous ? graph.next(previous) : graph.first();
        id = editor.insert_before(where, std::move(node));
        visited_.insert(id);
        renumbered.emplace_back(&fx_node, former);
        set_id(fx_node, id);
        if (former)
          for (py::handle user : attr(fx_node.node, Fx::get().users)) disturbed.insert(user.ptr());
      }
      reread_.emplace_back(&fx_node, id);
      previous = id;
    }
  }

  void erase_missing(Editor& editor) {
    std::vector<NodeId> nodes;
    for (NodeId id : model_.graph())
      if (!visited_.contains(id)) nodes.push_back(id);
    for (auto it = nodes.rbegin(); it != nodes.rend(); ++it) {
      editor.erase_node(*it);
      gone_.push_back(*it);
    }
    std::vector<StateId> states;
    for (StateId id : model_.state())
      if (!live_states_.contains(id)) states.push_back(id);
    for (StateId id : states) editor.erase_state(id);
    std::vector<ModuleId> modules;
    for (ModuleId id : model_.modules())
      if (!live_modules_.contains(id)) modules.push_back(id);
    for (ModuleId id : modules) editor.erase_module(id);
  }

  // What became known of a value is no rewrite either.
  void adopt_learnt() {
    if (learnt_.empty()) return;
    Editor quiet(model_);
    for (auto& [id, type, meta] : learnt_) {
      Node node = model_.graph()[id];
      node.type = std::move(type);
      node.meta = std::move(meta);
      quiet.set_node(id, std::move(node));
    }
    quiet.commit_without_step();
  }

  Mirror& mirror_;
  Model& model_;
  bool by_others_ = true;
  Tables& tables_;
  py::handle graph_module_;
  py::object graph_;

  std::vector<FxNode> fx_nodes_;
  std::unordered_set<std::string> called_;
  std::vector<std::string> attributes_;
  std::vector<FoundState> states_;
  std::unordered_set<std::string>
      special_;  // tensors of a class of their own, which is not refx's to rewrite
  std::vector<FoundModule> modules_;
  std::vector<py::object> kept_;
  std::unordered_map<std::string, MetaPtr> metas_;

  std::unordered_map<Impl, Conversion> converted_;
  std::unordered_map<Impl, at::Tensor> replaced_;
  std::unordered_set<Impl> moved_;

  std::optional<Holders> holders_;  // with those whose contents steps took, once asked for
  IdSet<StateEntry> live_states_;
  IdSet<Module> live_modules_;
  IdSet<Node> visited_;
  std::vector<NodeId> gone_;
  std::vector<std::pair<FxNode*, NodeId>> reread_;
  struct Learnt {
    NodeId id;
    TypePtr type;
    MetaPtr meta;
  };
  std::vector<Learnt> learnt_;
};

// torch.fx gives some nodes other names when it unpickles a graph, and others may have put nodes
// in.
void Reader::attach(const std::vector<std::string>& names) {
  survey_graph();
  const std::vector<NodeId> ids(model_.graph().begin(), model_.graph().end());
  tables_.grow(model_.graph().id_limit());
  const std::size_t size = fx_nodes_.size();
  std::unordered_map<std::string_view, NodeId> by_name;
  for (std::size_t i = 0; i < ids.size() && i < names.size(); ++i)
    by_name.emplace(names[i], ids[i]);

  std::vector<NodeId> named(size), placed(size);  // by their names; from both ends of the graph
  for (std::size_t i = 0; i < size; ++i) {
    auto it = by_name.find(to_string(attr(fx_nodes_[i].node, Fx::get().name)));
    if (it != by_name.end() && is_like(it->second, fx_nodes_[i])) named[i] = it->second;
  }
  const std::size_t common = std::min(size, ids.size());
  std::size_t front = 0, back = 0;
  for (; front < common && is_like(ids[front], fx_nodes_[front]); ++front)
    placed[front] = ids[front];
  for (; front + back < common && is_like(ids[ids.size() - 1 - back], fx_nodes_[size - 1 - back]);
       ++back)
    placed[size - 1 - back] = ids[ids.size() - 1 - back];

  const auto found = size - std::count(named.begin(), named.end(), NodeId{});
  const bool by_names = ids.size() != size && found >= front + back;
  IdSet<Node> taken;
  for (const std::vector<NodeId>& chosen : {by_names ? named : placed, by_names ? placed : named})
    for (std::size_t i = 0; i < size; ++i) {
      const FxNode& fx_node = fx_nodes_[i];
      const NodeId id = chosen[i];
      if (!id || tables_.id_of(fx_node.node) || !taken.insert(id)) continue;
      set_id(fx_node, id);
      tables_.set_node(id, fx_node.node);
      // torch.fx drops metadata when it pickles.
      if (const auto& marks = model_.graph()[id].marks; !marks.empty())
        attr(fx_node.node, Fx::get().meta)[py::handle(Fx::get().marks)] =
            py::tuple(py::cast(marks));
    }
}

bool Reader::is_like(NodeId id, const FxNode& fx_node) const {
  const Node& node = model_.graph()[id];
  Node other{.op = fx_node.op};
  set_target(tables_, attr(fx_node.node, Fx::get().target), other);
  if (fx_node.op == Opcode::get_attr && node.target.starts_with(kOpaqueAttr))
    return node.target.substr(kOpaqueAttr.size()) == other.target;
  return node.op == other.op && (node.target == other.target || node.op == Opcode::output);
}

StepId Mirror::read(Tables& tables, py::handle graph_module, const Author& author) {
  return Reader(*this, tables, graph_module).run(author);
}

void Mirror::attach(Tables& tables, py::handle graph_module,
                    const std::vector<std::string>& names) {
  Reader(*this, tables, graph_module).attach(names);
}

}  // namespace refx::python

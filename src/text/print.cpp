// SPDX-License-Identifier: Apache-2.0

#include <ATen/core/TensorBase.h>

#include <algorithm>
#include <ostream>
#include <unordered_map>

#include "book/enum_names.h"
#include "refx/text.h"
#include "text/extent.h"
#include "text/spelling.h"

namespace refx {

namespace {

// Appends the text of things to a string, each in the place where parse() expects it.
class Printer {
 public:
  explicit Printer(const Graph* graph, bool brief = false) : graph_(graph), brief_(brief) {}
  std::string take() { return std::move(out_); }

  void model(const Model& model);
  void node(NodeId id);
  void type(const TensorType& type);
  void arg(const Arg& value);

 private:
  void state(const StateEntry& entry);
  void storage(const StateEntry& entry);
  void module(const Module& module);
  void output(const Node& node);
  void call(const Node& node);
  void notes(const Node& node);
  void node_name(NodeId id);
  void dim(const Dim& dim);
  void device(c10::Device device);
  void attribute(std::string_view key);
  template <class Items, class F>
  void list(std::string_view open, const Items& items, std::string_view close, F&& print);
  void args(std::string_view open, const Args& items, std::string_view close);
  void tuple(const Args& items);
  void kwargs(const Kwargs& items);

  void value(None) { out_ += "None"; }
  void value(bool v) { out_ += v ? "True" : "False"; }
  void value(std::int64_t v) { append_int(out_, v); }
  void value(double v) { append_double(out_, v); }
  void value(const std::complex<double>& v);
  void value(const std::string& v) { append_string(out_, v); }
  void value(c10::ScalarType v) { torch(names_of(v).full); }
  void value(c10::Device v);
  void value(c10::Layout v) { torch(name_of(v)); }
  void value(c10::MemoryFormat v) { torch(name_of(v)); }
  void value(NodeId v) { node_name(v); }
  void value(const SymInt& v);
  void value(Ellipsis) { out_ += "..."; }
  void value(const Raw& v);
  void value(const List& v) { args("[", v.items, "]"); }
  void value(const Tuple& v) { tuple(v.items); }
  void value(const Slice& v) { args("slice(", v.parts, ")"); }
  void value(const Dict& v);
  void torch(std::string_view name) { out_.append("torch.").append(name); }

  const Graph* graph_;
  bool brief_;
  std::string out_;
  bool bare_nodes_ = false;  // in a return: "linear" instead of "%linear", as torch.fx has it
  std::unordered_map<const void*, const Name*> owners_;  // storage -> its first entry
};

// ---- the model ---------------------------------------------------------------------------------

void Printer::model(const Model& model) {
  for (StateId id : model.state()) state(model.state()[id]);
  for (ModuleId id : model.modules()) module(model.modules()[id]);
  for (const Mutation& mutation : model.mutations()) {
    out_ += "mutates ";
    append_name(out_, mutation.target);
    out_ += " = output ";
    append_int(out_, static_cast<std::int64_t>(mutation.output));
    out_ += '\n';
  }
  out_ += "graph():\n";
  for (NodeId id : model.graph()) {
    out_ += "    ";
    node(id);
    out_ += '\n';
  }
}

void Printer::state(const StateEntry& entry) {
  out_.append(to_string(entry.kind)).append(" ");
  append_name(out_, entry.name);
  out_ += " : ";
  TensorType stated = *type_of(entry.tensor);
  stated.strides.clear();
  if (entry.tensor.layout() == c10::kStrided &&
      checked_contiguous_strides(entry.tensor.sizes()) != entry.tensor.strides().vec())
    stated.strides.assign(entry.tensor.strides().begin(), entry.tensor.strides().end());
  type(stated);
  if (!entry.persistent) out_ += " persistent=False";
  if (entry.tensor.layout() == c10::kStrided && entry.tensor.has_storage()) storage(entry);
  out_ += '\n';
}

// Whose storage the entry uses, and where in it.
void Printer::storage(const StateEntry& entry) {
  const auto& storage = entry.tensor.storage();
  const auto [owner, first] = owners_.try_emplace(storage.unsafeGetStorageImpl(), &entry.name);
  if (!first) {
    attribute("shares");
    append_name(out_, *owner->second);
  }
  if (entry.tensor.storage_offset() != 0) {
    attribute("offset");
    append_int(out_, entry.tensor.storage_offset());
  }
  const auto needed = bytes_needed(entry.tensor.sizes(), entry.tensor.strides(),
                                   entry.tensor.storage_offset(), entry.tensor.itemsize());
  if (first && needed && static_cast<std::int64_t>(storage.nbytes()) > *needed) {
    attribute("storage");
    append_int(out_, static_cast<std::int64_t>(storage.nbytes()));
  }
}

void Printer::module(const Module& module) {
  out_ += "module ";
  append_name(out_, module.name);
  out_ += " : ";
  append_name(out_, module.type);
  list("(", module.parameters, ")", [&](const auto& parameter) {
    append_name(out_, parameter.first);
    out_ += '=';
    arg(parameter.second);
  });
  if (module.training) out_ += " training=True";
  if (!module.custom.empty()) {
    attribute("custom");
    append_string(out_, module.custom);
  }
  out_ += '\n';
}

// ---- nodes -------------------------------------------------------------------------------------

void Printer::node(NodeId id) {
  const Node& node = (*graph_)[id];
  const bool plain_output = node.op == Opcode::output && node.name == "output" &&
                            node.target == "output" && node.args.size() == 1 &&
                            node.kwargs.empty() && node.state.empty() && !node.type;
  if (plain_output) return output(node);
  out_ += '%';
  append_name(out_, node.name);
  out_ += " : ";
  if (node.type) {
    type(*node.type);
    out_ += ' ';
  }
  out_ += "[num_users=";
  append_int(out_, static_cast<std::int64_t>(graph_->num_users(id)));
  out_.append("] = ").append(to_string(node.op)).append("[target=");
  append_name(out_, node.target);
  out_ += ']';
  call(node);
  notes(node);
}

void Printer::output(const Node& node) {
  out_ += "return ";
  bare_nodes_ = true;
  arg(node.args[0]);
  bare_nodes_ = false;
  notes(node);
}

// The part in parentheses. An input has it only where there is something to say.
void Printer::call(const Node& node) {
  const bool input = node.op == Opcode::placeholder || node.op == Opcode::get_attr;
  const bool default_only =
      node.op == Opcode::placeholder && node.args.size() == 1 && node.kwargs.empty();
  std::string_view before = "(";
  const auto item = [&](std::string_view key) {
    out_.append(before).append(key);
    before = ", ";
  };
  if (default_only) {
    item("default=");
    arg(node.args[0]);
  } else if (!input || !node.args.empty() || !node.kwargs.empty()) {
    item("args = ");
    tuple(node.args);
    item("kwargs = ");
    kwargs(node.kwargs);
  }
  if (!node.state.empty()) {
    item("state=");
    append_name(out_, node.state);
  }
  if (before != "(") out_ += ')';
}

void Printer::notes(const Node& node) {
  const bool has_meta = node.meta && !node.meta->empty() && !brief_;
  if (!has_meta && node.marks.empty()) return;
  out_ += "  #";
  if (has_meta) {
    list(" meta {", *node.meta, "}", [&](const auto& entry) {
      append_name(out_, entry.first);
      out_ += ": ";
      append_string(out_, entry.second);
    });
  }
  if (!node.marks.empty())
    list(" marks [", node.marks, "]", [&](const auto& mark) { append_string(out_, mark); });
}

void Printer::node_name(NodeId id) {
  const Name& name = (*graph_)[id].name;
  const bool identifier = is_plain_name(name) && name.find('.') == std::string::npos &&
                          !(name[0] >= '0' && name[0] <= '9') && !is_reserved(name);
  if (!bare_nodes_ || !identifier) out_ += '%';
  append_name(out_, name);
}

// ---- types -------------------------------------------------------------------------------------

void Printer::type(const TensorType& type) {
  const auto each = [&](const Dim& d) { dim(d); };
  out_ += names_of(type.dtype).brief;
  list("[", type.sizes, "]", each);
  if (!type.strides.empty()) {
    attribute("strides");
    list("(", type.strides, ")", each);
  }
  if (type.device != c10::Device(c10::kCPU)) {
    attribute("device");
    device(type.device);
  }
  if (type.layout != c10::kStrided) {
    attribute("layout");
    out_ += name_of(type.layout);
  }
  if (type.requires_grad) out_ += " requires_grad=True";
}

void Printer::dim(const Dim& dim) {
  if (dim.known()) return append_int(out_, dim.value);
  append_expr(out_, dim.expr);
  if (dim.value == -1) return;
  out_ += '{';
  append_int(out_, dim.value);
  out_ += '}';
}

void Printer::device(c10::Device device) {
  out_ += name_of(device.type());
  if (!device.has_index()) return;
  out_ += ':';
  append_int(out_, device.index());
}

void Printer::attribute(std::string_view key) { out_.append(" ").append(key).append("="); }

// ---- arguments ---------------------------------------------------------------------------------

void Printer::arg(const Arg& value) {
  std::visit([this](const auto& v) { this->value(v); }, value.value());
}

template <class Items, class F>
void Printer::list(std::string_view open, const Items& items, std::string_view close, F&& print) {
  out_ += open;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out_ += ", ";
    first = false;
    print(item);
  }
  out_ += close;
}

void Printer::args(std::string_view open, const Args& items, std::string_view close) {
  list(open, items, close, [&](const Arg& item) { arg(item); });
}

void Printer::tuple(const Args& items) { args("(", items, items.size() == 1 ? ",)" : ")"); }

void Printer::kwargs(const Kwargs& items) {
  list("{", items, "}", [&](const auto& item) {
    append_name(out_, item.first);
    out_ += ": ";
    arg(item.second);
  });
}

void Printer::value(const std::complex<double>& v) {
  out_ += "complex(";
  append_double(out_, v.real());
  out_ += ", ";
  append_double(out_, v.imag());
  out_ += ')';
}

void Printer::value(c10::Device v) {
  out_.append("device(type='").append(name_of(v.type())).append("'");
  if (v.has_index()) {
    out_ += ", index=";
    append_int(out_, v.index());
  }
  out_ += ')';
}

void Printer::value(const SymInt& v) {
  out_ += "sym(";
  append_expr(out_, v.expr);
  out_ += ')';
}

void Printer::value(const Raw& v) {
  out_ += "raw(";
  constexpr std::size_t kShown = 40;
  if (brief_ && v.text.size() > kShown) {
    append_string(out_, std::string_view(v.text).substr(0, kShown));
    out_ += "...";
  } else {
    append_string(out_, v.text);
  }
  out_ += ')';
}

void Printer::value(const Dict& v) {
  list("{", v.items, "}", [&](const auto& item) {
    arg(item.first);
    out_ += ": ";
    arg(item.second);
  });
}

}  // namespace

std::string print(const Model& model) {
  Printer printer(&model.graph());
  printer.model(model);
  return printer.take();
}

std::string print_brief(const Model& model) {
  Printer printer(&model.graph(), true);
  printer.model(model);
  return printer.take();
}

std::string print(const Graph& graph, NodeId node) {
  Printer printer(&graph);
  printer.node(node);
  return printer.take();
}

std::string print(const TensorType& type) {
  Printer printer(nullptr);
  printer.type(type);
  return printer.take();
}

std::string print(const Arg& arg, const Graph& graph) {
  Printer printer(&graph);
  printer.arg(arg);
  return printer.take();
}

std::ostream& operator<<(std::ostream& out, const Model& model) { return out << print(model); }

}  // namespace refx

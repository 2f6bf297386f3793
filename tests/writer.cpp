// SPDX-License-Identifier: Apache-2.0

#include "writer.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <fmt/format.h>

#include "graph_json/tensor_meta.h"

namespace refx::testing {

Writer::Writer(Spelling spelling, at::ScalarType dtype, std::uint64_t seed)
    : spelling_(spelling), dtype_(dtype), generator_(at::detail::createCPUGenerator(seed)) {}

at::Tensor Writer::random(std::vector<std::int64_t> sizes) {
  return at::randn(sizes, generator_, at::kDouble).to(dtype_);
}

NodeId Writer::input(std::vector<std::int64_t> sizes) {
  const at::Tensor value = random(std::move(sizes));
  const NodeId id = builder_.input("x" + std::to_string(values_.size()), type_of(value));
  values_[id] = value;
  return id;
}

NodeId Writer::parameter(const std::string& name, at::Tensor tensor) {
  if (!states_.count(name)) {
    tensor.set_requires_grad(requires_grad_);
    StateEntry entry{name, StateKind::parameter, true, tensor};
    states_[name] = entry;
    if (spelling_ == Spelling::aten)
      lifted_[name] = builder_.parameter(name, tensor);
    else
      builder_.state(entry);
  }
  return read(name);
}

NodeId Writer::buffer(const std::string& name, at::Tensor tensor) {
  if (!states_.count(name)) {
    StateEntry entry{name, StateKind::buffer, true, tensor};
    states_[name] = entry;
    if (spelling_ == Spelling::aten)
      lifted_[name] = builder_.buffer(name, tensor);
    else
      builder_.state(entry);
  }
  if (spelling_ != Spelling::module || name.find('.') != name.npos) return read(name);
  const NodeId id = builder_.get_attr(name);
  values_[id] = tensor;
  return id;
}

NodeId Writer::read(const std::string& name) {
  NodeId id;
  if (spelling_ == Spelling::aten) id = lifted_.at(name);
  if (spelling_ == Spelling::functional) id = builder_.get_attr(name);
  if (id) values_[id] = at::Tensor(states_.at(name).tensor);
  return id;
}

const at::TensorBase& Writer::tensor(const std::string& state) const {
  return states_.at(state).tensor;
}

// Runs the one call on the values of its inputs.
NodeId Writer::learn(NodeId node, const Node& call) {
  Builder one;
  std::vector<c10::IValue> inputs;
  std::unordered_map<NodeId, NodeId> renamed;
  for_each_input(call, [&](NodeId input) {
    if (renamed.count(input)) return;
    if (!values_.count(input)) values_[input] = at::Tensor();
    renamed[input] = one.input("v" + std::to_string(inputs.size()));
    inputs.emplace_back(values_[input].clone());
  });
  std::function<Arg(const Arg&)> rename = [&](const Arg& arg) -> Arg {
    if (const NodeId* id = arg.get<NodeId>()) return renamed.at(*id);
    const auto all = [&](const Args& items) {
      Args copy;
      for (const Arg& item : items) copy.push_back(rename(item));
      return copy;
    };
    if (const List* list = arg.get<List>()) return List{all(list->items)};
    if (const Tuple* tuple = arg.get<Tuple>()) return Tuple{all(tuple->items)};
    return arg;
  };
  Args args;
  for (const Arg& arg : call.args) args.push_back(rename(arg));
  NodeId result;
  if (call.op == Opcode::call_module) {
    one.module(modules_.at(call.target));
    for (const auto& [name, entry] : states_)
      if (name.starts_with(call.target + ".")) {
        StateEntry copy = entry;
        copy.tensor = at::Tensor(entry.tensor).detach().clone();
        one.state(copy);
      }
    result = one.call_module(call.target, args);
  } else if (call.op == Opcode::call_method) {
    result = one.method(call.target, args);
  } else {
    result = one.call(call.target, args, call.kwargs);
  }
  const c10::IValue value = one.build(result).forward(std::move(inputs));
  if (!value.isTensor()) return node;
  values_[node] = value.toTensor();
  if (spelling_ == Spelling::aten) builder_.typed(type_of(values_[node]));
  return node;
}

NodeId Writer::function(const std::string& aten, const std::string& torch, Args args) {
  Node call{.op = Opcode::call_function,
            .target = spelling_ == Spelling::aten ? aten : torch,
            .args = args};
  return learn(builder_.call(call.target, std::move(args)), call);
}

NodeId Writer::module(Module module, NodeId x) {
  const std::string path = module.name;
  if (modules_.emplace(path, module).second) builder_.module(std::move(module));
  return learn(builder_.call_module(path, {x}),
               {.op = Opcode::call_module, .target = path, .args = {x}});
}

NodeId Writer::linear(NodeId x, const std::string& path, std::int64_t out, bool bias) {
  const std::int64_t in = value(x).size(-1);
  const NodeId w = parameter(path + ".weight", random({out, in}));
  const NodeId b = bias ? parameter(path + ".bias", random({out})) : NodeId{};
  if (spelling_ == Spelling::module)
    return module({.name = path,
                   .type = "torch.nn.Linear",
                   .parameters = {{"in_features", in}, {"out_features", out}, {"bias", bias}},
                   .training = false,
                   .custom = ""},
                  x);
  Args args{x, w};
  if (bias) args.emplace_back(b);
  return function("aten.linear.default", "torch.nn.functional.linear", args);
}

NodeId Writer::conv(NodeId x, const std::string& path, std::int64_t out, ConvOptions o) {
  const std::int64_t in = value(x).size(1);
  const auto dims = static_cast<std::size_t>(value(x).dim() - 2);  // with a batch
  std::vector<std::int64_t> sizes{o.transposed ? in : out, (o.transposed ? out : in) / o.groups};
  sizes.insert(sizes.end(), dims, o.kernel);
  const NodeId w = parameter(path + ".weight", random(sizes));
  const NodeId b = o.bias ? parameter(path + ".bias", random({out})) : NodeId{};
  if (spelling_ == Spelling::module) {
    auto each = [&](std::int64_t v) { return Tuple{Args(dims, v)}; };
    Module layer{.name = path,
                 .type = fmt::format("torch.nn.Conv{}{}d", o.transposed ? "Transpose" : "", dims),
                 .parameters = {{"in_channels", in},
                                {"out_channels", out},
                                {"kernel_size", each(o.kernel)},
                                {"stride", each(o.stride)},
                                {"padding", each(o.padding)},
                                {"dilation", each(o.dilation)},
                                {"groups", o.groups},
                                {"bias", o.bias}},
                 .training = false,
                 .custom = ""};
    return module(std::move(layer), x);
  }
  auto each = [&](std::int64_t v) { return List{Args(dims, v)}; };
  Args args{x, w, o.bias ? Arg(b) : Arg(None{}), each(o.stride), each(o.padding)};
  if (o.transposed) {
    args.insert(args.end(), {each(0), o.groups, each(o.dilation)});
    return function(fmt::format("aten.conv_transpose{}d.{}", dims, dims == 1 ? "default" : "input"),
                    fmt::format("torch.conv_transpose{}d", dims), args);
  }
  args.insert(args.end(), {each(o.dilation), o.groups});
  return function(fmt::format("aten.conv{}d.default", dims), fmt::format("torch.conv{}d", dims),
                  args);
}

NodeId Writer::norm(NodeId x, const std::string& path, NormOptions o) {
  const std::int64_t channels = value(x).size(1);
  Arg w = None{}, b = None{}, mean = None{}, var = None{};
  if (o.affine) {
    w = parameter(path + ".weight", random({channels}));
    b = parameter(path + ".bias", random({channels}));
  }
  if (o.track) {
    mean = buffer(path + ".running_mean", random({channels}));
    var = buffer(path + ".running_var", random({channels}).abs() + 0.5);
    if (spelling_ == Spelling::module)
      buffer(path + ".num_batches_tracked", at::zeros({}, at::kLong));
  }
  const auto dims = std::max<std::int64_t>(1, value(x).dim() - 2);
  if (spelling_ == Spelling::module)
    return module({.name = path,
                   .type = fmt::format("torch.nn.BatchNorm{}d", dims),
                   .parameters = {{"num_features", channels},
                                  {"eps", 1e-5},
                                  {"momentum", 0.1},
                                  {"affine", o.affine},
                                  {"track_running_stats", o.track}},
                   .training = o.training,
                   .custom = ""},
                  x);
  const bool training = o.training || !o.track;
  if (spelling_ == Spelling::functional)
    return function("", "torch.nn.functional.batch_norm",
                    {x, mean, var, w, b, training, 0.1, 1e-5});
  return function("aten.batch_norm.default", "", {x, w, b, mean, var, training, 0.1, 1e-5, true});
}

NodeId Writer::call(const std::string& name, Args args, const std::string& overload) {
  return function("aten." + name + "." + overload, "torch." + name, std::move(args));
}

namespace {

// The subgraph "-x * 2" for a value like this one, as torch.export writes it.
Raw doubled_negative(const at::Tensor& x) {
  std::string type;
  append_tensor_meta(type, *type_of(x), Symbols());
  const auto tensor = [](const std::string& name) {
    return fmt::format(R"({{"as_tensor": {{"name": "{}"}}}})", name);
  };
  const auto call = [&](const std::string& op, const std::string& inputs, const std::string& name) {
    return fmt::format(
        R"({{"target": "torch.ops.aten.{}", "inputs": [{}], "outputs": [{}], "metadata": {{}}, )"
        R"("is_hop_single_tensor_return": null, "name": "{}"}})",
        op, inputs, tensor(name), name);
  };
  const auto given = [](const std::string& name, const std::string& arg) {
    return fmt::format(R"({{"name": "{}", "arg": {}, "kind": 1}})", name, arg);
  };
  return Raw{fmt::format(
      R"({{"as_graph": {{"name": "submod_1", "graph": {{"inputs": [{0}], "outputs": [{1}], )"
      R"("nodes": [{2}, {3}], "tensor_values": {{"x0": {4}, "turned": {4}, "doubled": {4}}}, )"
      R"("sym_int_values": {{}}, "sym_bool_values": {{}}, "is_single_tensor_return": true, )"
      R"("custom_obj_values": {{}}, "sym_float_values": {{}}}}}}}})",
      tensor("x0"), tensor("doubled"), call("neg.default", given("self", tensor("x0")), "turned"),
      call("mul.Tensor",
           given("self", tensor("turned")) + ", " + given("other", R"({"as_float": 2.0})"),
           "doubled"),
      type)};
}

}  // namespace

NodeId Writer::region(NodeId x) {
  const std::string op = "higher_order.wrap_with_set_grad_enabled";
  return function(op, op, {false, doubled_negative(value(x)), x});
}

NodeId Writer::branch(NodeId x) {
  const std::string op = "higher_order.cond";
  const Raw subgraph = doubled_negative(value(x));
  return function(op, op, {true, subgraph, subgraph, Tuple{{x}}});
}

NodeId Writer::divide(NodeId x, Arg divisor) {
  if (const NodeId* id = divisor.get<NodeId>(); id && !values_.count(*id))
    values_[*id] = at::Tensor(states_.begin()->second.tensor);
  return function("aten.div.Tensor", "operator.truediv", {x, std::move(divisor)});
}

}  // namespace refx::testing

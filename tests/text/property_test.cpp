// SPDX-License-Identifier: Apache-2.0

// Any model comes back from its text: the same text, and equal nodes.

#include "property.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <bit>
#include <functional>

#include "refx/editor.h"
#include "refx/error.h"
#include "refx/text.h"
#include "text/zeros.h"

namespace refx {
namespace {

using rc::gen::arbitrary;
using rc::gen::element;
using rc::gen::inRange;

// Short strings of any bytes; half of them look like code.
std::string any_string() {
  return *rc::gen::oneOf(
      arbitrary<std::string>(),
      rc::gen::container<std::string>(element('a', 's', '0', '9', '_', '.', '-', '+', '*', '(', ')',
                                              '[', ']', '{', '}', ',', ':', ' ', '"', '\'', '\\',
                                              '#', '%', '\n', '\r', '\xc3', '\xbc')));
}

std::string any_name() {
  return *rc::gen::oneOf(
      rc::gen::nonEmpty(rc::gen::container<std::string>(inRange('a', 'z'))),
      element<std::string>("None", "inf", "torch.float32", "0", "sym", "a.b", "x"),
      rc::gen::exec([] { return any_string() + "!"; }));
}

double any_double() {
  return std::bit_cast<double>(
      *rc::gen::oneOf(arbitrary<std::uint64_t>(),
                      rc::gen::map(arbitrary<double>(), std::bit_cast<std::uint64_t, double>)));
}

template <class Enum>
Enum any_enum(int limit) {
  return static_cast<Enum>(*inRange(0, limit));
}

c10::Device any_device() {
  const auto type = any_enum<c10::DeviceType>(c10::COMPILE_TIME_MAX_DEVICE_TYPES);
  const int last = type == c10::kCPU ? 0 : 127;
  return {type, static_cast<c10::DeviceIndex>(*inRange(-1, last + 1))};
}

c10::ScalarType any_dtype() { return any_enum<c10::ScalarType>(c10::NumScalarTypes); }
c10::Layout any_layout() {
  return any_enum<c10::Layout>(static_cast<int>(c10::Layout::NumOptions));
}

Arg any_arg(const std::vector<NodeId>& nodes, int depth);

Args any_args(const std::vector<NodeId>& nodes, int depth) {
  Args args;
  for (int n = *inRange(0, 4); n > 0; --n) args.push_back(any_arg(nodes, depth));
  return args;
}

Kwargs any_kwargs(const std::vector<NodeId>& nodes, int depth) {
  Kwargs kwargs;
  for (int n = *inRange(0, 3); n > 0; --n)
    kwargs.emplace_back(any_name() + std::to_string(n), any_arg(nodes, depth));
  return kwargs;
}

Arg any_scalar(const std::vector<NodeId>& nodes) {
  switch (*inRange(0, 14)) {
    case 0:
      return None{};
    case 1:
      return *arbitrary<bool>();
    case 2:
      return *arbitrary<std::int64_t>();
    case 3:
      return any_double();
    case 4:
      return std::complex<double>(any_double(), any_double());
    case 5:
      return any_string();
    case 6:
      return any_dtype();
    case 7:
      return any_device();
    case 8:
      return any_layout();
    case 9:
      return any_enum<c10::MemoryFormat>(static_cast<int>(c10::MemoryFormat::NumOptions));
    case 10:
      return SymInt{any_string()};
    case 11:
      return Ellipsis{};
    case 12:
      return Raw{any_string()};
    default:
      return nodes.empty() ? Arg() : Arg(*rc::gen::elementOf(nodes));
  }
}

Arg any_arg(const std::vector<NodeId>& nodes, int depth) {
  if (depth == 0 || *inRange(0, 3) > 0) return any_scalar(nodes);
  switch (*inRange(0, 4)) {
    case 0:
      return List{any_args(nodes, depth - 1)};
    case 1:
      return Tuple{any_args(nodes, depth - 1)};
    case 2:
      return Slice{any_args(nodes, depth - 1)};
    default:
      break;
  }
  Dict dict;
  for (int n = *inRange(0, 3); n > 0; --n)
    dict.items.emplace_back(any_arg(nodes, depth - 1), any_arg(nodes, depth - 1));
  return dict;
}

std::vector<Dim> any_dims() {
  std::vector<Dim> dims;
  for (int n = *inRange(0, 4); n > 0; --n) {
    const std::string expr = *arbitrary<bool>() ? any_string() : "";
    dims.push_back(expr.empty() ? Dim(*arbitrary<std::int64_t>())
                                : Dim(expr, *arbitrary<std::int64_t>()));
  }
  return dims;
}

TypePtr any_type() {
  if (*arbitrary<bool>()) return nullptr;
  return std::make_shared<TensorType>(TensorType{any_dtype(), any_dims(), any_dims(), any_device(),
                                                 any_layout(), *arbitrary<bool>()});
}

MetaPtr any_meta() {
  auto meta = std::make_shared<Meta>();
  for (int n = *inRange(0, 3); n > 0; --n) meta->emplace_back(any_string(), any_string());
  return meta->empty() ? nullptr : meta;
}

Node any_node(const std::vector<NodeId>& nodes) {
  Node node;
  node.op = *element(Opcode::placeholder, Opcode::call_function, Opcode::call_method);
  node.name = any_name();
  node.target = any_string();
  node.args = any_args(nodes, 3);
  node.kwargs = any_kwargs(nodes, 3);
  node.type = any_type();
  node.meta = any_meta();
  if (*arbitrary<bool>()) node.marks = {any_string(), any_string()};
  return node;
}

Model any_model() {
  Model model;
  Editor editor(model);
  for (int n = *inRange(0, 2); n > 0; --n)
    editor.add_module(
        {any_name(), any_string(), any_kwargs({}, 2), *arbitrary<bool>(), any_string()});
  std::vector<NodeId> nodes;
  for (int n = *inRange(0, 6); n > 0; --n)
    nodes.push_back(editor.insert_before({}, any_node(nodes)));
  Node output;
  output.op = Opcode::output;
  output.name = output.target = "output";
  output.args = {any_arg(nodes, 4)};
  output.meta = any_meta();
  editor.insert_before({}, std::move(output));
  editor.commit_as_origin();
  return model;
}

// A tensor of its own, or a part of the last one's storage.
at::TensorBase any_tensor(Zeros& zeros, const at::TensorBase& last) {
  TensorSpec spec;
  spec.dtype = any_enum<c10::ScalarType>(static_cast<int>(c10::ScalarType::Undefined));
  for (int n = *inRange(0, 4); n > 0; --n) spec.sizes.push_back(*inRange(0, 5));
  if (*arbitrary<bool>()) {
    spec.strides.emplace();
    for (std::size_t n = spec.sizes.size(); n > 0; --n) spec.strides->push_back(*inRange(0, 30));
  }
  spec.offset = *inRange(0, 3);
  spec.requires_grad = c10::isFloatingType(spec.dtype) && *arbitrary<bool>();
  if (last.defined() && *arbitrary<bool>()) {
    try {
      return zeros.make(spec, last);
    } catch (const Error&) {  // it does not fit
    }
  }
  if (*arbitrary<bool>()) spec.storage_bytes = 20'000;
  return zeros.make(spec);
}

Model any_state() {
  Model model;
  Editor editor(model);
  Zeros zeros;
  at::TensorBase last;
  for (int n = *inRange(0, 6); n > 0; --n) {
    last = any_tensor(zeros, last);
    const auto kind = *element(StateKind::parameter, StateKind::buffer, StateKind::constant);
    editor.add_state({any_name() + std::to_string(n), kind, *arbitrary<bool>(), last});
  }
  Node output;
  output.op = Opcode::output;
  output.name = output.target = "output";
  output.args = {None{}};
  editor.insert_before({}, std::move(output));
  editor.commit_as_origin();
  return model;
}

bool same_tensor(const at::TensorBase& a, const at::TensorBase& b) {
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() &&
         a.strides() == b.strides() && a.storage_offset() == b.storage_offset() &&
         a.storage().nbytes() == b.storage().nbytes() && a.requires_grad() == b.requires_grad();
}

// Nodes are built in order, so equal nodes refer to equal ids.
bool same_nodes(const Graph& a, const Graph& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [&](NodeId x, NodeId y) { return x == y && a[x] == b[y]; });
}

void check(const char* what, const std::function<void()>& property) {
  testing::check_property(what, 3000, 20240229, property);
}

TEST(TextProperty, AnyModelRoundTrips) {
  check("parse(print(model)) is the model", [] {
    const Model model = any_model();
    const std::string text = print(model);
    RC_LOG() << text;
    const Model again = parse(text);
    RC_ASSERT(print(again) == text);
    RC_ASSERT(same_nodes(model.graph(), again.graph()));
    RC_ASSERT(std::equal(
        model.modules().begin(), model.modules().end(), again.modules().begin(),
        [&](ModuleId a, ModuleId b) { return model.modules()[a] == again.modules()[b]; }));
  });
}

TEST(TextProperty, AnyStateRoundTrips) {
  check("tensors come back with their strides, offsets and shared storages", [] {
    const Model model = any_state();
    const std::string text = print(model);
    RC_LOG() << text;
    const Model again = parse(text);
    RC_ASSERT(print(again) == text);
    for (StateId id : model.state()) {
      RC_ASSERT(same_tensor(model.state().tensor(id), again.state().tensor(id)));
      RC_ASSERT(model.state().storage_sharers(id) == again.state().storage_sharers(id));
    }
  });
}

}  // namespace
}  // namespace refx

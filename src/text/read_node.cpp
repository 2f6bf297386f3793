// SPDX-License-Identifier: Apache-2.0

#include "text/read_node.h"

#include <array>

#include "text/read_type.h"
#include "text/spelling.h"
#include "util/did_you_mean.h"

namespace refx {

namespace {

constexpr std::array kOpcodes = {Opcode::placeholder, Opcode::get_attr,    Opcode::call_function,
                                 Opcode::call_module, Opcode::call_method, Opcode::output};

Opcode read_opcode(Cursor& cursor) {
  const std::size_t at = cursor.position();
  const std::string name = cursor.name("an opcode such as call_function");
  std::vector<std::string> known;
  for (Opcode op : kOpcodes) {
    if (to_string(op) == name) return op;
    known.emplace_back(to_string(op));
  }
  cursor.fail(at, "no opcode is called " + shown(name) + did_you_mean(name, known));
}

TypePtr read_node_type(Cursor& cursor) {
  auto type = std::make_shared<TensorType>(read_type(cursor));
  while (cursor.peek_word()) {
    const std::size_t at = cursor.position();
    const std::string key = cursor.name("an attribute");
    cursor.expect('=');
    if (!read_type_attribute(cursor, key, *type))
      unknown_attribute(cursor, at, key, {"strides", "device", "layout", "requires_grad"});
  }
  return type;
}

// Between the name and the '='.
void read_annotation(Cursor& cursor, NodeLine& line) {
  line.type_at = cursor.position();
  if (cursor.peek_word()) line.node.type = read_node_type(cursor);
  if (!cursor.peek('[')) return;
  cursor.between('[', ']', [&] {
    cursor.expect("num_users");
    cursor.expect('=');
    line.users_at = cursor.position();
    line.num_users = cursor.integer();
  });
}

// In the parentheses after the target.
void read_call_item(Cursor& cursor, ArgReader& args, NodeLine& line) {
  const std::size_t at = cursor.position();
  const std::string key = cursor.name("'args', 'kwargs', 'default' or 'state'");
  cursor.expect('=');
  if (key == "args") {
    line.node.args = args.tuple();
  } else if (key == "kwargs") {
    line.node.kwargs = args.kwargs('{', ':', '}');
  } else if (key == "default") {
    line.node.args = {args.arg()};
  } else if (key == "state") {
    line.state_at = cursor.position();
    line.node.state = cursor.name("the name of a state entry");
  } else {
    unknown_attribute(cursor, at, key, {"args", "kwargs", "default", "state"});
  }
}

void read_meta(Cursor& cursor, Node& node) {
  auto meta = std::make_shared<Meta>();
  cursor.sequence('{', '}', [&] {
    std::string key = cursor.name("a key");
    cursor.expect(':');
    meta->emplace_back(std::move(key), cursor.string());
  });
  if (!meta->empty()) node.meta = std::move(meta);
}

// "# meta {nn_module_stack: "…"} marks ["…"]"
void read_notes(Cursor& cursor, Node& node) {
  if (!cursor.accept('#')) return;
  const bool has_meta = cursor.accept("meta");
  if (has_meta) read_meta(cursor, node);
  if (cursor.accept("marks"))
    cursor.sequence('[', ']', [&] { node.marks.push_back(cursor.string()); });
  else if (!has_meta)
    cursor.fail_expected("'meta' or 'marks' (a comment has a line of its own)");
}

void read_return(Cursor& cursor, ArgReader& args, NodeLine& line) {
  line.node.op = Opcode::output;
  line.node.name = line.node.target = "output";
  line.target_at = cursor.position();
  line.node.args.push_back(args.result());
}

void read_definition(Cursor& cursor, ArgReader& args, NodeLine& line) {
  if (!cursor.accept('%')) cursor.fail_expected("a node such as '%x = …', or 'return'");
  line.node.name = cursor.name("the name of a node");
  if (line.node.name.empty()) cursor.fail(line.name_at, "a node needs a name");
  if (cursor.accept(':')) read_annotation(cursor, line);
  cursor.expect('=');
  line.node.op = read_opcode(cursor);
  cursor.between('[', ']', [&] {
    cursor.expect("target");
    cursor.expect('=');
    line.target_at = cursor.position();
    line.node.target = cursor.name("a target");
  });
  if (cursor.peek('(')) cursor.sequence('(', ')', [&] { read_call_item(cursor, args, line); });
}

}  // namespace

NodeLine read_node_line(Cursor& cursor, ArgReader& args) {
  NodeLine line;
  line.name_at = cursor.position();
  if (cursor.accept("return"))
    read_return(cursor, args, line);
  else
    read_definition(cursor, args, line);
  read_notes(cursor, line.node);
  cursor.expect_line_end();
  return line;
}

}  // namespace refx

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "refx/graph.h"
#include "text/cursor.h"

namespace refx {

// Reads arguments whose %names are nodes of `graph`.
class ArgReader {
 public:
  ArgReader(Cursor& cursor, const Graph& graph) : cursor_(cursor), graph_(graph) {}

  Arg arg();
  Arg result();  // what a return gives back: nodes may stand without their '%'
  Args tuple();
  Kwargs kwargs(char open, char separator, char close);  // {a: 1} or (a=1)

 private:
  Arg word();
  Args items(char open, char close);
  Arg dict();
  Arg ellipsis();
  Arg torch_constant(std::size_t at, std::string_view name);
  Arg device();
  Arg complex();
  Arg sym();
  Arg raw();
  double real();
  double nan();
  Arg node(std::size_t at, const std::string& name) const;
  [[noreturn]] void no_such_node(std::size_t at, const std::string& name) const;

  Cursor& cursor_;
  const Graph& graph_;
  bool bare_nodes_ = false;
};

}  // namespace refx

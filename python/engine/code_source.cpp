#include "engine/code_source.h"

namespace refx::fx {

py::list code_source(py::handle graph) {
  const Fx& fx = Fx::get();
  py::list source;
  auto append = [&](const py::object& part) { check(PyList_Append(source.ptr(), part.ptr())); };
  const py::object root = attr(graph, fx.root);
  for (py::object node = attr(root, fx.next); !node.is(root); node = attr(node, fx.next)) {
    append(node);
    for (const Field* field : {&fx.op, &fx.name, &fx.target, &fx.args, &fx.kwargs, &fx.type})
      append(attr(node, *field));
  }
  append(graph.attr("_codegen"));
  return source;
}

}  // namespace refx::fx

#include "engine/code_source.h"

#include <iterator>
#include <vector>

namespace refx::fx {

py::list code_source(py::handle graph) {
  const Fx& fx = Fx::get();
  const Field* const fields[] = {&fx.op, &fx.name, &fx.target, &fx.args, &fx.kwargs, &fx.type};
  std::vector<py::object> parts;
  parts.reserve((1 + std::size(fields)) * py::len(graph.attr("nodes")) + 1);
  const py::object root = attr(graph, fx.root);
  for (py::object node = attr(root, fx.next); !node.is(root); node = attr(node, fx.next)) {
    parts.push_back(node);
    for (const Field* field : fields) parts.push_back(attr(node, *field));
  }
  parts.push_back(graph.attr("_codegen"));
  py::list source(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i)
    PyList_SET_ITEM(source.ptr(), static_cast<Py_ssize_t>(i), parts[i].release().ptr());
  return source;
}

}  // namespace refx::fx

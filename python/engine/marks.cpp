#include "engine/marks.h"

#include <algorithm>

#include "engine/torch_fx.h"

namespace refx::fx {

std::vector<std::string> marks_of(py::handle node) {
  std::vector<std::string> marks;
  // Not getattr: that would ask the history, which is at work.
  PyObject* found = find(attributes_of(node), Fx::get().marks);
  if (!found || !PySet_Check(found)) return marks;
  for (py::handle mark : py::reinterpret_borrow<py::set>(found))
    if (PyUnicode_Check(mark.ptr())) marks.push_back(to_string(mark));
  std::sort(marks.begin(), marks.end());
  return marks;
}

namespace {

// As modules and tensors are stamped that a transformation made: torch.fx copies it to nodes of
// graphs that have no history.
void set_stamp(const py::object& meta, const std::vector<std::string>& marks) {
  static PyObject* const name = intern("refx");
  PyObject* now = find(meta, name);
  if (marks.empty()) {
    if (now) check(PyDict_DelItem(meta.ptr(), name));
    return;
  }
  const py::tuple stamp = py::tuple(py::cast(marks));
  if (!now || !stamp.equal(py::handle(now))) check(PyDict_SetItem(meta.ptr(), name, stamp.ptr()));
}

}  // namespace

void set_marks(py::handle node, std::vector<std::string> marks) {
  std::sort(marks.begin(), marks.end());
  set_stamp(attr(node, Fx::get().meta), marks);
  if (marks_of(node) == marks) return;
  const py::object attributes = attributes_of(node);
  py::set all;  // another one: copies of the node may have the one that is there
  if (PyObject* found = find(attributes, Fx::get().marks); found && PySet_Check(found))
    for (py::handle mark : py::reinterpret_borrow<py::set>(found))
      if (!PyUnicode_Check(mark.ptr())) all.add(mark);
  for (const std::string& mark : marks) all.add(text(mark));
  check(all.empty() ? PyDict_DelItem(attributes.ptr(), Fx::get().marks)
                    : PyDict_SetItem(attributes.ptr(), Fx::get().marks, all.ptr()));
}

}  // namespace refx::fx

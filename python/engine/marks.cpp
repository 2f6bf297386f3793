// SPDX-License-Identifier: Apache-2.0

#include "engine/marks.h"

#include <algorithm>
#include <utility>

#include "engine/torch_fx.h"

namespace refx::fx {

std::vector<Name> marks_of(py::handle node) {
  std::vector<Name> marks;
  PyObject* found = find(attributes_of(node), Fx::get().marks);
  if (!found || !PySet_Check(found)) return marks;
  for (py::handle mark : py::reinterpret_borrow<py::set>(found))
    if (PyUnicode_Check(mark.ptr())) marks.push_back(to_string(mark));
  std::sort(marks.begin(), marks.end());
  return marks;
}

namespace {

// The marks as a Python tuple. The last one is cached: usually the next node has the same marks.
py::object tuple_of(const std::vector<Name>& marks) {
  static auto* last = new std::pair<std::vector<Name>, py::object>;
  if (!last->second || last->first != marks) {
    py::tuple all(marks.size());
    for (std::size_t i = 0; i < marks.size(); ++i) all[i] = text(marks[i]);
    *last = {marks, std::move(all)};
  }
  return last->second;
}

// Writes the marks into the metadata of a node, too. torch.fx copies metadata to nodes of other
// graphs, which have no history.
void set_stamp(const py::object& meta, const std::vector<Name>& marks) {
  static PyObject* const name = intern("refx");
  PyObject* now = find(meta, name);
  if (marks.empty()) {
    if (now) check(PyDict_DelItem(meta.ptr(), name));
    return;
  }
  const py::object stamp = tuple_of(marks);
  if (now != stamp.ptr() && (!now || !stamp.equal(py::handle(now))))
    check(PyDict_SetItem(meta.ptr(), name, stamp.ptr()));
}

}  // namespace

void set_marks(py::handle node, std::vector<Name> marks) {
  std::sort(marks.begin(), marks.end());
  set_stamp(attr(node, Fx::get().meta), marks);
  const py::object attributes = attributes_of(node);
  PyObject* found = find(attributes, Fx::get().marks);
  if (found ? marks_of(node) == marks : marks.empty()) return;
  // A new set: copies of the node may share the present one.
  const py::object all = owned(PySet_New(tuple_of(marks).ptr()));
  if (found && PySet_Check(found))
    for (py::handle mark : py::reinterpret_borrow<py::set>(found))
      if (!PyUnicode_Check(mark.ptr())) check(PySet_Add(all.ptr(), mark.ptr()));
  check(PySet_GET_SIZE(all.ptr()) == 0
            ? PyDict_DelItem(attributes.ptr(), Fx::get().marks)
            : PyDict_SetItem(attributes.ptr(), Fx::get().marks, all.ptr()));
}

}  // namespace refx::fx

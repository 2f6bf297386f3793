#include "refx/restore.h"

#include "edit/access.h"

namespace refx {

template <class T>
void Restorer::reserve(std::size_t size) {
  ModelAccess::reserve<T>(model_, size);
}
template void Restorer::reserve<Node>(std::size_t);
template void Restorer::reserve<StateEntry>(std::size_t);
template void Restorer::reserve<Module>(std::size_t);

template <class T>
Id<T> Restorer::add_slot(Id<T> where) {
  return ModelAccess::insert_slot(model_, where);
}
template NodeId Restorer::add_slot(NodeId);
template StateId Restorer::add_slot(StateId);
template ModuleId Restorer::add_slot(ModuleId);

template <class T>
void Restorer::put(Id<T> id, std::shared_ptr<const T> value) {
  ModelAccess::reserve_name(model_, id, value->name);
  ModelAccess::exchange(model_, id, std::move(value));
  ModelAccess::touch(model_);
}
template void Restorer::put(NodeId, std::shared_ptr<const Node>);
template void Restorer::put(StateId, std::shared_ptr<const StateEntry>);
template void Restorer::put(ModuleId, std::shared_ptr<const Module>);

void Restorer::apply(Step step) {
  for (Edit& edit : step.edits)
    std::visit(
        [&]<class T>(Change<T>& change) {
          const auto& table = ModelAccess::table<T>(model_);
          change.before = table.pointer(change.id);
          if (change.after && !change.before && !table.find_erased(change.after->name))
            ModelAccess::reserve_name(model_, change.id, change.after->name);
          ModelAccess::exchange(model_, change.id, change.after);
        },
        edit);
  ModelAccess::touch(model_);
  ModelAccess::add(ModelAccess::history(model_), std::make_shared<Step>(std::move(step)));
}

void Restorer::record(Step step) {
  for (const Edit& edit : step.edits)
    std::visit(
        [&]<class T>(const Change<T>& change) {
          const auto& table = ModelAccess::table<T>(model_);
          const std::string& name = (change.before ? change.before : change.after)->name;
          if (!table.contains(change.id) && !table.name_taken(name))
            ModelAccess::reserve_name(model_, change.id, name);
        },
        edit);
  ModelAccess::add(ModelAccess::history(model_), std::make_shared<Step>(std::move(step)));
}

void Restorer::set_next_step(std::uint32_t next) {
  ModelAccess::next_id(ModelAccess::history(model_)) = next;
}

}  // namespace refx

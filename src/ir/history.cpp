#include "refx/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ostream>
#include <utility>

#include "ir/references.h"
#include "refx/error.h"
#include "refx/model.h"
#include "util/did_you_mean.h"
#include "util/glob.h"

namespace refx {

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << step.id.value << "  " << step.transformation << "  " << step.site;
}

std::size_t Step::bytes() const {
  std::size_t total = 0;
  for (const Edit& edit : edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
      total += change->before->tensor.nbytes();
  return total;
}

const Step& History::operator[](StepId id) const {
  auto it = live_.find(id);
  if (it != live_.end()) return *it->second;
  const std::string range = live_.empty()
                                ? "the history is empty"
                                : fmt::format("live steps are {} to {}", live_.begin()->first.value,
                                              live_.rbegin()->first.value);
  throw Error(fmt::format("there is no live step {}; {}", id.value, range));
}

const Step& History::back() const {
  if (live_.empty()) throw Error("the history is empty");
  return *live_.rbegin()->second;
}

std::vector<StepId> History::ids() const {
  std::vector<StepId> ids;
  for (const auto& [id, step] : live_) ids.push_back(id);
  return ids;
}

std::vector<StepId> History::select(std::string_view what) const {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(what.data(), what.data() + what.size(), number);
  if (error == std::errc() && end == what.data() + what.size()) return {(*this)[StepId(number)].id};

  std::vector<StepId> found;
  std::vector<std::string> names;
  for (const Step& step : *this) {
    if (step.transformation == what || glob_match(what, step.site)) found.push_back(step.id);
    names.push_back(step.transformation);
    names.push_back(step.site);
  }
  if (!found.empty()) return found;
  const std::string near = nearest(what, names);
  throw Error(fmt::format("no live step matches '{}'{}", what,
                          near.empty() ? (names.empty() ? "; the history is empty" : "")
                                       : fmt::format("; did you mean '{}'?", near)));
}

namespace {

// The edit, if it leaves a node there.
const Change<Node>* node_written(const Edit& edit) {
  const auto* change = std::get_if<Change<Node>>(&edit);
  return change && change->after ? change : nullptr;
}

// Whether the edit made its node read a tensor, or call a module, that it did not before.
bool comes_to_use(const Change<Node>& change) {
  if (!change.before) return true;
  auto called = [](const Node& node) -> std::string_view {
    return node.op == Opcode::call_module ? node.target : std::string_view();
  };
  return bound_state(*change.before) != bound_state(*change.after) ||
         called(*change.before) != called(*change.after);
}

}  // namespace

void History::Index::add(const Step& step) {
  for (const Edit& edit : step.edits) {
    for_each_write(edit, [&](ObjectKey object, bool invalidates) {
      auto& all = writers[object];
      if (!all.empty() && all.back().step == step.id)
        all.back().invalidates |= invalidates;
      else
        all.push_back({step.id, invalidates});
    });
    if (const auto* change = node_written(edit))
      for_each_reference(*change->after, [&, comes = comes_to_use(*change)](ObjectKey object) {
        readers[object].push_back({step.id, comes});
      });
  }
}

void History::Index::remove(const Step& step) {
  auto drop = [&](auto& map, ObjectKey object) {
    auto it = map.find(object);
    if (it == map.end()) return;
    std::erase_if(it->second, [&](const Access& access) { return access.step == step.id; });
    if (it->second.empty()) map.erase(it);
  };
  for (const Edit& edit : step.edits) {
    for_each_write(edit, [&](ObjectKey object, bool) { drop(writers, object); });
    if (const auto* change = node_written(edit))
      for_each_reference(*change->after, [&](ObjectKey object) { drop(readers, object); });
  }
}

const History::Index& History::index() {
  if (indexed_) return index_;
  Index index;
  for (const auto& [id, step] : live_) index.add(*step);
  index_ = std::move(index);
  indexed_ = true;
  return index_;
}

void History::add(std::shared_ptr<const Step> step) {
  const Step& added = *step;
  const auto at = live_.emplace_hint(live_.end(), added.id, std::move(step));
  REFX_CHECK(at->second.get() == &added, "two steps have one id");
  note(added);
}

void History::replace(std::shared_ptr<const Step> step) {
  std::shared_ptr<const Step>& now = live_.at(step->id);
  if (indexed_) index_.remove(*now);
  now = std::move(step);
  note(*now);
}

void History::note(const Step& step) noexcept {
  if (!indexed_) return;
  try {
    index_.add(step);
  } catch (const std::bad_alloc&) {  // it is worked out again when it is asked for
    index_ = {};
    indexed_ = false;
  }
}

std::shared_ptr<const Step> History::remove(StepId id) {
  auto step = live_.extract(id).mapped();
  if (indexed_) index_.remove(*step);
  if (live_.empty()) indexed_ = false;
  return step;
}

bool History::writes(const Edit& edit) {
  if (live_.empty()) return false;
  bool first = true, found = false;
  for_each_write(edit, [&](ObjectKey object, bool) {
    if (std::exchange(first, false))
      found = index().writers.count(object) != 0;  // the object itself
  });
  return found;
}

std::vector<StepId> History::dependents(const Model& model, StepId id) const {
  Index later;  // where there is none to use: of the steps that can depend on this one
  if (!indexed_)
    for (auto it = live_.upper_bound(id); it != live_.end(); ++it) later.add(*it->second);
  const auto& [writers, readers] = indexed_ ? index_ : later;

  std::vector<StepId> found;
  auto collect = [&](const auto& index, ObjectKey object, bool only_invalidating) {
    auto it = index.find(object);
    if (it == index.end()) return;
    for (const Access& access : it->second)
      if (access.step > id && (!only_invalidating || access.invalidates))
        found.push_back(access.step);
  };
  for (const Edit& edit : (*this)[id].edits) {
    for_each_write(edit, [&](ObjectKey object, bool) { collect(writers, object, false); });
    const auto* change = std::get_if<Change<Node>>(&edit);
    if (!change) {
      // Who came to use a tensor or a module, which is what a reader's mark says, relies on what
      // this step made of it.
      for_each_write(edit, [&](ObjectKey object, bool) { collect(readers, object, true); });
      continue;
    }
    if (!change->before) {
      collect(readers, key_of(change->id), false);
      continue;
    }
    // What the node will refer to again must still be there, as it was.
    for_each_reference(*change->before, [&](ObjectKey object) { collect(writers, object, true); });
    for_each_input(*change->before, [&](NodeId input) {
      if (const Node* node = model.graph().find(input))
        if (auto state = bound_state(*node); !state.empty())
          collect(writers, key_of_state(state), true);
    });
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace refx

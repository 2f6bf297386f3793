#include "refx/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ostream>
#include <utility>

#include "edit/glob.h"
#include "edit/references.h"
#include "refx/error.h"
#include "refx/model.h"
#include "text/did_you_mean.h"

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
  const std::string range =
      live_.empty() ? "the history is empty"
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

const Node* node_after(const Edit& edit) {
  const auto* change = std::get_if<Change<Node>>(&edit);
  return change ? change->after.get() : nullptr;
}

}  // namespace

void History::add(std::shared_ptr<const Step> step) {
  const StepId id = step->id;
  for (const Edit& edit : step->edits) {
    for_each_write(edit, [&](ObjectKey object, bool takes_away) {
      auto& writers = writers_[object];
      if (!writers.empty() && writers.back().step == id)
        writers.back().takes_away |= takes_away;
      else
        writers.push_back({id, takes_away});
    });
    if (const Node* node = node_after(edit))
      for_each_reference(*node, [&](ObjectKey object) { readers_[object].push_back({id, false}); });
  }
  live_.emplace(id, std::move(step));
}

std::shared_ptr<const Step> History::remove(StepId id) {
  auto step = live_.extract(id).mapped();
  auto drop = [&](Index& index, ObjectKey object) {
    auto it = index.find(object);
    if (it == index.end()) return;
    std::erase_if(it->second, [&](const Access& access) { return access.step == id; });
    if (it->second.empty()) index.erase(it);
  };
  for (const Edit& edit : step->edits) {
    for_each_write(edit, [&](ObjectKey object, bool) { drop(writers_, object); });
    if (const Node* node = node_after(edit))
      for_each_reference(*node, [&](ObjectKey object) { drop(readers_, object); });
  }
  return step;
}

bool History::writes(const Edit& edit) const {
  bool first = true, found = false;
  for_each_write(edit, [&](ObjectKey object, bool) {
    if (std::exchange(first, false)) found = writers_.count(object) != 0;  // the object itself
  });
  return found;
}

std::vector<StepId> History::dependents(const Model& model, StepId id) const {
  std::vector<StepId> found;
  auto collect = [&](const Index& index, ObjectKey object, bool only_takes_away) {
    auto it = index.find(object);
    if (it == index.end()) return;
    for (const Access& access : it->second)
      if (access.step > id && (!only_takes_away || access.takes_away)) found.push_back(access.step);
  };
  for (const Edit& edit : (*this)[id].edits) {
    for_each_write(edit, [&](ObjectKey object, bool) { collect(writers_, object, false); });
    const auto* change = std::get_if<Change<Node>>(&edit);
    if (!change) continue;
    if (!change->before) {
      collect(readers_, key_of(change->id), false);
      continue;
    }
    // What the node will refer to again must still be there, as it was.
    for_each_reference(*change->before, [&](ObjectKey object) { collect(writers_, object, true); });
    for_each_input(*change->before, [&](NodeId input) {
      if (const Node* node = model.graph().find(input))
        if (auto state = bound_state(*node); !state.empty())
          collect(writers_, key_of_state(state), true);
    });
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

}  // namespace refx

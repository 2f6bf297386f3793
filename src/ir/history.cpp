// SPDX-License-Identifier: Apache-2.0

#include "refx/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <ostream>
#include <utility>

#include "ir/dependence.h"
#include "ir/detached.h"
#include "ir/origins.h"
#include "refx/error.h"
#include "refx/model.h"
#include "refx/old_names.h"
#include "util/did_you_mean.h"
#include "util/glob.h"

namespace refx {

const char* to_string(Numerics numerics) {
  return numerics == Numerics::preserved ? "preserved" : "approximate";
}

std::ostream& operator<<(std::ostream& out, const Step& step) {
  return out << step.id.value << "  " << step.transformation << "  " << step.site;
}

std::size_t Step::bytes() const {
  std::size_t total = 0;
  for (const Edit& edit : edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
      if (!detached_in(change->before->tensor)) total += change->before->tensor.nbytes();
  return total;
}

History::Iterator History::from(StepId id) const {
  const auto at = std::partition_point(slots_.begin(), slots_.end(),
                                       [&](const StepSlot& slot) { return slot.id < id; });
  return {slots_.data() + (at - slots_.begin()), slots_.data() + slots_.size()};
}

const History::StepSlot* History::find(StepId id) const {
  const Iterator at = from(id);
  return at.at_ != at.end_ && at->id == id ? at.at_ : nullptr;
}

const Step& History::operator[](StepId id) const {
  if (const StepSlot* slot = find(id)) return *slot->step;
  std::string range = "the history is empty";
  if (live_ == 1)
    range = fmt::format("the only one is {}", begin()->id.value);
  else if (live_ > 1)
    range = fmt::format("the steps are {} to {}", begin()->id.value, back().id.value);
  throw Error(fmt::format("there is no step {}; {}", id.value, range));
}

const Step& History::back() const {
  if (empty()) throw Error("the history is empty");
  return *slots_.back().step;
}

std::vector<StepId> History::ids() const {
  std::vector<StepId> ids;
  ids.reserve(live_);
  for (const Step& step : *this) ids.push_back(step.id);
  return ids;
}

std::vector<StepId> History::select(std::string_view what) const {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(what.data(), what.data() + what.size(), number);
  if (error == std::errc() && end == what.data() + what.size()) return {(*this)[StepId(number)].id};

  std::vector<StepId> found;
  std::vector<std::string> names;
  const Origins origins(*this);
  const auto replaced = [&](const std::vector<Name>& paths) {
    return std::any_of(paths.begin(), paths.end(),
                       [&](const Name& path) { return glob_match_path(what, path); });
  };
  for (const Step& step : *this) {
    const Origin& origin = origins.of(step.id);
    if (same_transformation(step.transformation, what) || glob_match(what, step.site) ||
        replaced(origin.tensors) || replaced(origin.nodes))
      found.push_back(step.id);
    names.push_back(step.transformation);
    names.push_back(step.site);
  }
  if (!found.empty()) return found;
  const std::string near = nearest(what, names);
  throw Error(fmt::format("no step matches '{}'{}", what,
                          near.empty() ? (names.empty() ? "; the history is empty" : "")
                                       : fmt::format("; did you mean '{}'?", near)));
}

// A reversed step keeps its place until others are many: it may return, without memory.
void History::add(std::shared_ptr<const Step> step) {
  const StepId id = step->id;
  if (slots_.empty() || slots_.back().id < id) {
    if (slots_.size() > 2 * live_ + 16)
      std::erase_if(slots_, [](const StepSlot& slot) { return !slot.step; });
    slots_.push_back({id, std::move(step)});
  } else {
    const auto at = std::partition_point(slots_.begin(), slots_.end(),
                                         [&](const StepSlot& slot) { return slot.id < id; });
    REFX_CHECK(at->id != id || !at->step, "two steps have one id");
    if (at->id == id)
      at->step = std::move(step);
    else
      slots_.insert(at, {id, std::move(step)});
  }
  ++live_;
}

void History::replace(std::shared_ptr<const Step> step) {
  const StepSlot* slot = find(step->id);
  REFX_CHECK(slot, "a step that is not there is replaced");
  slots_[slot - slots_.data()].step = std::move(step);
}

std::shared_ptr<const Step> History::remove(StepId id) {
  const StepSlot* slot = find(id);
  REFX_CHECK(slot, "a step that is not there is removed");
  std::shared_ptr<const Step> removed = std::move(slots_[slot - slots_.data()].step);
  --live_;
  while (!slots_.empty() && !slots_.back().step) slots_.pop_back();
  return removed;
}

std::vector<StepId> History::dependents(const Model& model, StepId id) const {
  Dependence dependence(model.graph());
  dependence.add((*this)[id], Dependence::As::asked);
  std::vector<StepId> found;
  for (auto step = ++from(id); step != end(); ++step)
    if (!dependence.causes(*step).empty()) found.push_back(step->id);
  return found;
}

}  // namespace refx

#include "refx/history.h"

#include <fmt/format.h>

#include <charconv>
#include <ostream>
#include <utility>

#include "ir/dependence.h"
#include "ir/detached.h"
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
      if (!detached_in(change->before->tensor)) total += change->before->tensor.nbytes();
  return total;
}

const Step& History::operator[](StepId id) const {
  auto it = live_.find(id);
  if (it != live_.end()) return *it->second;
  std::string range = "the history is empty";
  if (live_.size() == 1)
    range = fmt::format("the only one is {}", live_.begin()->first.value);
  else if (!live_.empty())
    range = fmt::format("live steps are {} to {}", live_.begin()->first.value,
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

void History::add(std::shared_ptr<const Step> step) {
  const Step& added = *step;
  const auto at = live_.emplace_hint(live_.end(), added.id, std::move(step));
  REFX_CHECK(at->second.get() == &added, "two steps have one id");
}

void History::replace(std::shared_ptr<const Step> step) {
  std::shared_ptr<const Step>& now = live_.at(step->id);
  now = std::move(step);
}

std::shared_ptr<const Step> History::remove(StepId id) { return live_.extract(id).mapped(); }

std::vector<StepId> History::dependents(const Model& model, StepId id) const {
  Dependence dependence(model.graph());
  dependence.add((*this)[id], Dependence::As::asked);
  std::vector<StepId> found;
  for (auto step = ++from(id); step != end(); ++step)
    if (!dependence.causes(*step).empty()) found.push_back(step->id);
  return found;
}

}  // namespace refx

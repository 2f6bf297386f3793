#include <algorithm>

#include "ir/content.h"
#include "refx/history.h"

namespace refx {

TensorStamp stamp_of(StateId state, const at::TensorBase& tensor) {
  return {state, version_of(tensor)};
}

std::vector<TensorStamp> stamps_of(const std::vector<Edit>& edits) {
  const auto wrote = [](const Edit& edit) {
    const auto* change = std::get_if<Change<StateEntry>>(&edit);
    return change && change->after;
  };
  std::vector<TensorStamp> stamps;
  stamps.reserve(std::count_if(edits.begin(), edits.end(), wrote));
  for (const Edit& edit : edits)
    if (wrote(edit)) {
      const auto& change = std::get<Change<StateEntry>>(edit);
      stamps.push_back(stamp_of(change.id, change.after->tensor));
    }
  return stamps;
}

bool is_changed(const TensorStamp& stamp, const at::TensorBase& tensor) {
  if (stamp.changed || version_of(tensor) != stamp.version) return true;
  return stamp.hash != decltype(stamp.hash){} && content_hash(tensor) != stamp.hash;
}

}  // namespace refx

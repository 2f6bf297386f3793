// SPDX-License-Identifier: Apache-2.0

#include "ir/content.h"
#include "refx/history.h"

namespace refx {

TensorStamp stamp_of(StateId state, const at::TensorBase& tensor) {
  return {state, version_of(tensor)};
}

std::vector<TensorStamp> stamps_of(const std::vector<Edit>& edits) {
  std::vector<TensorStamp> stamps;
  for (const Edit& edit : edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after)
      stamps.push_back(stamp_of(change->id, change->after->tensor));
  return stamps;
}

bool is_changed(const TensorStamp& stamp, const at::TensorBase& tensor) {
  if (stamp.changed || version_of(tensor) != stamp.version) return true;
  return stamp.hash != decltype(stamp.hash){} && content_hash(tensor) != stamp.hash;
}

}  // namespace refx

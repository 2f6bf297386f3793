#include "edit/made.h"

namespace refx {

std::uint32_t version_of(const at::TensorBase& tensor) {
  return tensor.is_inference() ? 0 : static_cast<std::uint32_t>(tensor._version());
}

std::vector<Step::Made> made_by(const std::vector<Edit>& edits) {
  std::vector<Step::Made> made;
  for (const Edit& edit : edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after)
      made.push_back({change->id, version_of(change->after->tensor)});
  return made;
}

}  // namespace refx

#include "edit/made.h"

#include <ATen/core/Tensor.h>
#include <xxhash.h>

#include "ir/content.h"

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

std::array<std::uint64_t, 2> content_hash(const at::TensorBase& tensor) {
  require_content(tensor);
  const at::Tensor dense = at::Tensor(tensor).detach().cpu().contiguous();
  const XXH128_hash_t hash = XXH3_128bits(dense.const_data_ptr(), dense.nbytes());
  return {hash.low64, hash.high64};
}

bool is_changed(const Step::Made& made, const at::TensorBase& then, const at::TensorBase& now) {
  if (!now.is_same(then) || version_of(now) != made.version) return true;
  return made.hash != decltype(made.hash){} && content_hash(now) != made.hash;
}

}  // namespace refx

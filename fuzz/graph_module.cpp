// Histories of pickled GraphModules. The bytes: the sizes of the tensors beside it ("2,3;4"), a
// line's end, and what the mirror saved.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <charconv>

#include "engine/saved.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "refx/validate.h"
#include "target.h"
#include "util/fingerprint.h"

namespace refx::fuzz {

namespace {

std::vector<at::Tensor> tensors_of(std::string_view sizes) {
  std::vector<at::Tensor> tensors;
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  for (const char* at = sizes.data(); at < sizes.data() + sizes.size() && tensors.size() < 100;) {
    std::int64_t size = 0;
    at = std::from_chars(at, sizes.data() + sizes.size(), size).ptr;
    size = std::clamp<std::int64_t>(size, 0, 64);
    if ((elements *= size) > 10'000 || shape.size() > 5) throw Error("too large");
    shape.push_back(size);
    const bool last = at == sizes.data() + sizes.size() || *at != ',';
    if (last) {
      tensors.push_back(at::zeros(shape));
      shape.clear();
      elements = 1;
    }
    if (at < sizes.data() + sizes.size()) ++at;
  }
  return tensors;
}

struct Parts {
  std::string_view sizes, history;
};
Parts parts_of(std::string_view bytes) {
  const std::size_t line = std::min(bytes.find('\n'), bytes.size());
  return {bytes.substr(0, line), bytes.substr(std::min(line + 1, bytes.size()))};
}

}  // namespace

void run_graph_module(std::string_view bytes) {
  const auto [sizes, history] = parts_of(bytes);
  const fx::Saved saved = fx::read_saved(history, tensors_of(sizes));
  print(saved.model);
  original_of(saved.model);
  for (const StepId id : saved.model.history().ids()) {
    Model model = saved.model;
    try {
      reverse(model, id, {.dependents = Dependents::cascade, .discard_changes = true});
    } catch (const Error&) {
      continue;
    }
    if (const auto found = problems(model); !found.empty()) fault(found.front());
  }
}

std::string mutate_graph_module(std::string_view bytes, std::minstd_rand&, MutateBytes mutate) {
  const auto [sizes, history] = parts_of(bytes);
  const std::size_t header = fx::kFormat.size() + fingerprint({}).size();
  if (!history.starts_with(fx::kFormat) || history.size() < header) return {};
  const std::string values = mutate(history.substr(header));
  return std::string(sizes) + '\n' + std::string(fx::kFormat) + fingerprint(values) + values;
}

}  // namespace refx::fuzz

// SPDX-License-Identifier: Apache-2.0

// Histories of pickled GraphModules. An input is the sizes of the tensors that are saved with the
// history ("2,3;4"), a newline, and the saved history.

#include <ATen/core/Tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <charconv>

#include "edit/broken_references.h"
#include "engine/saved.h"
#include "refx/error.h"
#include "refx/original.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "target.h"
#include "util/fingerprint.h"

namespace refx::fuzz {

namespace {

// Removes the text up to the separator, and the separator, and returns the text.
std::string_view take_until(char separator, std::string_view& text) {
  const std::size_t end = std::min(text.find(separator), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return word;
}

at::Tensor tensor_of(std::string_view sizes) {
  std::vector<std::int64_t> shape;
  std::int64_t elements = 1;
  while (!sizes.empty()) {
    const std::string_view word = take_until(',', sizes);
    std::int64_t size = 0;
    std::from_chars(word.data(), word.data() + word.size(), size);
    shape.push_back(std::clamp<std::int64_t>(size, 0, 64));
    elements *= shape.back();
    if (elements > 10'000 || shape.size() > 5) throw Error("a tensor is too large");
  }
  return at::zeros(shape);
}

std::vector<at::Tensor> tensors_of(std::string_view all) {
  std::vector<at::Tensor> tensors;
  for (std::size_t n = 1 + static_cast<std::size_t>(std::count(all.begin(), all.end(), ';')); n > 0;
       --n)
    tensors.push_back(tensor_of(take_until(';', all)));
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
    for (const NodeId node : model.graph())
      if (const auto found = broken_references(model, node); !found.empty()) fault(found.front());
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

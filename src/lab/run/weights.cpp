// SPDX-License-Identifier: Apache-2.0

#include "refx/weights.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "lab/run/on_device.h"
#include "refx/editor.h"
#include "refx/error.h"
#include "refx/old_names.h"
#include "refx/original.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "refx/type.h"
#include "transforms/apply.h"
#include "util/did_you_mean.h"

namespace refx {

namespace {

using Weights = std::unordered_map<std::string, at::Tensor>;

bool is_weight(const StateEntry& entry) {
  return entry.kind != StateKind::constant && entry.persistent;
}

std::string describe(const at::TensorBase& tensor) { return print(*type_of(tensor)); }

void check_names(const State& state, const Weights& weights) {
  for (const auto& [name, tensor] : weights) {
    if (const StateId id = state.find(name); id && is_weight(state[id])) continue;
    std::vector<std::string> names;
    for (StateId id : state)
      if (is_weight(state[id])) names.emplace_back(state[id].name);
    throw Error(fmt::format("the original has no weight '{}'{}", name, did_you_mean(name, names)));
  }
  for (StateId id : state) {
    if (!is_weight(state[id])) continue;
    const at::TensorBase& old = state.tensor(id);
    const auto found = weights.find(std::string(state[id].name));
    if (found == weights.end())
      throw Error(
          fmt::format("'{}' is missing: all weights of the original are needed, under "
                      "their names there",
                      state[id].name));
    const at::Tensor& given = found->second;
    if (given.scalar_type() != old.scalar_type() || given.sizes() != old.sizes())
      throw Error(
          fmt::format("'{}' should be {}, not {}", state[id].name, describe(old), describe(given)));
  }
}

// A view of another storage with the layout of `old`.
at::Tensor same_view(const at::Tensor& old, const c10::Storage& storage) {
  at::Tensor view = at::empty({0}, old.options());
  view.set_(storage, old.storage_offset(), old.sizes(), old.strides());
  view.set_requires_grad(old.requires_grad());
  return view;
}

// Copies whole storages, so that weights that share memory still share it.
void replace_weights(Model& original, const Weights& weights) {
  const State before = original.state();  // a copy: the loop replaces the tensors that share memory
  Editor editor(original);
  std::unordered_map<const void*, c10::Storage> storages;
  std::vector<std::pair<Name, at::Tensor>> written;
  for (StateId id : before) {
    const StateEntry& entry = before[id];
    const at::Tensor old(entry.tensor);
    const bool changes = is_weight(entry);
    // If no other tensor uses the storage, its old values are not needed. They may be detached, and
    // reading them would load them.
    if (before.storage_sharers(id) == 1) {
      if (!changes) continue;
      const at::Tensor now = at::empty_strided(old.sizes(), old.strides(), old.options());
      now.copy_(weights.at(std::string(entry.name)));
      editor.set_state(id, now.set_requires_grad(old.requires_grad()));
      continue;
    }
    require_content(old);
    c10::Storage& storage = storages[old.storage().unsafeGetStorageImpl()];
    if (!storage) {
      const auto bytes = static_cast<std::int64_t>(old.storage().nbytes());
      const auto as_bytes = old.options().dtype(at::kByte).requires_grad(false);
      const at::Tensor whole = at::empty({0}, as_bytes).set_(old.storage(), 0, {bytes}, {1});
      storage = whole.clone().storage();
    }
    const at::Tensor now = same_view(old, storage);
    if (changes) {
      now.detach().copy_(weights.at(std::string(entry.name)));
      written.emplace_back(entry.name, now);
    }
    editor.set_state(id, now);
  }
  for (const auto& [name, tensor] : written)
    if (!at::equal(tensor.detach(), weights.at(std::string(name)).to(tensor.device())))
      throw Error(
          fmt::format("'{}' shares memory with another weight of the model, and the two "
                      "given differ there",
                      name));
  editor.commit_as_origin(original.source());
}

// Applies consecutive steps of one transformation in one pass: a pass searches the whole graph.
void apply_again(Model& model, const History& steps) {
  const std::vector<StepId> ids = steps.ids();
  for (std::size_t begin = 0, end = 0; begin < ids.size(); begin = end) {
    const Step& first = steps[ids[begin]];
    const Transformation* maker = maker_of(first);
    if (!maker)
      throw Error(
          fmt::format("step {} ({} at {}) cannot be applied again: its transformation is "
                      "not registered here; load its rule, or reverse the step first",
                      first.id.value, first.transformation, first.site));
    std::vector<Name> wanted, done;
    for (; end < ids.size() && same_transformation(steps[ids[end]].signature, first.signature);
         ++end)
      wanted.push_back(steps[ids[end]].site);
    std::sort(wanted.begin(), wanted.end());
    apply_sites(
        model, *maker,
        [&](const Site& site) {
          return std::binary_search(wanted.begin(), wanted.end(), site.name);
        },
        [&](const Site& site, StepId) { done.push_back(site.name); });
    std::sort(done.begin(), done.end());
    if (done != wanted)
      throw Error(
          fmt::format("{} does not apply to the new tensors as it did: reverse its steps "
                      "first",
                      first.transformation));
  }
}

}  // namespace

void load_weights(Model& model,
                  const std::vector<std::pair<std::string, at::TensorBase>>& weights) {
  Weights by_name;
  for (const auto& [name, tensor] : weights) by_name.emplace(name, at::Tensor(tensor).detach());
  Model fresh = original_of(model);
  forget(fresh);  // the steps that redo() would bring back
  check_names(fresh.state(), by_name);
  replace_weights(fresh, by_name);
  apply_again(fresh, model.history());
  model = std::move(fresh);
}

void move_to(Model& model, c10::Device device) {
  Model fresh = model;
  reverse_all(fresh);  // carries later changes back to the original tensors, or throws
  forget(fresh);
  fresh = on_device(fresh, device);
  apply_again(fresh, model.history());
  model = std::move(fresh);
}

}  // namespace refx

// SPDX-License-Identifier: Apache-2.0

#include "edit/carry_back.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/equal.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "ir/content.h"
#include "ir/piece.h"
#include "refx/hint.h"
#include "util/first_line.h"

namespace refx {

namespace {

using StateChange = Change<StateEntry>;

at::Tensor part_of(const at::Tensor& whole, const Piece& piece) {
  return whole.narrow(piece.dim, piece.start, piece.length);
}

// Returns a tensor with these values and all other properties of the original.
at::TensorBase like_original(const at::Tensor& values, const at::Tensor& original) {
  // An original on the meta device does not determine a device for the data.
  const auto options = original.is_meta() ? values.options() : original.options();
  // Overlapping elements (an expanded tensor) cannot hold different values.
  at::Tensor result = original.is_non_overlapping_and_dense()
                          ? at::empty_strided(original.sizes(), original.strides(), options)
                          : at::empty(original.sizes(), options);
  result.copy_(values.reshape(original.sizes()));
  result.set_requires_grad(original.requires_grad());
  return result;
}

// Compares values, not only stamps: when one weight of a merged one was trained, the others are
// restored as the same tensors, without a copy, and the file stays small.
bool left_alone(const at::Tensor& values, const at::Tensor& original) {
  if (values.is_meta()) return original.is_meta();
  try {
    require_content(original);
  } catch (const LostContent&) {
    return false;
  }
  return values.dtype() == original.dtype() && values.device() == original.device() &&
         at::equal(values.reshape(original.sizes()), original);
}

[[noreturn]] void refuse(const Step& step, const std::string& name, const std::string& why) {
  throw HintedError(fmt::format("step {} ({}, {}) cannot be reversed: '{}' was changed since, {}",
                                step.id.value, step.transformation, step.site, name, why),
                    Hint::discard_changes);
}

// Returns true if the state has a different tensor than the step left there, or different values.
bool is_changed(const TensorStamp& stamp, const at::TensorBase& then, const at::TensorBase& now) {
  return !now.is_same(then) || refx::is_changed(stamp, now);
}

// Returns true if any tensor that the step made was changed since. Usually none was, and then the
// tables that carry() needs are not built.
bool any_changed(const Model& model, const Step& step) {
  auto next = step.stamps.begin();  // they come in the order of the edits
  for (const Edit& edit : step.edits) {
    const auto* change = std::get_if<StateChange>(&edit);
    if (!change || !change->after || next == step.stamps.end()) continue;
    if (next->state != change->id) return true;
    if (is_changed(*next++, change->after->tensor, model.state().tensor(change->id))) return true;
  }
  return next != step.stamps.end();
}

using Carried = std::unordered_map<StateId, at::TensorBase>;
using StateChanges = std::unordered_map<StateId, const StateChange*>;

// Assigns the current values of a tensor to the originals that it was made of.
void carry(const Step& step, const StateEntry& entry, const std::vector<const Piece*>& pieces,
           const StateChanges& changes, Carried& carried) {
  if (pieces.empty())
    refuse(step, entry.name, "and the change cannot be carried back to its originals");
  const at::Tensor current(entry.tensor);
  for (const Piece* piece : pieces) {
    const StateChange* part = piece->part ? changes.at(piece->part) : nullptr;
    if (part ? !fits(*piece, current, part->before->tensor) : !is_inside(*piece, current))
      refuse(step, entry.name, "and has another shape now");
    // A constant piece, such as the zeros of padding, has no original. If it was trained, the
    // change would be lost.
    const at::Tensor values = part_of(current, *piece);
    if (!part) {
      if (!values.is_meta() && !values.eq(piece->fill).all().item<bool>())
        refuse(step, entry.name, "also where it has no original to go back to");
      continue;
    }
    const at::Tensor original(part->before->tensor);
    if (!left_alone(values, original)) carried[piece->part] = like_original(values, original);
  }
}

}  // namespace

std::unordered_map<StateId, at::TensorBase> carried_back(const Model& model, const Step& step,
                                                         const ReverseOptions& options) {
  Carried carried;
  if (options.discard_changes || !any_changed(model, step)) return carried;

  StateChanges changes;
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<StateChange>(&edit)) changes.emplace(change->id, change);
  std::unordered_map<StateId, std::vector<const Piece*>> pieces;
  for (const Piece& piece : step.pieces) pieces[piece.whole].push_back(&piece);

  // The caller may be in inference mode, whose tensors cannot be trained later.
  const c10::InferenceMode ordinary_tensors(false);
  const at::NoGradGuard no_grad;
  for (const TensorStamp& stamp : step.stamps) {
    const StateEntry& entry = model.state()[stamp.state];
    if (!is_changed(stamp, changes.at(stamp.state)->after->tensor, entry.tensor)) continue;
    try {
      carry(step, entry, pieces[stamp.state], changes, carried);
    } catch (const c10::Error& error) {  // a dtype that torch cannot compare
      refuse(step, entry.name, first_line(error.what_without_backtrace()));
    }
  }
  return carried;
}

}  // namespace refx

// SPDX-License-Identifier: Apache-2.0

#include "engine/adopt.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "refx/editor.h"

namespace refx::fx {

namespace {

class Adoption {
 public:
  Adoption(Model& model, const std::vector<TensorSnapshot>& snapshots, Survey& survey,
           bool by_others)
      : model_(model), snapshots_(snapshots), survey_(survey), by_others_(by_others) {}

  void run(std::optional<bool> toggled) {
    Editor quiet(model_);
    for (FoundState& found : survey_.states) {
      const StateId id = found.id = model_.state().find(found.name);
      if (!id) continue;
      const at::Tensor& now = THPVariable_Unpack(found.tensor);
      const StateEntry& entry = model_.state()[id];
      const Impl then = entry.tensor.unsafeGetTensorImpl();
      // While a transformation's own code runs, a different tensor is part of its rewrite, and says
      // nothing about the tensors in the history. The same tensor with new contents does.
      const bool same = entry.tensor.is_same(now);
      const bool known = (same || by_others_) && id.value < snapshots_.size();
      const bool moved = known && note_change(id, then, now);
      const bool rebound = !same && is_same_weight(entry.tensor, now);
      const bool registered = is_registered_anew(entry, found);
      if (!rebound && !registered && !moved) continue;
      StateEntry current = entry;
      if (rebound) current.tensor = now;
      if (registered) {
        current.kind = found.kind;
        current.persistent = found.persistent;
      }
      quiet.set_state(id, std::move(current));
    }
    for (const FoundModule& found : survey_.modules) {
      if (!by_others_) break;  // then a changed training mode is part of the author's step
      const ModuleId id = model_.modules().find(found.path);
      const bool training = attr(found.module, Fx::get().training).ptr() == Py_True;
      if (!id || model_.modules()[id].training == training) continue;
      Module module = model_.modules()[id];
      module.training = training;
      quiet.set_module(id, std::move(module));
    }
    if (!converted_.empty() || !moved_.empty() || toggled) adopt_in_history(quiet, toggled);
    quiet.commit_without_step();
  }

 private:
  struct Conversion {
    std::optional<c10::ScalarType> dtype;  // of what is floating-point, where that changed
    c10::Device device;
  };
  using Impl = const c10::TensorImpl*;

  // Whether a different tensor under the same name is a new value of the weight (an optimizer or
  // load_state_dict with assign=True wrote it), and not a rewrite. A rewrite by others that keeps
  // the shape cannot be told from that.
  bool is_same_weight(const at::TensorBase& then, const at::Tensor& now) const {
    return by_others_ && then.sizes() == now.sizes();
  }

  // Whether the kind differs only because torch.fx copied the GraphModule: it registers every
  // tensor that the graph reads as a persistent buffer. Parameters keep their kind.
  bool is_registered_anew(const StateEntry& then, const FoundState& now) const {
    if (!by_others_ || then.kind == StateKind::parameter || now.kind == StateKind::parameter)
      return false;
    return then.kind != now.kind || then.persistent != now.persistent;
  }

  // Notes what happened to a tensor since the last read. Returns true if its memory is a different
  // one now, which it may share with other tensors.
  bool note_change(StateId id, Impl then, const at::Tensor& now) {
    const TensorSnapshot& last = snapshots_[id.value];
    const TensorSnapshot current = TensorSnapshot::of(now, last.sample.has_value());
    if (last.dtype == c10::ScalarType::Undefined) return false;  // never read before
    if (last.dtype != current.dtype || last.device != current.device) {
      Conversion conversion{std::nullopt, current.device};
      if (last.dtype != current.dtype) conversion.dtype = current.dtype;
      converted_.emplace(then, conversion);
      if (then != now.unsafeGetTensorImpl()) replaced_.emplace(then, now);
    } else if (then == now.unsafeGetTensorImpl() &&
               ((last.data && last.data != current.data) || last.sample != current.sample)) {
      moved_.insert(then);
    }
    return last.data != current.data;
  }

  // Applies to the history what was done to the GraphModule as a whole: conversions of dtype and
  // device, and the training mode. Otherwise undo would mix tensors of two dtypes or devices.
  // Newest step first: what a step replaced may have been made by an earlier one, and is converted
  // in that step, too, through `converted_` and `replaced_`.
  void adopt_in_history(Editor& quiet, std::optional<bool> training) {
    const std::vector<StepId> ids = model_.history().ids();
    for (auto it = ids.rbegin(); it != ids.rend(); ++it) {
      Step step = model_.history()[*it];
      std::unordered_map<StateId, TensorStamp*> stamps;
      for (TensorStamp& stamp : step.stamps) stamps.emplace(stamp.state, &stamp);
      std::optional<Conversion> conversion;
      // The new tensors first: they show how the step's tensors were converted, and the originals,
      // which the GraphModule no longer has, are converted in the same way.
      for (Edit& edit : step.edits)
        if (auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after)
          adopt_after(*change, stamps[change->id], conversion);
      for (Edit& edit : step.edits) {
        if (auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
          if (conversion) convert_before(*change, *conversion);
        if (auto* change = std::get_if<Change<Module>>(&edit); change && training) {
          set_training(change->before, *training);
          set_training(change->after, *training);
        }
      }
      quiet.amend(std::move(step));
    }
  }

  void adopt_after(Change<StateEntry>& change, TensorStamp* stamp,
                   std::optional<Conversion>& conversion) {
    const Impl impl = change.after->tensor.unsafeGetTensorImpl();
    if (moved_.count(impl) && stamp) stamp->changed = true;
    auto found = converted_.find(impl);
    if (found == converted_.end()) return;
    if (!conversion) conversion = found->second;
    // A step may write integer tensors, which no conversion changes: another tensor may tell more.
    if (!conversion->dtype) conversion->dtype = found->second.dtype;
    auto replaced = replaced_.find(impl);
    if (replaced == replaced_.end()) return;
    const bool same = stamp && !is_changed(*stamp, change.after->tensor);
    const bool filled = change.after->tensor.is_meta() && !replaced->second.is_meta();
    set_tensor(change.after, replaced->second);
    // The conversion itself is not a change by training: undo may still restore the original.
    if (same) *stamp = stamp_of(stamp->state, replaced->second);
    if (stamp && filled) stamp->changed = true;  // a model was loaded into the plan of it
  }

  void convert_before(Change<StateEntry>& change, const Conversion& conversion) {
    const at::Tensor old(change.before->tensor);
    const Impl impl = old.unsafeGetTensorImpl();
    if (old.is_meta() && !conversion.device.is_meta()) return;  // there is nothing to convert
    converted_.emplace(impl, conversion);
    if (!replaced_.count(impl)) {
      // As Module.to(dtype) does: integer tensors keep their dtype.
      const bool converts = conversion.dtype && at::isFloatingType(old.scalar_type());
      const auto dtype = converts ? *conversion.dtype : old.scalar_type();
      if (dtype == old.scalar_type() && conversion.device == old.device()) return;
      const at::NoGradGuard no_grad;
      at::Tensor now = old.detach().to(conversion.device, dtype);
      now.set_requires_grad(old.requires_grad());
      replaced_.emplace(impl, now);
    }
    set_tensor(change.before, replaced_.at(impl));
  }

  static void set_tensor(std::shared_ptr<const StateEntry>& entry, const at::Tensor& tensor) {
    auto changed = std::make_shared<StateEntry>(*entry);
    changed->tensor = tensor;
    entry = std::move(changed);
  }

  static void set_training(std::shared_ptr<const Module>& module, bool training) {
    if (!module) return;
    auto changed = std::make_shared<Module>(*module);
    changed->training = training;
    module = std::move(changed);
  }

  Model& model_;
  const std::vector<TensorSnapshot>& snapshots_;
  Survey& survey_;
  bool by_others_;

  std::unordered_map<Impl, Conversion> converted_;
  std::unordered_map<Impl, at::Tensor> replaced_;
  std::unordered_set<Impl> moved_;
};

}  // namespace

void adopt_tensors(Model& model, const std::vector<TensorSnapshot>& snapshots, Survey& survey,
                   std::optional<bool> toggled, bool by_others) {
  Adoption(model, snapshots, survey, by_others).run(toggled);
}

}  // namespace refx::fx

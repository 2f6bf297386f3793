// SPDX-License-Identifier: Apache-2.0

#include "refx/detach.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include <set>
#include <unordered_set>

#include "ir/detached.h"
#include "pt2/base.h"
#include "pt2/slices.h"
#include "pt2/source.h"
#include "pt2/stored_tensor.h"
#include "refx/editor.h"
#include "refx/pt2.h"
#include "refx/restore.h"
#include "refx/text.h"

namespace refx {

namespace {

using Entry = std::shared_ptr<const StateEntry>;

template <class F>
void each_original(const Step& step, F&& f) {
  for (const Edit& edit : step.edits)
    if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
      if (const at::TensorBase& tensor = change->before->tensor;
          tensor.has_storage() && !tensor.is_meta())
        f(change->before);
}

DetachedTensor described(const Detached& detached) {
  return {detached.name(), detached.dtype(), detached.size()};
}

using Seen = std::unordered_set<const void*>;  // storages

std::vector<DetachedTensor> detached(const Step& step, Seen& seen) {
  std::vector<DetachedTensor> all;
  each_original(step, [&](const Entry& entry) {
    const Detached* detached = detached_in(entry->tensor);
    if (detached && seen.insert(key_of_storage(entry->tensor)).second)
      all.push_back(described(*detached));
  });
  return all;
}

// ---- other memory under the originals ----------------------------------------------------------

struct Instead {
  c10::Storage storage;
  std::shared_ptr<Content> content;  // the same bytes, as the model's file would have them
};
using Exchange = std::unordered_map<const void*, Instead>;  // by the storage that goes

// Puts other storages under what the history keeps. Tied tensors stay tied.
class Exchanger {
 public:
  Exchanger(Model& model, const Exchange& by) : model_(model), by_(by) {}

  void exchange(const std::shared_ptr<const Source>& base) {
    Editor editor(model_);
    std::shared_ptr<const Source> source = model_.source();
    for (const Step& step : model_.history()) {
      bool stays = true;
      each_original(
          step, [&](const Entry& entry) { stays &= !by_.count(key_of_storage(entry->tensor)); });
      if (stays) continue;
      Step amended = step;
      for (Edit& edit : amended.edits)
        if (auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->before)
          exchange_entry(change->before);
      editor.amend(std::move(amended));
    }
    if (const auto* file = dynamic_cast<const Pt2Source*>(model_.source().get())) {
      auto amended = std::make_shared<Pt2Source>(*file);
      for (auto& text : amended->state) {
        // One that was written into is not the file's any more.
        const bool of_file = text.entry && is_untouched(*text.entry);
        if (const Instead* instead = of_file ? exchange_entry(text.entry) : nullptr) {
          auto& original = amended->records[amended->record_index.at(text.record)];
          original.blob = {};
          original.content = instead->content;
        }
      }
      if (base) amended->bases.push_back(base);
      source = std::move(amended);
    }
    editor.commit_without_step();
    Restorer(model_).set_source(std::move(source));
  }

 private:
  // Null: it stays as it is.
  const Instead* exchange_entry(Entry& entry) {
    if (!entry->tensor.has_storage() || entry->tensor.is_meta()) return nullptr;
    const auto found = by_.find(key_of_storage(entry->tensor));
    if (found == by_.end()) return nullptr;
    Entry& other = entries_[entry];
    if (!other) {
      StateEntry copy = *entry;
      copy.tensor = tensor_in(found->second.storage, entry->tensor);
      other = std::make_shared<const StateEntry>(std::move(copy));
    }
    entry = other;
    return &found->second;
  }

  Model& model_;
  const Exchange& by_;
  std::unordered_map<Entry, Entry> entries_;
};

// ---- away --------------------------------------------------------------------------------------

// Storages that the model, or a step, has made its own.
std::unordered_set<const void*> used_storages(const Model& model) {
  std::unordered_set<const void*> used;
  auto use = [&](const at::TensorBase& tensor) {
    if (tensor.has_storage()) used.insert(key_of_storage(tensor));
  };
  for (StateId id : model.state()) use(model.state().tensor(id));
  for (const Step& step : model.history())
    for (const Edit& edit : step.edits)
      if (const auto* change = std::get_if<Change<StateEntry>>(&edit); change && change->after)
        use(change->after->tensor);
  return used;
}

// ---- back --------------------------------------------------------------------------------------

// Memory of another model.
class Borrowed final : public Content {
 public:
  explicit Borrowed(c10::Storage storage) : storage_(std::move(storage)) {}

  void* data() const override { return const_cast<void*>(storage_.data()); }
  std::size_t size() const override { return storage_.nbytes(); }
  void let_go() override {
    if (Content* content = content_of(storage_)) content->let_go();
  }

 private:
  void provide() override {
    if (Content* content = content_of(storage_)) content->require();
  }

  c10::Storage storage_;
};

Instead instead_of(const c10::Storage& storage) {
  const c10::Storage in_memory =
      storage.device().is_cpu() ? storage : at::Tensor(bytes_in(storage)).cpu().storage();
  return {storage, std::make_shared<Borrowed>(in_memory)};
}

// A storage without its contents, and the tensors in it.
struct Wanted {
  const Detached* detached;
  std::vector<Entry> entries;
};

class Finder {
 public:
  Finder(const Base& base, const std::string& path) : base_(base), path_(path) {}

  Instead find(const Wanted& wanted) {
    std::vector<std::pair<Entry, at::TensorBase>> found;
    std::size_t bytes = 0;
    std::string why = "there is none";
    for (const Entry& entry : wanted.entries) {
      const at::TensorBase tensor = base_.find(entry->name);
      if (!tensor.defined()) continue;
      why = why_not(tensor, entry->tensor);
      if (!why.empty()) break;
      if (is(wanted, tensor)) return instead_of(tensor.storage());
      found.emplace_back(entry, tensor);
      bytes += entry->tensor.nbytes();
    }
    // It may lie otherwise there: in order, each tensor by itself.
    if (!found.empty() && why.empty()) {
      if (bytes < wanted.detached->size())
        why = "it was a part of a larger storage; the .pt2 file has that";
      else if (const at::TensorBase made = put_together(wanted, found); made.defined())
        return instead_of(made.storage());
      else
        why = "its values differ";
    }
    throw Error(fmt::format("{} does not have the original of '{}': {}", path_,
                            wanted.detached->name(), why));
  }

 private:
  static std::string why_not(const at::TensorBase& there, const at::TensorBase& was) {
    if (detached_in(there)) return "it was detached there, too";
    if (there.is_meta()) return "it cannot be read here";
    if (there.scalar_type() == was.scalar_type() && there.sizes() == was.sizes()) return "";
    return fmt::format("it is {} there, and was {}", print(*type_of(there)), print(*type_of(was)));
  }

  static bool is(const Wanted& wanted, const at::TensorBase& tensor) {
    const c10::Storage& storage = tensor.storage();
    if (storage.nbytes() != wanted.detached->size() ||
        storage.device() != wanted.entries.front()->tensor.device())
      return false;
    require_content(tensor);
    const bool same = content_hash(bytes_in(storage)) == wanted.detached->hash();
    let_go_content(tensor);
    return same;
  }

  // Undefined if that is not what it was.
  static at::TensorBase put_together(const Wanted& wanted,
                                     const std::vector<std::pair<Entry, at::TensorBase>>& found) {
    const c10::InferenceMode ordinary_tensors(false);
    const at::NoGradGuard no_grad;
    const at::Tensor bytes =
        at::zeros({static_cast<std::int64_t>(wanted.detached->size())}, at::dtype(at::kByte));
    try {
      for (const auto& [entry, tensor] : found) {
        require_content(tensor);
        at::Tensor(tensor_in(bytes.storage(), entry->tensor)).copy_(at::Tensor(tensor));
        let_go_content(tensor);
      }
    } catch (const c10::Error&) {  // elements that overlap cannot be written
      return {};
    }
    if (content_hash(bytes) != wanted.detached->hash()) return {};
    return bytes.to(wanted.entries.front()->tensor.device());
  }

  const Base& base_;
  const std::string& path_;
};

void attach(Model& model, const std::set<StepId>& steps, const std::string& path) {
  std::vector<Wanted> all;
  std::unordered_map<const void*, std::size_t> index;
  for (const Step& step : model.history())
    if (steps.count(step.id))
      each_original(step, [&](const Entry& entry) {
        const Detached* detached = detached_in(entry->tensor);
        if (!detached) return;
        const auto [it, is_new] = index.try_emplace(key_of_storage(entry->tensor), all.size());
        if (is_new) all.push_back({detached, {}});
        all[it->second].entries.push_back(entry);
      });
  const std::unique_ptr<Base> base = Base::open(path);  // a wrong path is an error in any case
  if (all.empty()) return;
  Finder finder(*base, path);
  Exchange exchange;
  for (const Wanted& wanted : all)
    exchange.emplace(key_of_storage(wanted.entries.front()->tensor), finder.find(wanted));
  if (base->source()) require_unchanged(*base->source());
  Exchanger(model, exchange).exchange(base->source());
}

}  // namespace

std::vector<DetachedTensor> detach(Model& model) {
  const Slices slices = find_slices(model);
  const std::unordered_set<const void*> used = used_storages(model);
  std::vector<DetachedTensor> all;
  Exchange exchange;
  for (const Step& step : model.history())
    each_original(step, [&](const Entry& entry) {
      const at::TensorBase& tensor = entry->tensor;
      const void* key = key_of_storage(tensor);
      if (tensor.storage().nbytes() == 0 || detached_in(tensor) || used.count(key) ||
          slices.count(key) || exchange.count(key))
        return;
      require_content(tensor);
      auto detached =
          std::make_shared<Detached>(entry->name, tensor.scalar_type(), tensor.storage().nbytes(),
                                     content_hash(bytes_in(tensor.storage())));
      let_go_content(tensor);
      all.push_back(described(*detached));
      exchange.emplace(key, Instead{storage_of(detached, tensor.device()), detached});
    });
  if (!exchange.empty()) Exchanger(model, exchange).exchange(nullptr);
  return all;
}

std::vector<DetachedTensor> detached(const Step& step) {
  Seen seen;
  return detached(step, seen);
}

std::vector<DetachedTensor> detached(const Model& model) {
  Seen seen;
  std::vector<DetachedTensor> all;
  for (const Step& step : model.history())
    for (DetachedTensor& tensor : detached(step, seen)) all.push_back(std::move(tensor));
  return all;
}

void attach(Model& model, const std::string& base) {
  const std::vector<StepId> all = model.history().ids();
  attach(model, std::set<StepId>(all.begin(), all.end()), base);
}

void attach(Model& model, const ReversalPlan& plan, const std::string& base) {
  std::set<StepId> steps(plan.asked.begin(), plan.asked.end());
  for (const auto& [id, causes] : plan.dependents) steps.insert(id);
  attach(model, steps, base);
}

}  // namespace refx

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "refx/edit.h"
#include "refx/export.h"

namespace refx {

class Model;

// How to tell whether a tensor that a step left in the state was changed since.
struct TensorStamp {
  StateId state;
  std::uint32_t version;                   // of the tensor's counter, in this process
  std::array<std::uint64_t, 2> hash = {};  // of its contents, in a step that was loaded; else zeros
  bool changed = false;                    // it is known that it was, though no counter tells
};
REFX_API TensorStamp stamp_of(StateId state, const at::TensorBase& tensor);
// Of the tensors that the edits leave in the state.
REFX_API std::vector<TensorStamp> stamps_of(const std::vector<Edit>& edits);
REFX_API bool is_changed(const TensorStamp& stamp, const at::TensorBase& tensor);

// One applied site: what was done, where, and every change it made.
struct REFX_API Step {
  StepId id;
  Name transformation;  // name in the registry
  Name signature;       // name and parameters
  Kwargs parameters;
  Name site;
  std::vector<NodeId> nodes;  // nodes it wrote that were alive after it
  std::vector<Edit> edits;    // one per object
  std::vector<Piece> pieces;

  std::vector<TensorStamp> stamps;  // of the tensors it left in the state, in the order of edits

  // Bytes of the tensors kept for undo.
  std::size_t bytes() const;
};
REFX_API std::ostream& operator<<(std::ostream& out,
                                  const Step& step);  // "3  merge-linears  encoder.{q,k}"

// The live steps of a model, oldest first, and those that redo() can bring back.
class REFX_API History {
  struct Place {
    StepId id;
    std::shared_ptr<const Step> step;  // null: it was reversed
  };

 public:
  class Iterator {
   public:
    using iterator_category = std::forward_iterator_tag;
    using value_type = Step;
    using difference_type = std::ptrdiff_t;
    using pointer = const Step*;
    using reference = const Step&;

    Iterator() = default;
    const Step& operator*() const { return *at_->step; }
    const Step* operator->() const { return at_->step.get(); }
    Iterator& operator++() {
      do ++at_;
      while (at_ != end_ && !at_->step);
      return *this;
    }
    Iterator operator++(int) {
      Iterator old = *this;
      ++*this;
      return old;
    }
    bool operator==(const Iterator& other) const { return at_ == other.at_; }

   private:
    friend History;
    Iterator(const Place* at, const Place* end) : at_(at), end_(end) {
      if (at_ != end_ && !at_->step) ++*this;
    }
    const Place *at_ = nullptr, *end_ = nullptr;
  };

  Iterator begin() const { return {places_.data(), places_.data() + places_.size()}; }
  Iterator end() const {
    const Place* end = places_.data() + places_.size();
    return {end, end};
  }
  std::size_t size() const { return live_; }
  bool empty() const { return live_ == 0; }
  bool contains(StepId id) const { return find(id) != nullptr; }
  const Step& operator[](StepId id) const;  // throws Error if it is not live
  const Step& back() const;
  std::vector<StepId> ids() const;
  Iterator from(StepId id) const;  // or the first after

  // Live steps named by a step id ("3"), a transformation's name, or a site pattern (* and ?).
  // Throws Error, with the nearest names, if there are none.
  std::vector<StepId> select(std::string_view what) const;

  // Live steps that cannot stay as they are when this one is reversed: directly, oldest first.
  // `model` is the one whose history this is.
  std::vector<StepId> dependents(const Model& model, StepId id) const;

  // Reversed steps that nothing new has replaced, in the order in which redo() takes them.
  const std::vector<std::shared_ptr<const Step>>& reversed() const { return reversed_; }

 private:
  friend struct ModelAccess;
  void add(std::shared_ptr<const Step> step);
  void replace(std::shared_ptr<const Step> step);  // the one of the same id
  std::shared_ptr<const Step> remove(StepId id);

  const Place* find(StepId id) const;  // of a live step, or null

  std::vector<Place> places_;  // by id; the last is live
  std::size_t live_ = 0;
  std::vector<std::shared_ptr<const Step>> reversed_;
  std::uint32_t next_id_ = 1;
};

}  // namespace refx

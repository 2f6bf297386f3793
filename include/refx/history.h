// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "refx/edit.h"
#include "refx/export.h"

namespace refx {

class Model;

// Detects whether a tensor that a step left in the state has been changed since then.
struct TensorStamp {
  StateId state;
  std::uint32_t version;                   // of torch's version counter, in this process
  std::array<std::uint64_t, 2> hash = {};  // of its contents if the step was loaded, else zeros
  bool changed = false;                    // true if a file states that it was changed
};
REFX_API TensorStamp stamp_of(StateId state, const at::TensorBase& tensor);
// Returns the stamps of the tensors that the edits leave in the state.
REFX_API std::vector<TensorStamp> stamps_of(const std::vector<Edit>& edits);
REFX_API bool is_changed(const TensorStamp& stamp, const at::TensorBase& tensor);

// Whether a rewritten model computes what it did before: the same up to rounding, or an
// approximation of it on purpose, such as with weights in int8.
enum class Numerics : std::uint8_t { preserved, approximate };
REFX_API const char* to_string(Numerics numerics);

// One rewritten site: the transformation, the site, and all edits.
struct REFX_API Step {
  StepId id;
  Name transformation;  // name in the registry
  Name signature;       // name and parameters
  Kwargs parameters;
  Name site;
  Numerics numerics = Numerics::preserved;  // of the transformation, see Transformation::numerics()
  std::vector<NodeId> nodes;                // nodes it wrote that were alive after it
  std::vector<Edit> edits;                  // one per object
  std::vector<Piece> pieces;

  std::vector<TensorStamp> stamps;  // of the tensors that it left in the state, in edit order

  // The size of the tensors that are kept for undo.
  std::size_t bytes() const;
};
REFX_API std::ostream& operator<<(std::ostream& out,
                                  const Step& step);  // "3  merge-linears  encoder.{q,k}"

// The live steps of a model, oldest first, and the reversed steps that redo() can restore.
class REFX_API History {
  struct StepSlot {
    StepId id;
    std::shared_ptr<const Step> step;  // null if it was reversed
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
    Iterator(const StepSlot* at, const StepSlot* end) : at_(at), end_(end) {
      if (at_ != end_ && !at_->step) ++*this;
    }
    const StepSlot *at_ = nullptr, *end_ = nullptr;
  };

  Iterator begin() const { return {slots_.data(), slots_.data() + slots_.size()}; }
  Iterator end() const {
    const StepSlot* end = slots_.data() + slots_.size();
    return {end, end};
  }
  std::size_t size() const { return live_; }
  bool empty() const { return live_ == 0; }
  bool contains(StepId id) const { return find(id) != nullptr; }
  const Step& operator[](StepId id) const;  // throws Error if it is not live
  const Step& back() const;
  std::vector<StepId> ids() const;
  Iterator from(StepId id) const;  // the step, or the first live one after it

  // Returns the live steps that match a step id ("3"), the name of a transformation, or a site
  // pattern (* and ?). Throws Error, which suggests similar names, if there are none.
  std::vector<StepId> select(std::string_view what) const;

  // Returns the live steps that directly depend on this one, so that they cannot stay as they are
  // when it is reversed; oldest first. `model` is the model of this history.
  std::vector<StepId> dependents(const Model& model, StepId id) const;

  // The reversed steps that redo() can restore. It takes the last one first.
  const std::vector<std::shared_ptr<const Step>>& reversed() const { return reversed_; }

 private:
  friend struct ModelAccess;
  void add(std::shared_ptr<const Step> step);
  void replace(std::shared_ptr<const Step> step);  // replaces the step of the same id
  std::shared_ptr<const Step> remove(StepId id);

  const StepSlot* find(StepId id) const;  // of a live step, or null

  std::vector<StepSlot> slots_;  // by id; the last is live
  std::size_t live_ = 0;
  std::vector<std::shared_ptr<const Step>> reversed_;
  std::uint32_t next_id_ = 1;
};

}  // namespace refx

// SPDX-License-Identifier: Apache-2.0

#include "exec/plan.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>

#include <bit>
#include <cstring>
#include <unordered_map>

#include "exec/arena.h"
#include "exec/out_variants.h"
#include "exec/role.h"

namespace refx::exec {
namespace {

using c10::IValue;

template <class F>
void for_each_tensor(const IValue& v, F&& f) {
  if (v.isTensor()) {
    if (v.toTensor().defined()) f(v.toTensor());
  } else if (v.isTuple()) {
    for (const IValue& item : v.toTupleRef().elements()) for_each_tensor(item, f);
  } else if (v.isList()) {
    for (const IValue& item : v.toList().vec()) for_each_tensor(item, f);
  } else if (v.isGenericDict()) {
    for (const auto& item : v.toGenericDict()) for_each_tensor(item.value(), f);
  }
}

// Compares memory and not values, so that NaN equals itself and -0 differs from 0.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  at::Tensor x = a.contiguous().cpu(), y = b.contiguous().cpu();
  return x.nbytes() == y.nbytes() &&
         std::memcmp(x.const_data_ptr(), y.const_data_ptr(), x.nbytes()) == 0;
}

// A storage that was seen, by number. A weak reference keeps its address from being used again
// without keeping its memory.
class Storages {
 public:
  std::size_t number(const at::Tensor& t) {
    auto* impl = t.storage().unsafeGetStorageImpl();
    auto [it, is_new] = numbers_.try_emplace(impl, numbers_.size());
    if (is_new) held_.emplace_back(t.storage().getWeakStorageImpl());
    return it->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::unordered_map<const c10::StorageImpl*, std::size_t> numbers_;
  std::vector<c10::weak_intrusive_ptr<c10::StorageImpl>> held_;
};

// A tensor without its memory.
struct Layout {
  std::vector<std::int64_t> sizes, strides;
  at::TensorOptions options;
  std::size_t bytes = 0;  // none: it cannot lie in the arena

  Layout() = default;
  explicit Layout(const at::Tensor& t)
      : sizes(t.sizes().vec()),
        strides(t.strides().vec()),
        options(t.options()),
        bytes(t.nbytes()) {}
};

// What was learnt of an instruction by running it.
struct Seen {
  Role role = Role::compute;
  bool aliases = true;  // every tensor it returned shares memory with one it was given
  bool in_arena = false;
  OutCode out;                        // how to write the results into the arena; empty: cannot
  std::vector<Layout> scratch;        // for out.scratch
  std::vector<Layout> layouts;        // of the results
  std::vector<std::size_t> storages;  // of the results
  std::vector<IValue> values;         // of the results, where they are constant
};

bool fits_arena(const at::Tensor& t) {
  return t.defined() && t.layout() == c10::kStrided && t.storage_offset() == 0 &&
         t.is_non_overlapping_and_dense() && t.numel() > 0 && !t.is_quantized() && !t.is_neg() &&
         !t.is_conj();
}

// Beyond these a model is too large to gain from a plan: its time is in its kernels.
constexpr std::size_t kMostInstructions = 10'000;
constexpr std::size_t kLargestArena = std::size_t{256} << 20;

class Planner {
 public:
  Planner(Program& program, Stack& stack)
      : program_(program), slots_(program.slots), stack_(stack) {}

  // The plain run, watched.
  bool run(Instruction*& current);
  std::unique_ptr<Plan> plan(const Signature& signature);

 private:
  void watch(std::size_t index, Instruction& i);
  void look_at_results(const Instruction& i, Seen& seen, const std::vector<IValue>& inputs);
  void try_out_variant(const Instruction& i, Seen& seen, const std::vector<IValue>& inputs,
                       const std::vector<Slot>& reads);
  void use(const IValue& value, std::size_t index);
  void find_escapes();
  bool is_returned(const Instruction& i) const;

  void choose_arena();
  bool place_buffers(Plan& plan);
  void write_code(Plan& plan);
  void add(Plan& plan, Instruction i, Role role, const Seen& seen);
  void pin_inputs(const Plan& plan, Instruction& i);
  bool all_pinned(const Instruction& i) const;
  void pin(Plan& plan, Slot slot, IValue value);
  void finish(Plan& plan);

  Program& program_;
  Values& slots_;
  Stack& stack_;
  Storages storages_;
  std::vector<Seen> seen_;
  std::vector<std::size_t> last_use_;  // of each storage
  std::unordered_set<std::size_t> escapes_, written_;
  bool possible_ = true;

  std::vector<std::optional<IValue>> pinned_;
  std::unordered_set<Slot> output_slots_;
};

// ---- watching ----------------------------------------------------------------------------------

void Planner::use(const IValue& value, std::size_t index) {
  for_each_tensor(value, [&](const at::Tensor& t) {
    if (!t.has_storage()) {
      possible_ = false;
      return;
    }
    std::size_t n = storages_.number(t);
    if (last_use_.size() <= n) last_use_.resize(n + 1, 0);
    last_use_[n] = std::max(last_use_[n], index);
  });
}

void Planner::look_at_results(const Instruction& i, Seen& seen, const std::vector<IValue>& inputs) {
  std::unordered_set<std::size_t> given;
  for (const IValue& v : inputs) {
    for_each_tensor(v, [&](const at::Tensor& t) { given.insert(storages_.number(t)); });
  }
  bool tensors = false;
  for (std::uint32_t k = 0; k < i.results; ++k) {
    const IValue& v = slots_[i.result + k];
    for_each_tensor(v, [&](const at::Tensor& t) {
      tensors = true;
      // A storage that no input has is new memory.
      seen.aliases &= given.count(storages_.number(t)) != 0;
    });
    bool is_tensor = v.isTensor() && v.toTensor().defined();
    seen.layouts.push_back(is_tensor && fits_arena(v.toTensor()) ? Layout(v.toTensor()) : Layout());
    seen.storages.push_back(is_tensor ? storages_.number(v.toTensor()) : 0);
  }
  // size(x) or x.shape: the result is fixed by the sizes, which are part of the signature.
  if (!tensors && seen.role == Role::view) seen.role = Role::shape;
  if (seen.role == Role::view && !seen.aliases) seen.role = Role::compute;  // made a copy
  // These have the same value in every run with this signature.
  if (seen.role == Role::constant || seen.role == Role::shape) {
    seen.values.assign(slots_.begin() + i.result, slots_.begin() + i.result + i.results);
  }
}

// Runs the out variant beside the plain call: only what gives the same bits is planned.
void Planner::try_out_variant(const Instruction& i, Seen& seen, const std::vector<IValue>& inputs,
                              const std::vector<Slot>& reads) {
  // A result that does not fit the arena keeps its plain call.
  for (const Layout& layout : seen.layouts) {
    if (layout.bytes == 0) return;
  }
  std::vector<IValue> results(slots_.begin() + i.result, slots_.begin() + i.result + i.results);
  // The plain call may have taken its inputs out of the slots.
  for (std::size_t k = 0; k < reads.size(); ++k) slots_[reads[k]] = inputs[k];
  for (std::uint32_t k = 0; k < i.results; ++k) {
    const Layout& like = seen.layouts[k];
    slots_[i.result + k] = at::empty_strided(like.sizes, like.strides, like.options);
  }
  std::size_t old_slots = slots_.size();
  OutCode out;
  try {
    out = OutWriter(slots_).write(i);
    for (Instruction& o : out.code) execute(o, slots_, stack_);
  } catch (const std::exception&) {
    out = {};  // the plain call stands
  }
  for (std::uint32_t k = 0; k < i.results && !out.empty(); ++k) {
    if (!same_bits(slots_[i.result + k].toTensor(), results[k].toTensor())) out = {};
  }
  for (const auto& scratch : out.scratch) seen.scratch.emplace_back(slots_[scratch].toTensor());
  for (std::size_t s = old_slots; s < slots_.size(); ++s) slots_[s] = IValue();
  for (std::uint32_t k = 0; k < i.results; ++k) slots_[i.result + k] = results[k];
  seen.out = std::move(out);
}

void Planner::watch(std::size_t index, Instruction& i) {
  bind_if_needed(i, slots_);
  std::vector<Slot> reads;
  std::vector<IValue> inputs;
  for_each_read(i, [&](Slot s) {
    reads.push_back(s);
    inputs.push_back(slots_[s]);
    use(slots_[s], index);
  });
  Seen& seen = seen_.emplace_back();
  seen.role = possible_ ? role_of(i, slots_) : Role::unplanned;
  possible_ &= seen.role != Role::unplanned;
  if (possible_ && seen.role == Role::write) {
    for (const IValue& v : inputs) {
      for_each_tensor(v, [&](const at::Tensor& t) { written_.insert(storages_.number(t)); });
    }
  }
  // Inputs have to live until the out variant has run on them.
  std::vector<Slot> release = std::exchange(i.release, {});
  execute(i, slots_, stack_);
  i.release = std::move(release);
  for (std::uint32_t k = 0; k < i.results; ++k) use(slots_[i.result + k], index);
  if (possible_) {
    look_at_results(i, seen, inputs);
    bool is_new = seen.role == Role::compute && !seen.aliases;
    // A second call would draw other numbers, and out variants run without autocast.
    bool random = i.op && i.op->hasTag(at::Tag::nondeterministic_seeded);
    if (is_new && i.op && !random && !i.autocast) try_out_variant(i, seen, inputs, reads);
    // Taken inputs were put back for the comparison.
    for (Slot s : i.last_uses) {
      if (s < i.result || s >= i.result + i.results) slots_[s] = IValue();
    }
  }
  for (Slot s : i.release) slots_[s] = IValue();
}

bool Planner::run(Instruction*& current) {
  std::size_t index = 0;
  possible_ = program_.code.size() <= kMostInstructions;
  // State and inputs exist before the first instruction.
  for (const Slot s : program_.state_slots) use(slots_[s], 0);
  for (const auto& input : program_.user_inputs) {
    use(slots_[input.slot], 0);
    for_each_tensor(slots_[input.slot], [&](const at::Tensor& t) {
      // The caller owns the inputs: nothing may be placed over a view of one.
      if (possible_) escapes_.insert(storages_.number(t));
    });
  }
  for (Instruction& i : program_.code) {
    current = &i;
    watch(index++, i);
  }
  if (possible_) find_escapes();
  return possible_;
}

void Planner::find_escapes() {
  for_each_slot(program_.output, [&](Slot s) {
    output_slots_.insert(s);
    for_each_tensor(slots_[s], [&](const at::Tensor& t) { escapes_.insert(storages_.number(t)); });
  });
}

// ---- planning ----------------------------------------------------------------------------------

// Results that nobody outside sees and that an out variant can make; on one device.
void Planner::choose_arena() {
  std::optional<c10::Device> device;
  for (std::size_t index = 0; index < seen_.size(); ++index) {
    const Instruction& i = program_.code[index];
    Seen& seen = seen_[index];
    // Results that the caller gets need memory of their own: the arena is reused by the next run.
    seen.in_arena = !seen.out.empty() && !is_returned(i);
    for (std::size_t s : seen.storages) seen.in_arena &= escapes_.count(s) == 0;
    for (const Layout& layout : seen.layouts) {
      if (seen.in_arena && !device) device = layout.options.device();
      seen.in_arena &= device && layout.options.device() == *device;
    }
  }
}

bool Planner::place_buffers(Plan& plan) {
  std::vector<Buffer> buffers;
  std::vector<std::pair<Slot, const Layout*>> homes;
  auto add = [&](Slot slot, const Layout& layout, std::size_t first, std::size_t last) {
    buffers.push_back({layout.bytes, first, last});
    homes.emplace_back(slot, &layout);
  };
  for (std::size_t index = 0; index < seen_.size(); ++index) {
    const Seen& seen = seen_[index];
    if (!seen.in_arena) continue;
    for (std::size_t k = 0; k < seen.layouts.size(); ++k) {
      Slot slot = program_.code[index].result + static_cast<Slot>(k);
      add(slot, seen.layouts[k], index, last_use_[seen.storages[k]]);
    }
    for (std::size_t k = 0; k < seen.scratch.size(); ++k) {
      // Scratch memory lives only during its instruction.
      add(seen.out.scratch[k], seen.scratch[k], index, index);
    }
  }
  std::size_t bytes = place(buffers);
  if (bytes == 0 || bytes > kLargestArena) return false;
  auto options = homes[0].second->options.dtype(at::kByte);
  at::Tensor arena = at::empty({static_cast<std::int64_t>(bytes)}, options);
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    const auto& [slot, like] = homes[k];
    char* at = static_cast<char*>(arena.data_ptr()) + buffers[k].offset;
    // A storage of its own, so that offsets into it mean what they meant.
    pin(plan, slot,
        at::from_blob(
            at, like->sizes, like->strides, [arena](void*) {}, like->options));
  }
  return true;
}

void Planner::pin(Plan& plan, Slot slot, IValue value) {
  plan.program.slots[slot] = value;
  pinned_[slot] = std::move(value);
}

bool Planner::is_returned(const Instruction& i) const {
  for (std::uint32_t k = 0; k < i.results; ++k) {
    if (output_slots_.count(i.result + k)) return true;
  }
  return false;
}

bool Planner::all_pinned(const Instruction& i) const {
  bool all = true;
  for_each_read(i, [&](Slot s) { all &= pinned_[s].has_value(); });
  return all;
}

// A pinned value becomes part of the instruction; a nest of pinned ones, too.
void Planner::pin_inputs(const Plan& plan, Instruction& i) {
  for (Input& input : i.inputs) {
    bool direct = input.from == Input::From::slot && pinned_[input.slot];
    bool nested = input.from == Input::From::nest;
    for_each_slot(input.nest, [&](Slot s) { nested &= pinned_[s].has_value(); });
    if (!direct && !nested) continue;
    IValue value = direct ? *pinned_[input.slot] : evaluate(input.nest, plan.program.slots);
    auto converted = convert(value, *input.argument);
    if (!converted) continue;
    input.from = Input::From::constant;
    input.constant = std::move(*converted);
    input.nest = {};
  }
}

void Planner::add(Plan& plan, Instruction i, Role role, const Seen& seen) {
  i.last_uses.clear();
  i.release.clear();
  for (Input& input : i.inputs) input.take = false;
  i.bind = nullptr;
  if (i.op) {
    i.args.clear();
    i.kwargs.clear();
  }
  // A constant that is returned, or written in place, has to be made anew in each run.
  bool constant = role == Role::constant && !is_returned(i);
  for (std::size_t s : seen.storages) constant &= !escapes_.count(s) && !written_.count(s);
  if (constant || role == Role::shape) {
    for (std::uint32_t k = 0; k < i.results; ++k) pin(plan, i.result + k, seen.values[k]);
    return;
  }
  // A view of memory that never moves is the same in every run, and is taken once.
  bool fixed_view = role == Role::view && !is_returned(i) && all_pinned(i);
  pin_inputs(plan, i);
  if (fixed_view) {
    execute(i, plan.program.slots, stack_);
    for (std::uint32_t k = 0; k < i.results; ++k)
      pin(plan, i.result + k, plan.program.slots[i.result + k]);
    return;
  }
  // What is changed in place stays where it is.
  bool in_place = role == Role::write && i.op && i.results == 1 && seen.aliases && !is_returned(i);
  if (in_place && i.inputs[0].from == Input::From::constant && i.inputs[0].constant.isTensor()) {
    pin(plan, i.result, i.inputs[0].constant);
  }
  plan.program.code.push_back(std::move(i));
}

void Planner::write_code(Plan& plan) {
  for (std::size_t index = 0; index < seen_.size(); ++index) {
    const Instruction& i = program_.code[index];
    const Seen& seen = seen_[index];
    if (!seen.in_arena) {
      add(plan, i, seen.role, seen);
      continue;
    }
    for (const Instruction& o : seen.out.code) {
      bool is_view = !o.op->schema().is_mutable();
      add(plan, o, is_view ? Role::view : Role::compute, {});
    }
  }
}

void Planner::finish(Plan& plan) {
  Program& p = plan.program;
  find_last_uses(p, [&](Slot s) { return pinned_[s].has_value(); });
  p.transient.clear();
  for (Slot s = 0; s < p.slots.size(); ++s) {
    if (!pinned_[s]) {
      p.transient.push_back(s);
      p.slots[s] = IValue();
    }
  }
  for (Slot s : p.state_slots) {
    const at::Tensor& t = p.slots[s].toTensor();
    // A run may replace the storage of its state (set_, resize_): then the plan is dropped, see
    // is_current.
    plan.origins.push_back({s, t.storage().unsafeGetStorageImpl(), t.const_data_ptr(),
                            t.sizes().vec(), t.strides().vec()});
  }
}

std::unique_ptr<Plan> Planner::plan(const Signature& signature) {
  auto plan = std::make_unique<Plan>();
  plan->signature = signature;
  Program& p = plan->program;
  p.slots.resize(slots_.size());
  p.user_inputs = program_.user_inputs;
  p.state_slots = program_.state_slots;
  p.output = program_.output;
  p.mutations = program_.mutations;
  pinned_.resize(slots_.size());
  for (Slot s : program_.state_slots) pin(*plan, s, slots_[s]);
  choose_arena();
  if (!place_buffers(*plan)) return nullptr;
  write_code(*plan);
  finish(*plan);
  return plan;
}

}  // namespace

// ---- signatures --------------------------------------------------------------------------------

void Signature::assign(const std::vector<IValue>& inputs) {
  words_.clear();
  fixed_ = true;
  for (const IValue& v : inputs) add(v);
}

void Signature::add(const IValue& v) {
  words_.push_back(static_cast<std::int64_t>(kind_of(v)));
  if (v.isTensor() && v.toTensor().defined()) {
    const at::Tensor& t = v.toTensor();
    if (t.layout() != c10::kStrided) {
      fixed_ = false;
      return;
    }
    // The key set has backend, autocast and the conj and neg bits, on which kernels depend.
    words_.push_back(static_cast<std::int64_t>(t.key_set().raw_repr()));
    words_.push_back(static_cast<std::int64_t>(t.scalar_type()) << 32 | t.device().index());
    words_.push_back(t.dim());
    words_.insert(words_.end(), t.sizes().begin(), t.sizes().end());
    words_.insert(words_.end(), t.strides().begin(), t.strides().end());
    // A number decides sizes, so that its value is part of the signature.
  } else if (v.isInt() || v.isBool()) {
    words_.push_back(v.isInt() ? v.toInt() : v.toBool());
  } else if (v.isDouble()) {
    words_.push_back(std::bit_cast<std::int64_t>(v.toDouble()));
  } else if (v.isTuple()) {
    words_.push_back(static_cast<std::int64_t>(v.toTupleRef().elements().size()));
    for (const IValue& item : v.toTupleRef().elements()) add(item);
  } else {
    fixed_ &= v.isNone();
  }
}

// The pinned views are of the memory that the state had when the plan was made.
bool Plan::is_current(const Program& plain) const {
  for (const Origin& o : origins) {
    const at::Tensor& t = plain.slots[o.slot].toTensor();
    if (t.storage().unsafeGetStorageImpl() != o.storage || t.const_data_ptr() != o.data ||
        t.sizes() != o.sizes || t.strides() != o.strides) {
      return false;
    }
  }
  return true;
}

std::unique_ptr<Plan> run_and_plan(Program& program, const Signature& signature, Stack& stack,
                                   Instruction*& current) {
  struct Trim {  // out variants that were tried left slots behind
    Values& slots;
    std::size_t size;
    ~Trim() { slots.resize(size); }
  } trim{program.slots, program.slots.size()};
  Planner planner(program, stack);
  return planner.run(current) ? planner.plan(signature) : nullptr;
}

}  // namespace refx::exec

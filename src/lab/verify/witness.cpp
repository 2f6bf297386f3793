#include "lab/verify/witness.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <c10/util/Exception.h>

#include <algorithm>

#include "ir/content.h"
#include "lab/verify/in_double.h"
#include "refx/error.h"
#include "util/first_line.h"

namespace refx {

namespace {

constexpr std::uint64_t kFarRuns = 12;
constexpr std::uint64_t kEnoughWithoutFlip = 6;

bool same_tensor(const at::TensorBase& a, const at::TensorBase& b) {
  if (a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl()) return true;
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type() || a.device() != b.device() ||
      a.layout() != c10::kStrided || b.layout() != c10::kStrided)
    return false;
  require_content(a);
  require_content(b);
  return at::equal(at::Tensor(a), at::Tensor(b));
}

// Whether `part` stands in `whole` somewhere along this dimension.
bool holds_along(const at::Tensor& whole, const at::Tensor& part, std::int64_t dim) {
  const std::int64_t length = part.size(dim), last = whole.size(dim) - length;
  const at::Tensor starts = (whole.narrow(dim, 0, last + 1) == part.narrow(dim, 0, 1))
                                .movedim(dim, 0)
                                .reshape({last + 1, -1})
                                .all(1)
                                .nonzero();
  for (std::int64_t i = 0; i < std::min<std::int64_t>(starts.size(0), 8); ++i)
    if (at::equal(whole.narrow(dim, starts[i].item<std::int64_t>(), length), part)) return true;
  return false;
}

// Whether `part` is a block of `whole`, bit for bit: anywhere along the first dimension in which
// they differ, at the begin or the end of the others. A vector is looked for as a column, too.
bool holds(const at::Tensor& whole, at::Tensor part) {
  if (whole.scalar_type() != part.scalar_type() || whole.device() != part.device() ||
      whole.layout() != c10::kStrided || part.layout() != c10::kStrided || part.numel() == 0)
    return false;
  if (part.dim() + 1 == whole.dim()) part = part.unsqueeze(-1);
  if (part.dim() != whole.dim()) return false;
  std::vector<std::int64_t> differing;
  for (std::int64_t dim = 0; dim < part.dim(); ++dim) {
    if (part.size(dim) > whole.size(dim)) return false;
    if (part.size(dim) < whole.size(dim)) differing.push_back(dim);
  }
  if (differing.empty()) return at::equal(whole, part);
  for (const bool at_end : {false, true}) {
    at::Tensor block = whole;
    for (std::size_t i = 1; i < differing.size(); ++i) {
      const std::int64_t dim = differing[i], length = part.size(dim);
      block = block.narrow(dim, at_end ? whole.size(dim) - length : 0, length);
    }
    if (holds_along(block, part, differing[0])) return true;
  }
  return false;
}

// The entries of the original whose bits the rewritten model has neither under their name nor, as
// merges leave them, inside a tensor of its own.
std::set<StateId> changed_entries(const Model& original, const Model& rewritten) {
  std::set<StateId> missing;
  std::vector<at::Tensor> own;
  for (StateId id : original.state()) {
    const StateId other = rewritten.state().find(original.state()[id].name);
    if (!other || !same_tensor(original.state().tensor(id), rewritten.state().tensor(other)))
      missing.insert(id);
  }
  for (StateId id : rewritten.state()) {
    const StateId before = original.state().find(rewritten.state()[id].name);
    if (!before || missing.count(before)) own.emplace_back(rewritten.state().tensor(id));
  }
  for (const at::Tensor& tensor : own) require_content(tensor);
  std::erase_if(missing, [&](StateId id) {
    const at::Tensor tensor(original.state().tensor(id));
    require_content(tensor);
    return std::any_of(own.begin(), own.end(),
                       [&](const at::Tensor& whole) { return holds(whole, tensor); });
  });
  return missing;
}

// In the dtype that they have, or in the narrowest that the graph asks for in what it computes from
// stored tensors alone: that may have been computed once and stored.
Roundings roundings_of(const Model& original, const std::set<StateId>& entries) {
  Roundings roundings;
  for (StateId id : entries) roundings[id] = rounding(original.state().tensor(id).scalar_type());
  std::unordered_map<NodeId, std::set<StateId>> stored;  // what each node is computed from
  for (NodeId id : original.graph()) {
    const Node& node = original.graph()[id];
    std::set<StateId> from;
    if (const std::string_view name = bound_state(node); !name.empty()) {
      from = {original.state().find(name)};
    } else if (node.op == Opcode::call_function || node.op == Opcode::call_method) {
      bool alone = true;
      for_each_input(node, [&](NodeId input) {
        const auto it = stored.find(input);
        if (it == stored.end())
          alone = false;
        else
          from.insert(it->second.begin(), it->second.end());
      });
      if (!alone) continue;
      if (const auto dtype = dtype_asked_for(node); dtype && is_approximate(*dtype))
        for (StateId entry : from)
          if (const auto it = roundings.find(entry); it != roundings.end())
            it->second = std::max(it->second, rounding(*dtype));
    }
    if (!from.empty()) stored.emplace(id, std::move(from));
  }
  return roundings;
}

std::string not_alike(const Run& narrow, const Run& wide) {
  bool same = narrow.values.size() == wide.values.size();
  for (std::size_t i = 0; same && i < narrow.values.size(); ++i) {
    const Leaf &a = narrow.values[i], &b = wide.values[i];
    same = a.path == b.path && a.value.isTensor() == b.value.isTensor() &&
           (!a.value.isTensor() || a.value.toTensor().sizes() == b.value.toTensor().sizes());
  }
  return same ? "" : "it returns something else in fp64";
}

}  // namespace

Model WideForms::of(const Model& model) {
  return in_double(model, [this](const at::Tensor& tensor, const auto& widened) {
    Pair& pair = made_[tensor.unsafeGetTensorImpl()];
    if (!pair.wide.defined()) pair = {tensor, widened(tensor)};
    return pair.wide;
  });
}

Original original_of_forms(const Model& original, const Model& rewritten, WideForms& forms) {
  Original result{
      original, {}, {}, {}, roundings_of(original, changed_entries(original, rewritten))};
  for (StateId id : original.state())
    if (original.state()[id].kind == StateKind::parameter)
      result.parameters[id] = rounding(original.state().tensor(id).scalar_type());
  try {
    result.wide = forms.of(original);
  } catch (const Error& error) {
    result.why_not_wide = first_line(error.what());
  } catch (const c10::Error& error) {
    result.why_not_wide = first_line(error.what_without_backtrace());
  }
  return result;
}

Witness::Witness(const Original& original, Inputs inputs, std::uint64_t seed)
    : original_(original), inputs_(std::move(inputs)), seed_(seed) {
  DtypeRecorder recorder(trace_);
  narrow_ = run_once(original.model, inputs_.values, seed, &recorder);
}

std::string Witness::run_wide() {
  why_not_wide_ = original_.why_not_wide;
  if (!original_.wide) return why_not_wide_;
  try {
    DecisionRecorder recorder(trace_);
    wide_ = run_in_fp64(*original_.wide, &recorder);
    why_not_wide_ = not_alike(narrow_, *wide_);
  } catch (const Error& error) {
    why_not_wide_ = first_line(error.what());
  }
  if (!why_not_wide_.empty()) wide_.reset();
  return why_not_wide_;
}

Evidence Witness::evidence() const {
  const auto noise = [this](Noise kind) {
    return Evidence::Noise{
        [this, kind](std::size_t runs) -> const Response& { return response(kind, runs); },
        [this, kind]() -> const FarRuns& { return far(kind); }};
  };
  return {narrow_, wide_ ? &*wide_ : nullptr, why_not_wide_, noise(Noise::weights),
          noise(Noise::all)};
}

Run Witness::run(const Model& form) const { return run_once(form, inputs_.values, seed_); }

Run Witness::run_in_fp64(const Model& wide_form, exec::Watcher* watcher) const {
  const DoubleByDefault by_default;
  return run_once(wide_form, in_double(inputs_.values), seed_, watcher);
}

Run Witness::disturbed(Noise noise, double roundings, RoundingNoise::Decisions decisions,
                       std::uint64_t seed, std::set<std::string>* flipped) const {
  const bool weights = noise == Noise::weights;
  const Model model = jittered(*original_.wide, weights ? original_.changed : original_.parameters,
                               roundings, seed);
  RoundingNoise watcher(
      trace_, {.in_fp64 = weights, .roundings = roundings, .decisions = decisions, .seed = seed});
  Run run = run_in_fp64(model, &watcher);
  if (flipped) flipped->insert(watcher.flipped().begin(), watcher.flipped().end());
  return run;
}

const Response& Witness::response(Noise noise, std::size_t runs) const {
  Response& response = responses_[noise];
  const auto held = RoundingNoise::Decisions::held;
  try {
    if (response.runs.empty()) response.fainter = disturbed(noise, kFainter, held, seed_);
    while (response.runs.size() < runs)
      response.runs.push_back(disturbed(noise, 1, held, seed_ + response.runs.size()));
  } catch (const Error&) {  // a run that noise breaks says nothing about rounding
    response.fainter = *wide_;
    response.runs.assign(runs, *wide_);
  }
  return response;
}

const FarRuns& Witness::far(Noise noise) const {
  const auto known = far_.find(noise);
  if (known != far_.end()) return known->second;
  FarRuns far;
  for (std::uint64_t i = 0; i < kFarRuns; ++i) {
    if (i == kEnoughWithoutFlip && far.flipped.empty()) break;
    try {
      far.runs.push_back(
          disturbed(noise, kFar, RoundingNoise::Decisions::free, seed_ + i, &far.flipped));
    } catch (const Error&) {  // other decisions, such as sizes, may not fit together
    }
  }
  return far_[noise] = std::move(far);
}

}  // namespace refx

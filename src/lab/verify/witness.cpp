// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/witness.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/equal.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <unordered_set>

#include "ir/content.h"
#include "lab/verify/in_double.h"
#include "refx/error.h"
#include "util/first_line.h"

namespace refx {

namespace {

// Runs that search for decisions which rounding may flip. A decision at the edge flips in about
// half of the runs, so six runs without any flip are evidence enough. If there is a flip, twelve
// runs show what it may do to the outputs, with all combinations of a few decisions.
constexpr std::uint64_t kFarRuns = 12;
constexpr std::uint64_t kEnoughWithoutFlip = 6;

bool same_tensor(const at::TensorBase& a, const at::TensorBase& b) {
  // Most weights are the same object. Contents are compared only if the objects differ, since that
  // may have to read them from a file.
  if (a.unsafeGetTensorImpl() == b.unsafeGetTensorImpl()) return true;
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type() || a.device() != b.device() ||
      a.layout() != c10::kStrided || b.layout() != c10::kStrided)
    return false;
  require_content(a);
  require_content(b);
  return at::equal(at::Tensor(a), at::Tensor(b));
}

// Whether `part` occurs in `whole` at some offset along this dimension.
bool holds_along(const at::Tensor& whole, const at::Tensor& part, std::int64_t dim) {
  const std::int64_t length = part.size(dim), last = whole.size(dim) - length;
  const at::Tensor places = whole.movedim(dim, 0).narrow(0, 0, last + 1);
  const at::Tensor first = part.movedim(dim, 0)[0];
  // Comparing only the first number rules out nearly all offsets, and costs little for large
  // weights.
  at::Tensor numbers = places;
  while (numbers.dim() > 1) numbers = numbers.select(1, 0);
  const at::Tensor likely = (numbers == first.reshape({-1})[0]).nonzero().reshape({-1});
  if (likely.numel() == 0) return false;
  const at::Tensor starts = likely.masked_select(
      (places.index_select(0, likely) == first).reshape({likely.size(0), -1}).all(1));
  // Each candidate is compared completely. Many candidates mean repeated rows, where a few are
  // enough.
  for (std::int64_t i = 0; i < std::min<std::int64_t>(starts.size(0), 8); ++i)
    if (at::equal(whole.narrow(dim, starts[i].item<std::int64_t>(), length), part)) return true;
  return false;
}

// Whether `part` is a block of `whole`, bit for bit: at any offset along the first dimension in
// which their sizes differ, and at the beginning or the end of the others. These are the ways in
// which rewrites concatenate and pad weights. A vector may also be a column.
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

// The entries of the original whose bits the rewritten model does not contain, neither under their
// name nor as a block of another tensor, as after a merge. Only these were rounded by a rewrite,
// and only these are perturbed in the fp64 comparison: the fewer there are, the sharper it is.
std::set<StateId> changed_entries(const Model& original, const Model& rewritten) {
  std::set<StateId> missing;
  std::vector<at::Tensor> own;  // tensors that only the rewritten model has
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

EntryRounding rounding_of(const ConstantsStored& original, StateId id) {
  const auto off = original.off.find(id);
  return {rounding(original.model.state().tensor(id).scalar_type()),
          off == original.off.end() ? at::Tensor() : off->second};
}

std::string not_alike(const Run& narrow, const Run& wide) {
  bool same = narrow.values.size() == wide.values.size();
  for (std::size_t i = 0; same && i < narrow.values.size(); ++i) {
    const Leaf &a = narrow.values[i], &b = wide.values[i];
    same = a.path == b.path && a.value.isTensor() == b.value.isTensor() &&
           (!a.value.isTensor() || a.value.toTensor().sizes() == b.value.toTensor().sizes());
  }
  return same ? "" : "it returns other outputs in fp64";
}

}  // namespace

Model WideForms::of(const ConstantsStored& stored) {
  std::unordered_set<const void*>
      computed;  // computed again for every model, so the cache would never hit
  for (StateId id : stored.constants)
    computed.insert(stored.model.state().tensor(id).unsafeGetTensorImpl());
  return in_double(stored.model, [&](const at::Tensor& tensor, const auto& widened) {
    if (computed.contains(tensor.unsafeGetTensorImpl())) return widened(tensor);
    Pair& pair = made_[tensor.unsafeGetTensorImpl()];
    if (!pair.wide.defined()) pair = {tensor, widened(tensor)};
    return pair.wide;
  });
}

Original original_of_forms(const Model& original, const Model& rewritten, WideForms& forms) {
  Original result{with_regions_inlined(original), {}, {}, {}, {}};
  const ConstantsStored stored = store_constants(result.model, MeasureConstants::yes);
  for (StateId id :
       changed_entries(stored.model, store_constants(with_regions_inlined(rewritten)).model))
    result.changed[id] = rounding_of(stored, id);
  // Buffers that are not computed (running statistics, for example) are given numbers, not results
  // of a computation in this dtype, so no rounding is assumed for them.
  for (StateId id : stored.model.state())
    if (stored.model.state()[id].kind == StateKind::parameter || stored.off.contains(id))
      result.parameters[id] = rounding_of(stored, id);
  try {
    result.wide = forms.of(stored);
  } catch (const Error& error) {
    result.why_not_wide = first_line(error.what());
  } catch (const c10::Error& error) {
    result.why_not_wide = first_line(error.what_without_backtrace());
  }
  return result;
}

Witness::Witness(const Original& original, Inputs inputs, std::uint64_t seed)
    : original_(original), inputs_(std::move(inputs)), seed_(seed) {
  // The dtypes of all results are recorded here, the decisions in run_wide(). The noise needs both.
  DtypeRecorder recorder(trace_);
  narrow_ = run_sequence(original.model, inputs_, seed, &recorder);
  for (const auto& [node, calls] : trace_.calls)
    for (const Trace::CallRecord& call : calls)
      for (c10::ScalarType dtype : call.dtypes)
        if (is_approximate(dtype) &&
            (coarsest_ == c10::ScalarType::Undefined || rounding(dtype) > rounding(coarsest_)))
          coarsest_ = dtype;
}

bool Witness::is_random() const {
  return std::any_of(narrow_.begin(), narrow_.end(), [](const Run& run) { return run.random; });
}

std::string Witness::run_wide() {
  why_not_wide_ = original_.why_not_wide;
  if (!original_.wide) return why_not_wide_;
  try {
    DecisionRecorder recorder(trace_);
    wide_ = run_in_fp64(*original_.wide, &recorder);
    for (std::size_t call = 0; call < calls() && why_not_wide_.empty(); ++call)
      why_not_wide_ = not_alike(narrow_[call], wide_[call]);
  } catch (const Error& error) {
    why_not_wide_ = first_line(error.what());
  }
  if (!why_not_wide_.empty()) wide_.clear();
  return why_not_wide_;
}

Evidence Witness::evidence(std::size_t call) const {
  const auto noise = [this, call](Noise kind) {
    return Evidence::NoiseRuns{[this, kind, call](std::size_t runs) -> const Response& {
                                 return response(kind, call, runs);
                               },
                               [this, kind, call]() -> const FarRuns& { return far(kind, call); }};
  };
  return {narrow_[call],         wide_.empty() ? nullptr : &wide_[call],
          why_not_wide_,         coarsest_,
          noise(Noise::weights), noise(Noise::all)};
}

std::vector<Run> Witness::run(const Model& form) const {
  return run_sequence(form, inputs_, seed_);
}

std::vector<Run> Witness::run_in_fp64(const Model& wide_form, exec::Watcher* watcher) const {
  const DoubleByDefault by_default;
  return run_sequence(wide_form, in_double(inputs_), seed_, watcher);
}

std::vector<OutputCheck> Witness::judge_calls(const std::vector<Run>& current,
                                              const std::vector<Run>* wide,
                                              const Allowance& allowance,
                                              const std::string& why_not_wide) const {
  const auto is_worse = [&](const OutputCheck& a, const OutputCheck& b) {
    // Verdicts are ordered from pass to fail.
    if (a.answer != b.answer) return a.answer > b.answer;
    return allowance.lossy ? loss(a) > loss(b)
                           : fraction_of_tolerance(a) > fraction_of_tolerance(b);
  };
  std::vector<OutputCheck> worst;
  for (std::size_t call = 0; call < calls(); ++call) {
    Evidence known = evidence(call);
    if (!why_not_wide.empty()) {
      known.wide = nullptr;
      known.why_not_wide = why_not_wide;
    }
    for (OutputCheck& check :
         judge(known, current[call], wide ? &(*wide)[call] : nullptr, allowance)) {
      if (calls() > 1) check.call = call + 1;
      const auto same = std::find_if(worst.begin(), worst.end(), [&](const OutputCheck& other) {
        return other.path == check.path;
      });
      if (same == worst.end())
        worst.push_back(std::move(check));
      else if (is_worse(check, *same))
        *same = std::move(check);
    }
  }
  return worst;
}

std::vector<Run> Witness::disturbed(Noise noise, double roundings,
                                    RoundingNoise::Decisions decisions, std::uint64_t seed,
                                    std::set<std::string>* flipped) const {
  // Changed weights were rounded once when they were created. The results after them round as in
  // any fp64 run, so the watcher adds only fp64's own rounding.
  const bool weights = noise == Noise::weights;
  const Model model = jittered(*original_.wide, weights ? original_.changed : original_.parameters,
                               roundings, seed);
  RoundingNoise watcher(
      trace_, {.in_fp64 = weights, .roundings = roundings, .decisions = decisions, .seed = seed});
  std::vector<Run> runs = run_in_fp64(model, &watcher);
  if (flipped) flipped->insert(watcher.flipped().begin(), watcher.flipped().end());
  return runs;
}

// One run makes all calls of the sequence, so it adds a response to each of them.
const Response& Witness::response(Noise noise, std::size_t call, std::size_t runs) const {
  std::vector<Response>& all = responses_[noise];
  all.resize(calls());
  const auto held = RoundingNoise::Decisions::held;
  try {
    // The fainter run has the seed of the first run: the same noise, scaled, so that the two
    // effects can be compared.
    if (all[call].runs.empty()) {
      std::vector<Run> fainter = disturbed(noise, kFainter, held, seed_);
      for (std::size_t i = 0; i < calls(); ++i) all[i].fainter = std::move(fainter[i]);
    }
    while (all[call].runs.size() < runs) {
      std::vector<Run> more = disturbed(noise, 1, held, seed_ + all[call].runs.size());
      for (std::size_t i = 0; i < calls(); ++i) all[i].runs.push_back(std::move(more[i]));
    }
  } catch (const Error&) {  // a run that fails with noise measures nothing: no effect
    for (std::size_t i = 0; i < calls(); ++i) {
      all[i].fainter = wide_[i];
      all[i].runs.assign(runs, wide_[i]);
    }
  }
  return all[call];
}

const FarRuns& Witness::far(Noise noise, std::size_t call) const {
  const auto known = far_.find(noise);
  if (known != far_.end()) return known->second[call];
  std::vector<FarRuns> far(calls());
  std::set<std::string> flipped;
  for (std::uint64_t i = 0; i < kFarRuns; ++i) {
    if (i == kEnoughWithoutFlip && flipped.empty()) break;
    try {
      std::vector<Run> runs =
          disturbed(noise, kFar, RoundingNoise::Decisions::free, seed_ + i, &flipped);
      for (std::size_t k = 0; k < calls(); ++k) far[k].runs.push_back(std::move(runs[k]));
    } catch (const Error&) {  // flipped decisions may yield sizes that do not fit
    }
  }
  for (FarRuns& one : far) one.flipped = flipped;
  return (far_[noise] = std::move(far))[call];
}

}  // namespace refx

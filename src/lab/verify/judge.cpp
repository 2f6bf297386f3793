// SPDX-License-Identifier: Apache-2.0

#include "lab/verify/judge.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/aminmax.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/isnan.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros_like.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <limits>

#include "lab/verify/in_double.h"
#include "refx/error.h"

namespace refx {

// Correct rewrites of the 65 test models, with all transformations applied, have errors of at most
// 1.4e-16, 2.5e-6, 1.7e-3 and 8.5e-3 in these dtypes. The limits are several times as large. Beyond
// them "rounding explains it" would be no evidence: a measured effect of rounding that is larger
// than this could hide almost any mistake.
double largest_allowed(c10::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
    case at::kComplexDouble:
      return 1e-9;
    case at::kFloat:
    case at::kComplexFloat:
      return 1e-4;
    case at::kHalf:
    case at::kComplexHalf:
      return 1e-2;
    default:
      return 5e-2;
  }
}

namespace {

using c10::IValue;

// A row has at least this many elements, if the output has: the maximum over one or two elements
// varies too much between seeds to be an estimate of what rounding does. Shorter last dimensions
// are combined.
constexpr std::int64_t kRow = 4;
// The L2 error averages over the elements, so it varies less than the maximum and gets a tighter
// limit. With fewer than kMany elements it averages little, with fewer than kSome hardly anything.
constexpr std::int64_t kSome = 8, kMany = 64;
// The effects of two seeds may differ by this factor. Rounding effects differ by less. A larger
// ratio means that one run did something else, for example took another branch, and then the
// largest effect says nothing about rounding.
constexpr double kAgree = 16;
// Noise runs. Two are enough for nearly all outputs. Six are made only when two do not explain the
// error, since each is a run of the whole model in fp64.
constexpr std::size_t kFewRuns = 2, kManyRuns = 6;
// Always allowed between two models in fp64, relative to the row. One rounding is 1e-16; the margin
// is for long sums in another order and for ill-conditioned operators.
constexpr double kOwnNoise = 1e-10;
// The L2 norm squares its elements. Squares of numbers between kSmall and kLarge, and sums of many
// of them, stay within fp64's range. Outputs with other maxima are multiplied by a power of two,
// which is exact, before they are compared.
constexpr double kLarge = 0x1p+400, kSmall = 0x1p-400, kRescale = 0x1p+624;

// ---- values ------------------------------------------------------------------------------------

const IValue* find(const Run& run, const std::string& path) {
  for (const Leaf& leaf : run.values)
    if (leaf.path == path) return &leaf.value;
  return nullptr;
}

// The number or tensor there, in fp64.
at::Tensor wide_at(const Run& run, const std::string& path) {
  const IValue* value = find(run, path);
  REFX_CHECK(value, "a run in fp64 gives other values");
  if (value->isDouble()) return at::scalar_tensor(value->toDouble(), at::kDouble);
  const at::Tensor& tensor = value->toTensor();
  return tensor.to(tensor.is_complex() ? at::kComplexDouble : at::kDouble);
}

bool is_rounded(const IValue& value) {
  return value.isDouble() || (value.isTensor() && is_approximate(value.toTensor().scalar_type()));
}

c10::ScalarType dtype_of(const IValue& value) {
  return value.isTensor() ? value.toTensor().scalar_type() : at::kDouble;
}

bool equal(const IValue& a, const IValue& b) {
  if (!a.isTensor() || !b.isTensor()) return a == b;
  const at::Tensor &x = a.toTensor(), &y = b.toTensor();
  if (x.sizes() != y.sizes() || x.scalar_type() != y.scalar_type()) return false;
  if (at::equal(x, y)) return true;
  return is_approximate(x.scalar_type()) &&
         (x == y).logical_or(at::isnan(x).logical_and(at::isnan(y))).all().item<bool>();
}

// In one pass: aminmax returns NaN if any element is NaN.
bool is_finite(const at::Tensor& tensor) {
  if (tensor.is_complex()) return at::isfinite(tensor).all().item<bool>();
  const auto [least, most] = at::aminmax(tensor);
  return std::isfinite(least.item<double>()) && std::isfinite(most.item<double>());
}

bool same_positions(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(at::isfinite(a), at::isfinite(b));
}
// For non-finite elements: distinguishes NaN, inf and -inf.
bool same_nonfinite_values(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(at::isnan(a), at::isnan(b)) &&
         (a.is_complex() || at::equal(a == INFINITY, b == INFINITY));
}

// The smallest subnormal number. Near zero a rounding error does not shrink with the number: its
// size is this step.
double smallest_step(c10::ScalarType dtype) {
  if (dtype == at::kHalf || dtype == at::kComplexHalf) return 0x1p-24;
  if (dtype == at::kBFloat16) return 0x1p-133;
  if (dtype == at::kDouble || dtype == at::kComplexDouble) return 0x1p-1074;
  return 0x1p-149;
}

// ---- sizes of errors ---------------------------------------------------------------------------

// Reduces a tensor to the largest magnitude of each row, followed by the L2 norm of the whole
// tensor. Rows are compared separately so that large numbers do not hide errors in small ones.
class Sizes {
 public:
  explicit Sizes(const at::Tensor& like) : width_(1) {
    for (std::int64_t dim = like.dim() - 1; dim >= 0 && width_ < kRow; --dim)
      width_ *= like.size(dim);
  }
  at::Tensor operator()(const at::Tensor& magnitudes) const {
    return at::cat({rows(magnitudes).amax(1), magnitudes.norm().reshape({1})});
  }
  at::Tensor rows(const at::Tensor& values) const { return values.reshape({-1, width_}); }
  // The same number for each row, and another one for the L2 norm.
  at::Tensor fill(std::int64_t rows, double row, double length) const {
    at::Tensor all = at::full({rows + 1}, row, at::kDouble);
    all[rows].fill_(length);
    return all;
  }

 private:
  std::int64_t width_;
};

at::Tensor rows_part(const at::Tensor& sizes) { return sizes.slice(0, 0, sizes.size(0) - 1); }
double largest(const at::Tensor& sizes) { return rows_part(sizes).max().item<double>(); }
double length(const at::Tensor& sizes) { return sizes[-1].item<double>(); }

// Raises each row to the median over the rows, relative to their scales. The measured error of a
// row may be small by chance, and a rewrite changes which rows are lucky.
at::Tensor at_least_typical(const at::Tensor& sizes, const at::Tensor& scales) {
  const at::Tensor parts = (rows_part(sizes) / rows_part(scales)).nan_to_num(0, 0, 0);
  at::Tensor typical = scales * parts.median();
  typical[-1].zero_();
  return at::maximum(sizes, typical);
}

at::Tensor fractions_of(const at::Tensor& sizes, const at::Tensor& allowed) {
  return at::where(sizes <= 0, at::zeros_like(sizes), sizes / allowed);
}

// ---- one output --------------------------------------------------------------------------------

class Judge {
 public:
  Judge(const Evidence& evidence, const std::string& path, OutputCheck& check)
      : evidence_(evidence), path_(path), check_(check) {}

  // A floating-point output. `current` and `wide` are runs of the rewritten model, in its own dtype
  // and in fp64.
  void approximate(const IValue& original, const Run& current, const Run* wide,
                   const Allowance& allowance) {
    check_.lossy = allowance.lossy;
    at::Tensor now = wide_at(current, path_), before = wide_at(evidence_.original, path_);
    const bool by_reference = evidence_.wide && !evidence_.original.random;
    at::Tensor reference = by_reference ? wide_at(*evidence_.wide, path_) : before;
    if (now.numel() == 0) return;
    all_finite_ = is_finite(now) && is_finite(before) && is_finite(reference);
    if (!all_finite_)
      usable_ =
          at::isfinite(now).logical_and(at::isfinite(before)).logical_and(at::isfinite(reference));
    count_ = now.numel();
    sizes_.emplace(now);
    const bool at_same_positions = all_finite_ || same_positions(now, before);
    const bool overflows = !at_same_positions && by_reference && !same_positions(reference, before);
    const bool of_same_values = all_finite_ || same_nonfinite_values(now, before);
    unit_ = unit_for(reference);
    for (at::Tensor* values : {&now, &before, &reference}) *values = in_units(*values);
    const at::Tensor scales = size_of(reference), own = distance(before, reference);
    const at::Tensor error = distance(now, reference);
    check_.scale = absolute(largest(scales));
    check_.original_error = absolute(largest(own));
    check_.original_l2 = relative(length(own), length(scales));
    check_.l2 = relative(length(error), length(scales));
    check_.native_error.error = absolute(largest(error));

    const bool same_bits = equal(original, *find(current, path_));
    if (!at_same_positions) {
      if (overflows && wide) compare_in_fp64(original, *wide);
      say(overflows ? VerifyVerdict::cannot_tell : VerifyVerdict::fail,
          overflows ? "the original overflows its dtype, and NaN or inf is at other positions"
                    : "NaN or inf is at other positions");
      return;
    }
    if (!of_same_values)
      say(VerifyVerdict::cannot_tell,
          "NaN, inf and -inf are at the same positions as in the original, but not in the same "
          "order");
    if (allowance.lossy) {
      say_loss(allowance);
    } else if (allowance.tolerance > 0) {
      const double allowed = allowance.tolerance * largest(scales);
      check_.native_error.allowed = absolute(allowed);
      if (!(largest(error) <= allowed)) say_error(check_.native_error);
    } else if (!evidence_.wide) {
      if (!same_bits)
        say(VerifyVerdict::cannot_tell,
            fmt::format("differs, and the original does not run in fp64: {}",
                        evidence_.why_not_wide));
    } else {
      if (wide) compare_in_fp64(original, *wide);
      if (!same_bits) compare_in_own_dtype(original, now, reference, own, scales);
    }
  }

  // An output of integers or booleans. The models must agree in their own dtype and in fp64: an
  // error that is smaller than a rounding on these inputs may show only in fp64.
  void exact(const IValue& original, const Run& current, const Run* wide,
             const Allowance& allowance) {
    check_.exact = true;
    check_.lossy = allowance.lossy;
    const IValue& now = *find(current, path_);
    if (allowance.lossy) {
      if (!equal(original, now)) check_.fraction_exceeding = fraction_differing(original, now);
      return say_loss(allowance);
    }
    if (!equal(original, now)) differs(original, now, evidence_.rounding);
    if (!evidence_.wide || !wide) return;
    const IValue &meant = *find(*evidence_.wide, path_), &means = *find(*wide, path_);
    if (!equal(meant, means)) differs(meant, means, evidence_.weights);
  }

 private:
  // The effect of the noise, and the part of it that behaves like rounding.
  struct NoiseEffect {
    at::Tensor all, as_rounding;
  };

  void say(VerifyVerdict answer, std::string problem) {
    if (answer <= check_.answer) return;
    check_.answer = answer;
    check_.problem = std::move(problem);
  }
  void say_error(const Distance& d) {
    say(VerifyVerdict::fail,
        fmt::format("the error is {:.2g}, the tolerance is {:.2g}", d.error, d.allowed));
  }

  void say_loss(const Allowance& allowance) {
    if (!std::isfinite(loss(check_)))
      say(VerifyVerdict::fail, "the error is too large to be measured");
    else if (allowance.budget == 0)
      say(VerifyVerdict::not_judged, kNoBudget);
    else if (!(loss(check_) <= allowance.budget))
      say(VerifyVerdict::fail,
          fmt::format("the error is {:.2g}, the budget is {:.2g}", loss(check_), allowance.budget));
  }
  static double fraction_differing(const IValue& original, const IValue& now) {
    if (!original.isTensor() || original.toTensor().numel() == 0) return 1;
    return (original.toTensor() != now.toTensor()).to(at::kDouble).mean().item<double>();
  }

  // Both in units. If the reference is all zeros there is no scale, and the error is absolute.
  double relative(double error, double scale) const {
    return scale > 0 ? error / scale : absolute(error);
  }

  // The factor by which all values of this output are multiplied, see kLarge.
  double unit_for(const at::Tensor& reference) const {
    const double largest = masked(reference).max().item<double>();
    return largest > kLarge ? 1 / kRescale : largest > 0 && largest < kSmall ? kRescale : 1;
  }
  at::Tensor in_units(const at::Tensor& values) const {
    return unit_ == 1 ? values : values * unit_;
  }
  at::Tensor value_in(const Run& run) const { return in_units(wide_at(run, path_)); }
  // Removes the unit. The division may overflow; a finite error is reported as finite.
  double absolute(double size) const {
    if (!std::isfinite(size)) return size;
    return std::min(size / unit_, std::numeric_limits<double>::max());
  }
  double step_in_units(c10::ScalarType dtype) const { return unit_ * smallest_step(dtype); }

  at::Tensor masked(const at::Tensor& values) const {
    const at::Tensor magnitudes = values.abs();
    return all_finite_ ? magnitudes : magnitudes.masked_fill_(usable_.logical_not(), 0);
  }
  at::Tensor size_of(const at::Tensor& value) const { return (*sizes_)(masked(value)); }
  // A difference that cannot be computed (inf - inf, or an overflow) counts as an infinite error.
  at::Tensor distance(const at::Tensor& a, const at::Tensor& b) const {
    return (*sizes_)(masked(a - b).nan_to_num_(INFINITY, INFINITY, INFINITY));
  }
  at::Tensor growth(const at::Tensor& sizes) const {
    const double of_length = count_ >= kMany   ? kL2GrowthLimit
                             : count_ >= kSome ? kErrorGrowthLimit / 2
                                               : kErrorGrowthLimit;
    return sizes_->fill(sizes.size(0) - 1, kErrorGrowthLimit, of_length);
  }
  // The largest tolerance that is possible, see largest_allowed(). All rows share the scale of the
  // output: a row of tiny numbers next to a row of large ones is the result of cancellation, and
  // its rounding error is relative to the large ones.
  at::Tensor cap(const at::Tensor& scales, c10::ScalarType dtype) const {
    const double part = largest_allowed(dtype);
    return sizes_->fill(scales.size(0) - 1, part * largest(scales), part * length(scales)) +
           kFreeRoundings * step_in_units(dtype);
  }

  // The tolerance between two models in fp64. The second term is for rows of nearly zeros, whose
  // error comes from cancellation of numbers as large as those in other rows.
  at::Tensor own_noise(const at::Tensor& scales) const {
    return scales * kOwnNoise + largest(scales) * kOwnNoise / 100 +
           kFreeRoundings * step_in_units(at::kDouble);
  }

  void compare_in_fp64(const IValue& original, const Run& current) {
    const at::Tensor meant = wide_at(*evidence_.wide, path_), means = wide_at(current, path_);
    if (meant.sizes() != means.sizes())
      return say(VerifyVerdict::fail, "has a different shape in fp64");
    if (!nonfinite_at_same_positions(meant, means))
      return say(VerifyVerdict::fail, "NaN or inf is at other positions in fp64");
    const at::Tensor scales = size_of(in_units(meant));
    check_.fp64_error =
        assess("in fp64 ", in_units(means), in_units(meant), scales, own_noise(scales),
               cap(scales, dtype_of(original)), evidence_.weights);
  }

  // Whether NaN and inf are at the same positions in both fp64 runs. Positions where the original
  // itself is not finite in its own dtype are ignored: it overflows there, and fp64 may not.
  bool nonfinite_at_same_positions(const at::Tensor& meant, const at::Tensor& means) const {
    if (all_finite_ && is_finite(means) && is_finite(meant)) return true;
    const at::Tensor finite = at::isfinite(wide_at(evidence_.original, path_));
    return same_positions(meant.masked_select(finite), means.masked_select(finite));
  }

  void compare_in_own_dtype(const IValue& original, const at::Tensor& now,
                            const at::Tensor& reference, const at::Tensor& own,
                            const at::Tensor& scales) {
    const c10::ScalarType dtype = dtype_of(original);
    const c10::ScalarType coarsest = evidence_.coarsest;
    // An fp32 output may come from bf16 operators, as under autocast. Its error is then that of
    // bf16.
    const bool coarser =
        coarsest != c10::ScalarType::Undefined && rounding(coarsest) > rounding(dtype);
    const at::Tensor most = cap(scales, coarser ? coarsest : dtype);
    const at::Tensor one = rounding(dtype) * scales;
    // The first term is relative to the row, the second one is for results among the subnormals. In
    // the L2 norm independent errors add up as squares, so that a quarter is enough there.
    at::Tensor floor = kFreeRoundings * one + kFreeRoundings * step_in_units(dtype);
    floor[-1].copy_(kFreeRoundings / 4 * one[-1]);
    floor = at::maximum(floor, growth(scales) * at_least_typical(own, scales));
    if (rounding(dtype) == rounding(at::kDouble)) floor = at::maximum(floor, own_noise(scales));
    // The noise for this question perturbs everything that rounds, not only the changed weights.
    check_.native_error = assess("", now, reference, scales, floor, most, evidence_.rounding);
    if ((own > most).any().item<bool>())
      say(VerifyVerdict::cannot_tell,
          fmt::format("the original itself has a relative error of {:.2g} in its own dtype",
                      check_.relative(check_.original_error)));
  }

  // Compares an error with its tolerance, and gives a verdict if it exceeds that. Returns the row
  // that uses the largest fraction of its tolerance.
  Distance assess(const char* where, const at::Tensor& value, const at::Tensor& reference,
                  const at::Tensor& scales, const at::Tensor& floor, const at::Tensor& most,
                  const Evidence::NoiseRuns& noise) {
    const Finding f = finding(where, distance(value, reference), scales, floor, most, noise);
    const Distance distance_in_worst{absolute(f.in_worst(f.error)),
                                     absolute(f.in_worst(f.allowed))};
    if (!f.any_bad()) return distance_in_worst;
    const at::Tensor elements = sizes_->rows(masked(value - reference));
    const at::Tensor beyond = elements > rows_part(f.allowed).unsqueeze(1);
    check_.fraction_exceeding =
        std::max(check_.fraction_exceeding, beyond.to(at::kDouble).mean().item<double>());
    explain(f, growth(scales), noise);
    return distance_in_worst;
  }

  // An error and its tolerance. The tensors have one number for each row and one for the L2 norm.
  struct Finding {
    const char* where;
    at::Tensor error;
    at::Tensor rounding;  // the error that rounding explains
    at::Tensor most;      // the largest possible tolerance, see cap()
    at::Tensor allowed;
    NoiseEffect effect;
    std::int64_t worst;  // the row that uses the largest fraction of its tolerance

    at::Tensor bad() const { return error > allowed; }
    bool any_bad() const { return bad().any().item<bool>(); }
    double in_worst(const at::Tensor& sizes) const { return sizes[worst].item<double>(); }
  };

  Finding finding(const char* where, const at::Tensor& error, const at::Tensor& scales,
                  const at::Tensor& floor, const at::Tensor& most,
                  const Evidence::NoiseRuns& noise) const {
    Finding f{where, error, floor, most, at::minimum(floor, most), {}, 0};
    f.effect = {at::zeros_like(floor), at::zeros_like(floor)};
    for (std::size_t runs : {kFewRuns, kManyRuns}) {  // six only if two do not explain the error
      if (!f.any_bad() || (!evidence_.explained && (error > most).any().item<bool>())) break;
      f.effect = effect_of(noise.response(runs), scales);
      f.rounding =
          at::maximum(floor, growth(scales) * at_least_typical(f.effect.as_rounding, scales));
      f.allowed = at::minimum(f.rounding, most);
    }
    f.worst = rows_part(fractions_of(f.error, f.allowed)).argmax().item<std::int64_t>();
    return f;
  }

  // Finds the reason for an error that exceeds the tolerance. Each explanation covers some rows, in
  // the order from the most to the least certain. If together they cover all rows, the verdict is
  // `cannot_tell` with the last explanation that was needed. If a row is left, it is `fail`.
  void explain(const Finding& f, const at::Tensor& growth, const Evidence::NoiseRuns& noise) {
    struct Explanation {
      std::function<at::Tensor()> rows;
      std::function<std::string()> reason;
    };
    const Explanation explanations[] = {
        {[&] { return f.error <= f.rounding; }, [&] { return exceeds_limit(f); }},
        {[&] { return f.error <= growth * f.effect.all; }, [&] { return not_proportional(f); }},
        {[&] { return explained_by_flips(noise.far(), f); }, [&] { return may_flip(noise.far()); }},
    };
    at::Tensor unexplained = f.bad();
    for (const Explanation& explanation : explanations) {
      unexplained = unexplained.logical_and(explanation.rows().logical_not());
      if (!unexplained.any().item<bool>())
        return say(VerifyVerdict::cannot_tell, f.where + explanation.reason());
    }
    // The models agree in fp64, so they compute the same function, but the kernels of torch differ
    // in precision by more than the noise models. That is no proof of a mistake in the rewrite.
    const bool runs_only = &noise == &evidence_.rounding;
    if (runs_only && check_.passed() && !(f.error > f.most).any().item<bool>())
      say(VerifyVerdict::cannot_tell, "the models agree in fp64, but " + describe(f));
    else
      say(VerifyVerdict::fail, describe(f));
  }

  std::string exceeds_limit(const Finding& f) const {
    return fmt::format(
        "the error is {:.2g}; rounding alone may cause an error of {:.2g}, which exceeds the limit "
        "of {:.2g} of the scale",
        absolute(f.in_worst(f.error)), absolute(f.in_worst(f.rounding)),
        check_.relative(absolute(f.in_worst(f.most))));
  }

  std::string not_proportional(const Finding& f) const {
    return fmt::format(
        "the error is {:.2g}; inconclusive: the effect of rounding noise here is not proportional "
        "to "
        "the noise",
        absolute(f.in_worst(f.error)));
  }

  std::string describe(const Finding& f) const {
    const at::Tensor bad = f.bad();
    if (!rows_part(bad).any().item<bool>())
      return fmt::format("{}the L2 error is {:.2g}, the tolerance is {:.2g}", f.where,
                         absolute(length(f.error)), absolute(length(f.allowed)));
    const std::string row =
        bad.size(0) > 2 ? fmt::format("row {} of {}: ", f.worst, bad.size(0) - 1) : "";
    return fmt::format("{}{}the error is {:.2g}, the tolerance is {:.2g}", f.where, row,
                       absolute(f.in_worst(f.error)), absolute(f.in_worst(f.allowed)));
  }

  // The effect is the largest one over the runs. It counts as rounding only
  // - if no run has more than kAgree times the effect of another one, for outputs with enough
  //   elements that their maxima should agree, and
  // - in rows where kFainter times the noise has about kFainter times the effect. Rounding errors
  // are
  //   small enough that the model is linear in them. An effect that does not shrink with the noise
  //   comes from a chaotic model or from a flipped decision.
  NoiseEffect effect_of(const Response& response, const at::Tensor& scales) const {
    const at::Tensor exact = value_in(*evidence_.wide);
    const auto moved = [&](const Run& run) {
      const at::Tensor value = value_in(run);
      return value.sizes() == exact.sizes() ? distance(value, exact) : at::zeros_like(scales);
    };
    at::Tensor most = at::zeros_like(scales);
    double least = INFINITY;  // of the largest effects
    for (const Run& run : response.runs) {
      const at::Tensor effect = moved(run);
      most = at::maximum(most, effect);
      least = std::min(least, largest(effect));
    }
    const at::Tensor none = at::zeros_like(most);
    if (count_ >= kRow * kRow && largest(most) > kAgree * least) return {most, none};
    const at::Tensor fainter = moved(response.fainter),
                     expected = kFainter * moved(response.runs[0]);
    // Below 2^-48 of the scale, 32 roundings of fp64, the effect drowns in fp64's own rounding and
    // need not be proportional. The factor 4 allows for the variation between two random runs.
    const at::Tensor tiny = scales * 0x1p-48 + largest(scales) * 0x1p-48;
    const at::Tensor like =
        (fainter <= 4 * expected + tiny).logical_and(fainter >= expected / 4 - tiny);
    return {most, at::where(like.logical_and(at::isfinite(most)), most, none)};
  }

  // The rows whose error may come from a flipped decision: kFar times the noise has clearly more
  // than kFar times the effect, and that effect is as large as the error. No rows if no decision
  // flipped.
  at::Tensor explained_by_flips(const FarRuns& far, const Finding& f) const {
    at::Tensor most = at::zeros_like(f.error);
    if (far.flipped.empty()) return at::zeros_like(most, at::kBool);
    const at::Tensor exact = value_in(*evidence_.wide);
    for (const Run& run : far.runs) {
      const at::Tensor value = value_in(run);
      if (value.sizes() != exact.sizes()) return at::ones_like(most, at::kBool);
      most = at::maximum(most, distance(value, exact));
    }
    return (most > 4 * kFar * f.effect.all).logical_and(f.error <= kErrorGrowthLimit * most);
  }

  static std::string may_flip(const FarRuns& far) {
    return fmt::format("rounding may flip the decision at {}", fmt::join(far.flipped, ", "));
  }

  // Discrete values differ. That is a failure, unless rounding may flip these values.
  void differs(const IValue& before, const IValue& now, const Evidence::NoiseRuns& noise) {
    std::string problem = "differs";
    at::Tensor differing = at::scalar_tensor(true, at::kBool);
    if (before.isTensor()) {
      if (before.toTensor().sizes() != now.toTensor().sizes())
        return say(VerifyVerdict::fail, "has a different shape");
      differing = before.toTensor() != now.toTensor();
      problem = fmt::format("{} of {} elements differ", differing.sum().item<std::int64_t>(),
                            differing.numel());
      check_.fraction_exceeding = differing.to(at::kDouble).mean().item<double>();
    }
    if (evidence_.wide && !evidence_.original.random) {
      const FarRuns& far = noise.far();
      if (!far.flipped.empty() && flips_explain(far, differing))
        return say(VerifyVerdict::cannot_tell, problem + ": " + may_flip(far));
    }
    say(VerifyVerdict::fail, problem);
  }

  // Whether each of the differing elements also changed in some run with noise.
  bool flips_explain(const FarRuns& far, at::Tensor differing) const {
    const IValue& exact = *find(*evidence_.wide, path_);
    for (const Run& run : far.runs) {
      const IValue& value = *find(run, path_);
      if (!value.isTensor()) {
        if (value != exact) return true;
        continue;
      }
      if (value.toTensor().sizes() != exact.toTensor().sizes()) return true;
      differing = differing.logical_and(value.toTensor() == exact.toTensor());
    }
    return !differing.any().item<bool>();
  }

  const Evidence& evidence_;
  const std::string& path_;
  OutputCheck& check_;
  bool all_finite_ = false;  // both forms and the reference
  at::Tensor usable_;        // otherwise: where they are
  std::int64_t count_ = 0;   // of elements
  double unit_ = 1;          // a power of two: see kLarge
  std::optional<Sizes> sizes_;
};

std::string mismatch(const IValue& original, const IValue& current) {
  if (original.isTensor() != current.isTensor())
    return fmt::format("is {} instead of {}", type_of_value(current), type_of_value(original));
  if (!original.isTensor()) return "";
  const at::Tensor &a = original.toTensor(), &b = current.toTensor();
  if (a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type()) return "";
  return fmt::format("is {} instead of {}", type_of_value(current), type_of_value(original));
}

OutputCheck check_of(const Leaf& leaf, std::string problem) {
  OutputCheck check;
  check.path = leaf.path;
  check.type = type_of_value(leaf.value);
  check.problem = std::move(problem);
  check.answer = check.problem.empty() ? VerifyVerdict::pass : VerifyVerdict::fail;
  return check;
}

}  // namespace

std::vector<OutputCheck> judge(const Evidence& evidence, const Run& current, const Run* wide,
                               const Allowance& allowance) {
  std::vector<OutputCheck> checks;
  for (const Leaf& leaf : evidence.original.values) {
    const IValue* now = find(current, leaf.path);
    const bool changed_now = now && !current.unchanged.count(leaf.path);
    if (evidence.original.unchanged.count(leaf.path) && !changed_now) continue;
    OutputCheck& check =
        checks.emplace_back(check_of(leaf, now ? mismatch(leaf.value, *now) : "is missing"));
    if (!check.passed()) continue;
    const Run* wide_run = wide && find(*wide, leaf.path) ? wide : nullptr;
    Judge judge(evidence, leaf.path, check);
    if (is_rounded(leaf.value))
      judge.approximate(leaf.value, current, wide_run, allowance);
    else
      judge.exact(leaf.value, current, wide_run, allowance);
  }
  for (const Leaf& leaf : current.values)
    if (!find(evidence.original, leaf.path) && !current.unchanged.count(leaf.path))
      checks.push_back(check_of(leaf, "is new"));
  return checks;
}

double loss(const OutputCheck& check) { return check.exact ? check.fraction_exceeding : check.l2; }

double fraction_of_tolerance(const OutputCheck& check) {
  if (check.answer == VerifyVerdict::fail) return std::numeric_limits<double>::infinity();
  if (!check.passed()) return std::numeric_limits<double>::max();
  const auto part = [](const Distance& d) { return d.allowed > 0 ? d.error / d.allowed : 0; };
  return std::max(part(check.fp64_error), part(check.native_error));
}

}  // namespace refx

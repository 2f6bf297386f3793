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

// Several times what correct rewrites of the test models come to; see docs/lab.md.
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

constexpr std::int64_t kRow = 4;  // a row has at least as many elements, if there are as many
constexpr std::int64_t kSome = 8, kMany = 64;  // elements: a length says more than its largest part
constexpr double kAgree = 16;  // times: how much the effects of two seeds may differ
constexpr std::size_t kFewRuns = 2, kManyRuns = 6;
constexpr double kOwnNoise = 1e-10;  // of two forms in fp64, relative
// Squares of numbers between these, and sums of many of them, stay within fp64's range. Outputs
// beyond them are multiplied by a power of two before they are compared.
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

// In one pass over the numbers.
bool is_finite(const at::Tensor& tensor) {
  if (tensor.is_complex()) return at::isfinite(tensor).all().item<bool>();
  const auto [least, most] = at::aminmax(tensor);
  return std::isfinite(least.item<double>()) && std::isfinite(most.item<double>());
}

bool same_places(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(at::isfinite(a), at::isfinite(b));
}
// Of numbers that are not finite: nan, inf and -inf are told apart.
bool same_kinds(const at::Tensor& a, const at::Tensor& b) {
  return at::equal(at::isnan(a), at::isnan(b)) &&
         (a.is_complex() || at::equal(a == INFINITY, b == INFINITY));
}

double smallest_step(c10::ScalarType dtype) {  // between two numbers
  if (dtype == at::kHalf || dtype == at::kComplexHalf) return 0x1p-24;
  if (dtype == at::kBFloat16) return 0x1p-133;
  if (dtype == at::kDouble || dtype == at::kComplexDouble) return 0x1p-1074;
  return 0x1p-149;
}

// ---- sizes of errors ---------------------------------------------------------------------------

// One number a row, the largest magnitude in it, and at the end the length of the whole.
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
  // A number for each row, and another one for the length.
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

// What a typical row has of it, as a part of its scale, given to every row by its own scale: a row
// that was lucky is not held to its luck.
at::Tensor at_least_typical(const at::Tensor& sizes, const at::Tensor& scales) {
  const at::Tensor parts = (rows_part(sizes) / rows_part(scales)).nan_to_num(0, 0, 0);
  at::Tensor typical = scales * parts.median();
  typical[-1].zero_();
  return at::maximum(sizes, typical);
}

at::Tensor load_of(const at::Tensor& sizes, const at::Tensor& allowed) {
  return at::where(sizes <= 0, at::zeros_like(sizes), sizes / allowed);
}

// ---- one output --------------------------------------------------------------------------------

class Judge {
 public:
  Judge(const Evidence& evidence, const std::string& path, OutputCheck& check)
      : evidence_(evidence), path_(path), check_(check) {}

  void approximate(const IValue& original, const Run& current, const Run* wide,
                   const Allowance& allowance) {
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
    const bool in_same_places = all_finite_ || same_places(now, before);
    const bool overflows = !in_same_places && by_reference && !same_places(reference, before);
    const bool of_same_kinds = all_finite_ || same_kinds(now, before);
    unit_ = unit_for(reference);
    for (at::Tensor* values : {&now, &before, &reference}) *values = in_units(*values);
    const at::Tensor scales = size_of(reference), own = distance(before, reference);
    const at::Tensor error = distance(now, reference);
    check_.scale = absolute(largest(scales));
    check_.original_error = absolute(largest(own));
    check_.original_l2 = relative(length(own), length(scales));
    check_.l2 = relative(length(error), length(scales));
    check_.now.error = absolute(largest(error));

    const bool same_bits = equal(original, *find(current, path_));
    if (!in_same_places) {
      if (overflows && wide) mean_the_same(original, *wide);
      say(overflows ? Answer::cannot_tell : Answer::fail,
          overflows ? "the original overflows its dtype, and nan or inf stands in other places"
                    : "nan or inf stands in other places");
      return;
    }
    if (!of_same_kinds)
      say(Answer::cannot_tell,
          "nan, inf or -inf stands where the original has another one of them");
    if (allowance.lossy) {
      say_loss(allowance);
    } else if (allowance.tolerance > 0) {
      const double allowed = allowance.tolerance * largest(scales);
      check_.now.allowed = absolute(allowed);
      if (!(largest(error) <= allowed)) say_error(check_.now);
    } else if (!evidence_.wide) {
      if (!same_bits)
        say(Answer::cannot_tell, fmt::format("differs, and the original does not run in fp64: {}",
                                             evidence_.why_not_wide));
    } else {
      if (wide) mean_the_same(original, *wide);
      if (!same_bits) run_as_well(original, now, reference, own, scales);
    }
  }

  // Integers and the like. Both forms must agree in their own dtype and in fp64.
  void exact(const IValue& original, const Run& current, const Run* wide,
             const Allowance& allowance) {
    check_.exact = true;
    const IValue& now = *find(current, path_);
    if (allowance.lossy) {
      if (!equal(original, now)) check_.beyond = share_of_others(original, now);
      return say_loss(allowance);
    }
    if (!equal(original, now)) differs(original, now, evidence_.rounding);
    if (!evidence_.wide || !wide) return;
    const IValue &meant = *find(*evidence_.wide, path_), &means = *find(*wide, path_);
    if (!equal(meant, means)) differs(meant, means, evidence_.weights);
  }

 private:
  // What the noise did; and that alone which is like rounding.
  struct Effect {
    at::Tensor all, as_rounding;
  };

  void say(Answer answer, std::string problem) {
    if (answer <= check_.answer) return;
    check_.answer = answer;
    check_.problem = std::move(problem);
  }
  void say_error(const Distance& d) {
    say(Answer::fail, fmt::format("the error is {:.2g}, allowed is {:.2g}", d.error, d.allowed));
  }

  void say_loss(const Allowance& allowance) {
    if (!std::isfinite(loss(check_)))
      say(Answer::fail, "the error is too large to be measured");
    else if (allowance.budget == 0)
      say(Answer::not_judged, kNoBudget);
    else if (!(loss(check_) <= allowance.budget))
      say(Answer::fail,
          fmt::format("the error is {:.2g}, the budget {:.2g}", loss(check_), allowance.budget));
  }
  static double share_of_others(const IValue& original, const IValue& now) {
    if (!original.isTensor() || original.toTensor().numel() == 0) return 1;
    return (original.toTensor() != now.toTensor()).to(at::kDouble).mean().item<double>();
  }

  // Of sizes in units. Where the reference is all zeros, the error itself.
  double relative(double error, double scale) const {
    return scale > 0 ? error / scale : absolute(error);
  }

  // What the values of this output are multiplied by, see kLarge.
  double unit_for(const at::Tensor& reference) const {
    const double largest = masked(reference).max().item<double>();
    return largest > kLarge ? 1 / kRescale : largest > 0 && largest < kSmall ? kRescale : 1;
  }
  at::Tensor in_units(const at::Tensor& values) const {
    return unit_ == 1 ? values : values * unit_;
  }
  at::Tensor value_in(const Run& run) const { return in_units(wide_at(run, path_)); }
  // A size in units as people read it. One that is finite stays so.
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
  // What cannot be measured is infinitely far.
  at::Tensor distance(const at::Tensor& a, const at::Tensor& b) const {
    return (*sizes_)(masked(a - b).nan_to_num_(INFINITY, INFINITY, INFINITY));
  }
  at::Tensor growth(const at::Tensor& sizes) const {
    const double of_length = count_ >= kMany   ? kGrowthOfL2
                             : count_ >= kSome ? kGrowth / 2
                                               : kGrowth;
    return sizes_->fill(sizes.size(0) - 1, kGrowth, of_length);
  }
  // As much of the scale as may ever be allowed.
  at::Tensor cap(const at::Tensor& scales, c10::ScalarType dtype) const {
    const double part = largest_allowed(dtype);
    return sizes_->fill(scales.size(0) - 1, part * largest(scales), part * length(scales)) +
           kRoundings * step_in_units(dtype);
  }

  // Of two forms in fp64.
  at::Tensor own_noise(const at::Tensor& scales) const {
    return scales * kOwnNoise + largest(scales) * kOwnNoise / 100 +
           kRoundings * step_in_units(at::kDouble);
  }

  void mean_the_same(const IValue& original, const Run& current) {
    const at::Tensor meant = wide_at(*evidence_.wide, path_), means = wide_at(current, path_);
    if (meant.sizes() != means.sizes()) return say(Answer::fail, "has another shape in fp64");
    if (!stand_in_the_same_places(meant, means))
      return say(Answer::fail, "nan or inf stands in other places in fp64");
    const at::Tensor scales = size_of(in_units(meant));
    check_.meaning = assess("in fp64 ", in_units(means), in_units(meant), scales, own_noise(scales),
                            cap(scales, dtype_of(original)), evidence_.weights);
  }

  // Two forms in fp64, where the original has finite numbers.
  bool stand_in_the_same_places(const at::Tensor& meant, const at::Tensor& means) const {
    if (all_finite_ && is_finite(means) && is_finite(meant)) return true;
    const at::Tensor finite = at::isfinite(wide_at(evidence_.original, path_));
    return same_places(meant.masked_select(finite), means.masked_select(finite));
  }

  void run_as_well(const IValue& original, const at::Tensor& now, const at::Tensor& reference,
                   const at::Tensor& own, const at::Tensor& scales) {
    const c10::ScalarType dtype = dtype_of(original);
    const c10::ScalarType coarsest = evidence_.coarsest;
    const bool coarser =
        coarsest != c10::ScalarType::Undefined && rounding(coarsest) > rounding(dtype);
    const at::Tensor most = cap(scales, coarser ? coarsest : dtype);
    const at::Tensor one = rounding(dtype) * scales;
    at::Tensor floor = kRoundings * one + kRoundings * step_in_units(dtype);
    floor[-1].copy_(kRoundings / 4 * one[-1]);
    floor = at::maximum(floor, growth(scales) * at_least_typical(own, scales));
    if (rounding(dtype) == rounding(at::kDouble)) floor = at::maximum(floor, own_noise(scales));
    check_.now = assess("", now, reference, scales, floor, most, evidence_.rounding);
    if ((own > most).any().item<bool>())
      say(Answer::cannot_tell,
          fmt::format("the original itself is off by {:.2g} of its scale from its fp64 run",
                      check_.relative(check_.original_error)));
  }

  // Whether an error is what rounding does. The distance is that of the row farthest into what is
  // allowed.
  Distance assess(const char* where, const at::Tensor& value, const at::Tensor& reference,
                  const at::Tensor& scales, const at::Tensor& floor, const at::Tensor& most,
                  const Evidence::Noise& noise) {
    const Finding f = finding(where, distance(value, reference), scales, floor, most, noise);
    const Distance distance_in_worst{absolute(f.in_worst(f.error)),
                                     absolute(f.in_worst(f.allowed))};
    if (!f.any_bad()) return distance_in_worst;
    const at::Tensor elements = sizes_->rows(masked(value - reference));
    const at::Tensor beyond = elements > rows_part(f.allowed).unsqueeze(1);
    check_.beyond = std::max(check_.beyond, beyond.to(at::kDouble).mean().item<double>());
    explain(f, growth(scales), noise);
    return distance_in_worst;
  }

  // An error beside what is allowed. Tensors hold one number a row, and one for the length.
  struct Finding {
    const char* where;
    at::Tensor error;
    at::Tensor rounding;  // what rounding may do
    at::Tensor most;      // and as much of that as may ever be allowed
    at::Tensor allowed;
    Effect effect;
    std::int64_t worst;  // the row farthest into what is allowed

    at::Tensor bad() const { return error > allowed; }
    bool any_bad() const { return bad().any().item<bool>(); }
    double in_worst(const at::Tensor& sizes) const { return sizes[worst].item<double>(); }
  };

  Finding finding(const char* where, const at::Tensor& error, const at::Tensor& scales,
                  const at::Tensor& floor, const at::Tensor& most,
                  const Evidence::Noise& noise) const {
    Finding f{where, error, floor, most, at::minimum(floor, most), {}, 0};
    f.effect = {at::zeros_like(floor), at::zeros_like(floor)};
    for (std::size_t runs : {kFewRuns, kManyRuns}) {  // many only where few do not explain it
      if (!f.any_bad() || (!evidence_.explained && (error > most).any().item<bool>())) break;
      f.effect = effect_of(noise.response(runs), scales);
      f.rounding =
          at::maximum(floor, growth(scales) * at_least_typical(f.effect.as_rounding, scales));
      f.allowed = at::minimum(f.rounding, most);
    }
    f.worst = rows_part(load_of(f.error, f.allowed)).argmax().item<std::int64_t>();
    return f;
  }

  // Says what an error that is not allowed comes from: each explanation takes the rows that it
  // holds for; the one that takes the last of them is the reason. An error that none explains is a
  // wrong.
  void explain(const Finding& f, const at::Tensor& growth, const Evidence::Noise& noise) {
    struct Explanation {
      std::function<at::Tensor()> rows;
      std::function<std::string()> reason;
    };
    const Explanation explanations[] = {
        {[&] { return f.error <= f.rounding; }, [&] { return more_than_may_be(f); }},
        {[&] { return f.error <= growth * f.effect.all; }, [&] { return does_not_shrink(f); }},
        {[&] { return turned_by(noise.far(), f); }, [&] { return close_decisions(noise.far()); }},
    };
    at::Tensor unexplained = f.bad();
    for (const Explanation& explanation : explanations) {
      unexplained = unexplained.logical_and(explanation.rows().logical_not());
      if (!unexplained.any().item<bool>())
        return say(Answer::cannot_tell, f.where + explanation.reason());
    }
    const bool runs_only = &noise == &evidence_.rounding;
    if (runs_only && check_.passed() && !(f.error > f.most).any().item<bool>())
      say(Answer::cannot_tell, "it means the same in fp64, but " + describe(f));
    else
      say(Answer::fail, describe(f));
  }

  std::string more_than_may_be(const Finding& f) const {
    return fmt::format(
        "the error is {:.2g}, and rounding alone may move it by {:.2g}, more than {:.2g} of its "
        "scale",
        absolute(f.in_worst(f.error)), absolute(f.in_worst(f.rounding)),
        check_.relative(absolute(f.in_worst(f.most))));
  }

  std::string does_not_shrink(const Finding& f) const {
    return fmt::format(
        "the error is {:.2g}, and what rounding does there does not shrink with it: nothing can be "
        "said",
        absolute(f.in_worst(f.error)));
  }

  std::string describe(const Finding& f) const {
    const at::Tensor bad = f.bad();
    if (!rows_part(bad).any().item<bool>())
      return fmt::format("{}the L2 error is {:.2g}, allowed is {:.2g}", f.where,
                         absolute(length(f.error)), absolute(length(f.allowed)));
    const std::string row =
        bad.size(0) > 2 ? fmt::format("row {} of {}: ", f.worst, bad.size(0) - 1) : "";
    return fmt::format("{}{}the error is {:.2g}, allowed is {:.2g}", f.where, row,
                       absolute(f.in_worst(f.error)), absolute(f.in_worst(f.allowed)));
  }

  Effect effect_of(const Response& response, const at::Tensor& scales) const {
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
    const at::Tensor tiny = scales * 0x1p-48 + largest(scales) * 0x1p-48;
    const at::Tensor like =
        (fainter <= 4 * expected + tiny).logical_and(fainter >= expected / 4 - tiny);
    return {most, at::where(like.logical_and(at::isfinite(most)), most, none)};
  }

  // Where much stronger noise does more than in proportion, and about as much as is to be
  // explained; nowhere if it turns no decision.
  at::Tensor turned_by(const FarRuns& far, const Finding& f) const {
    at::Tensor most = at::zeros_like(f.error);
    if (far.flipped.empty()) return at::zeros_like(most, at::kBool);
    const at::Tensor exact = value_in(*evidence_.wide);
    for (const Run& run : far.runs) {
      const at::Tensor value = value_in(run);
      if (value.sizes() != exact.sizes()) return at::ones_like(most, at::kBool);
      most = at::maximum(most, distance(value, exact));
    }
    return (most > 4 * kFar * f.effect.all).logical_and(f.error <= kGrowth * most);
  }

  static std::string close_decisions(const FarRuns& far) {
    return fmt::format("rounding may turn what is decided at {}", fmt::join(far.flipped, ", "));
  }

  void differs(const IValue& before, const IValue& now, const Evidence::Noise& noise) {
    std::string problem = "differs";
    at::Tensor differing = at::scalar_tensor(true, at::kBool);
    if (before.isTensor()) {
      if (before.toTensor().sizes() != now.toTensor().sizes())
        return say(Answer::fail, "has another shape");
      differing = before.toTensor() != now.toTensor();
      problem = fmt::format("{} of {} elements differ", differing.sum().item<std::int64_t>(),
                            differing.numel());
      check_.beyond = differing.to(at::kDouble).mean().item<double>();
    }
    if (evidence_.wide && !evidence_.original.random) {
      const FarRuns& far = noise.far();
      if (!far.flipped.empty() && is_turned(far, differing))
        return say(Answer::cannot_tell, problem + ": " + close_decisions(far));
    }
    say(Answer::fail, problem);
  }

  // Whether some run with noise differs wherever these do.
  bool is_turned(const FarRuns& far, at::Tensor differing) const {
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
  check.answer = check.problem.empty() ? Answer::pass : Answer::fail;
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
    OutputCheck& check = checks.emplace_back(
        check_of(leaf, now ? mismatch(leaf.value, *now) : "is not there any more"));
    if (!check.passed()) continue;
    const Run* meaning = wide && find(*wide, leaf.path) ? wide : nullptr;
    Judge judge(evidence, leaf.path, check);
    if (is_rounded(leaf.value))
      judge.approximate(leaf.value, current, meaning, allowance);
    else
      judge.exact(leaf.value, current, meaning, allowance);
  }
  for (const Leaf& leaf : current.values)
    if (!find(evidence.original, leaf.path) && !current.unchanged.count(leaf.path))
      checks.push_back(check_of(leaf, "is new"));
  return checks;
}

double loss(const OutputCheck& check) { return check.exact ? check.beyond : check.l2; }

double load(const OutputCheck& check) {
  if (check.answer == Answer::fail) return std::numeric_limits<double>::infinity();
  if (!check.passed()) return std::numeric_limits<double>::max();
  const auto part = [](const Distance& d) { return d.allowed > 0 ? d.error / d.allowed : 0; };
  return std::max(part(check.meaning), part(check.now));
}

}  // namespace refx

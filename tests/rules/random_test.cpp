// SPDX-License-Identifier: Apache-2.0

// Random models with what the shipped rules look for, in random spellings, and with what only looks
// like it. REFX_CASES=<n> sets how many.

#include <fmt/format.h>

#include <cstdlib>
#include <map>
#include <sstream>

#include "kit.h"
#include "property.h"
#include "rules/short_text.h"

namespace refx::testing {
namespace {

// One place. Any numbers mean something; lower ones something plainer.
struct Planted {
  int kind = 0, from = 0, other = 0, third = 0;  // what, and on which values
  int form = 0, order = 0, no_ops = 0, extra = 0;
  int wrong = 0;  // 0: as it should be
};
struct Plan {
  int dtype = 0, order_of_undo = 0;
  std::vector<Planted> places;
};

std::ostream& operator<<(std::ostream& out, const Plan& plan) {
  out << "dtype " << plan.dtype << " undo " << plan.order_of_undo;
  for (const Planted& p : plan.places)
    out << fmt::format(
        "\n  kind {} from {} other {} third {} form {} order {} no_ops {} extra {} wrong {}",
        p.kind, p.from, p.other, p.third, p.form, p.order, p.no_ops, p.extra, p.wrong);
  return out;
}

// Writes the text of a model. Every value of a place has the same sizes, so that places go
// together.
class PlantedText {
 public:
  explicit PlantedText(const Plan& plan) : dtype_(plan.dtype % 2 ? "f64" : "f32") {
    heads_ = fmt::format("input x : {}\ninput z : {}\n", wide(), wide());
    values_ = {"x", "z"};
    for (const Planted& place : plan.places) add(place);
  }

  std::string text() const {
    std::string results;
    for (const std::string& name : returned_) results += name + ", ";
    return heads_ + lines_ + "return (" + results + ")";
  }
  const std::map<std::string, int>& expected() const { return expected_; }

 private:
  std::string type(const std::string& sizes) const { return dtype_ + "[" + sizes + "]"; }
  std::string wide() const { return type("2, 4, 4"); }
  std::string row() const { return type("2, 4, 1"); }

  std::string line(const std::string& type, const std::string& call) {
    const std::string name = fmt::format("v{}", count_++);
    lines_ += fmt::format("{} : {} = {}\n", name, type, call);
    return "%" + name;
  }

  // The value, maybe behind something that hands it on.
  std::string passed(const std::string& value, const std::string& type) {
    const int which = (no_ops_ /= 2) % 9;
    const std::string dtype = dtype_ == "f32" ? "torch.float32" : "torch.float64";
    const std::string sizes = type.substr(3);
    switch (which) {
      case 1:
        return line(type, fmt::format("aten.dropout.default({}, 0.5, False)", value));
      case 2:
        return line(type, fmt::format("aten.clone.default({})", value));
      case 3:
        return line(type, fmt::format("aten.contiguous.default({})", value));
      case 4:
        return line(type, fmt::format("aten.to.dtype({}, {})", value, dtype));
      case 5:
        return line(type, fmt::format("aten.expand.default({}, {})", value, sizes));
      case 6:
        return line(type, fmt::format("aten.slice.Tensor({}, 0, 0, 9223372036854775807)", value));
      default:
        return value;
    }
  }
  std::string wide_of(const std::string& value) { return passed(value, wide()); }

  bool coin() { return (order_ /= 2) % 2 != 0; }
  std::string product(const std::string& a, const std::string& b, const std::string& type) {
    return line(type, coin() ? fmt::format("aten.mul.Tensor({}, {})", b, a)
                             : fmt::format("aten.mul.Tensor({}, {})", a, b));
  }
  std::string sum(const std::string& a, const std::string& b, const std::string& type) {
    return line(type, coin() ? fmt::format("aten.add.Tensor({}, {})", b, a)
                             : fmt::format("aten.add.Tensor({}, {})", a, b));
  }
  std::string scaled(const std::string& a, double by, const std::string& type) {
    return line(type, coin() ? fmt::format("aten.div.Tensor({}, {})", a, 1 / by)
                             : fmt::format("aten.mul.Tensor({}, {})", a, by));
  }
  std::string unary(const char* name, const std::string& a, const std::string& type) {
    return line(type, fmt::format("aten.{}.default({})", name, a));
  }
  std::string parameter(const std::string& sizes) {
    const std::string name = fmt::format("w{}", parameters_++);
    heads_ += fmt::format("parameter {} : {}\n", name, type(sizes));
    return "%p_" + name;
  }
  std::string value(int which) const {
    return "%" + values_[static_cast<std::size_t>(which) % values_.size()];
  }
  // Another than this one.
  std::string another(const std::string& value) { return unary("tanh", value, wide()); }

  void add(const Planted& place) {
    no_ops_ = place.no_ops;
    order_ = place.order;
    inner_.clear();
    const int wrong = place.wrong % 4 == 3 ? 1 + place.wrong / 4 % 3 : 0;  // a quarter of them
    const std::string x = value(place.from);
    std::string result;
    switch (place.kind % 9) {
      case 0:
        result = silu(x, wrong);
        break;
      case 1:
        result = gelu(x, place.form, wrong);
        break;
      case 2:
        result = tanh_gelu(x, place.form, wrong);
        break;
      case 3:
        result = layer_norm(x, place.form, place.extra, wrong);
        break;
      case 4:
        result = rms_norm(x, place.form, place.extra, wrong);
        break;
      case 5:
        result =
            attention(x, value(place.other), value(place.third), place.form, place.extra, wrong);
        break;
      case 6:
        result = linear(x, place.form, place.extra, wrong);
        break;
      case 7:
        result = turned(x, place.extra, wrong);
        break;
      default:
        result = lora(x, place.form, wrong);
    }
    values_.push_back(result.substr(1));
    returned_.push_back(result.substr(1));
    if (wrong == 1) returned_.push_back(inner_.substr(1));
    // A product with a weight is a linear, whatever becomes of it.
    const bool product_alone =
        (place.kind % 9 == 6 && wrong != 2) || (place.kind % 9 == 7 && wrong == 1);
    if (wrong == 0 || product_alone) ++expected_[kNames[place.kind % 9]];
    // What is left of such a layer norm is the other norm of what is centred.
    const bool centred =
        place.kind % 9 == 3 && (wrong == 1 || wrong == 2) && place.form / 2 % 2 == 0;
    if (centred) ++expected_["fuse-rms-norm"];
  }

  // Each: wrong 1: an inner value is returned, too; 2, 3: something else.

  std::string silu(const std::string& x, int wrong) {
    inner_ = unary(wrong == 2 ? "tanh" : "sigmoid", wide_of(x), wide());
    return product(wide_of(inner_), wrong == 3 ? another(x) : wide_of(x), wide());
  }

  std::string gelu(const std::string& x, int form, int wrong) {
    const double c = 0.7071067811865476 + (wrong == 2 ? 1e-3 : 0);
    const std::string e = unary("erf", wide_of(scaled(wide_of(x), c, wide())), wide());
    inner_ = sum(wide_of(e), wrong == 3 ? "1.001" : "1.0", wide());
    if (form % 3 == 0) return product(wide_of(scaled(x, 0.5, wide())), inner_, wide());
    if (form % 3 == 1) return product(x, wide_of(scaled(inner_, 0.5, wide())), wide());
    return scaled(wide_of(product(x, inner_, wide())), 0.5, wide());
  }

  std::string tanh_gelu(const std::string& x, int form, int wrong) {
    const std::string cube = line(wide(), fmt::format("aten.pow.Tensor_Scalar({}, 3)", wide_of(x)));
    const std::string a = scaled(wide_of(cube), 0.044715 + (wrong == 2 ? 1e-3 : 0), wide());
    const std::string s = sum(wide_of(x), a, wide());
    inner_ = unary("tanh", wide_of(scaled(s, 0.7978845608028654, wide())), wide());
    const std::string one = sum(inner_, wrong == 3 ? "2" : "1", wide());
    if (form % 2 == 0) return product(wide_of(scaled(x, 0.5, wide())), one, wide());
    return scaled(product(x, wide_of(one), wide()), 0.5, wide());
  }

  std::string affine(std::string value, int extra) {
    if (extra % 2) value = product(wide_of(value), parameter("4"), wide());
    return extra / 2 % 2 ? sum(wide_of(value), parameter("4"), wide()) : value;
  }
  std::string normed(const std::string& d, const std::string& variance, const char* eps, int form) {
    const std::string e = sum(passed(variance, row()), eps, row());
    if (form % 2) return product(wide_of(d), unary("rsqrt", e, row()), wide());
    return line(wide(),
                fmt::format("aten.div.Tensor({}, {})", wide_of(d), unary("sqrt", e, row())));
  }

  std::string layer_norm(const std::string& x, int form, int extra, int wrong) {
    const char* dim = wrong == 2 ? "0" : form / 8 % 2 ? "2" : "-1";
    const std::string mean = line(wrong == 2 ? type("1, 4, 4") : row(),
                                  fmt::format("aten.mean.dim({}, [{}], True)", wide_of(x), dim));
    const std::string d = line(wide(), fmt::format("aten.sub.Tensor({}, {})", wide_of(x), mean));
    inner_ = mean;
    std::string variance;
    if (form / 2 % 2) {
      variance =
          line(row(), fmt::format("aten.var.correction({}, [-1]) {{correction: {}, keepdim: True}}",
                                  x, wrong == 3 ? 1 : 0));
    } else {
      const std::string square = form / 4 % 2
                                     ? line(wide(), fmt::format("aten.mul.Tensor({0}, {0})", d))
                                     : line(wide(), fmt::format("aten.pow.Tensor_Scalar({}, {})",
                                                                wide_of(d), wrong == 3 ? 4 : 2));
      if (wrong == 3 && form / 4 % 2) return another(product(d, square, wide()));
      variance = line(row(), fmt::format("aten.mean.dim({}, [-1], True)", square));
    }
    return affine(normed(d, variance, "1e-05", form), extra);
  }

  std::string rms_norm(const std::string& x, int form, int extra, int wrong) {
    const std::string square =
        line(wide(), fmt::format("aten.pow.Tensor_Scalar({}, {})", wide_of(x), wrong == 2 ? 4 : 2));
    const std::string mean =
        line(wrong == 3 ? type("2, 1, 4") : row(),
             fmt::format("aten.mean.dim({}, [{}], True)", wide_of(square), wrong == 3 ? -2 : -1));
    inner_ = mean;
    if (wrong == 3) return line(wide(), fmt::format("aten.mul.Tensor({}, {})", x, mean));
    const std::string n = normed(x, mean, "1e-06", form);
    return extra % 2 ? product(wide_of(n), parameter("4"), wide()) : n;
  }

  std::string attention(const std::string& q, const std::string& k, const std::string& v, int form,
                        int extra, int wrong) {
    const std::string turned =
        line(wide() + " strides=(16, 1, 4)",
             form % 3 == 0   ? fmt::format("aten.transpose.int({}, -2, -1)", k)
             : form % 3 == 1 ? fmt::format("aten.transpose.int({}, 1, 2)", k)
                             : fmt::format("aten.permute.default({}, [0, 2, 1])", k));
    std::string scores = line(
        wide(), fmt::format("aten.matmul.default({}, {})", wide_of(q), wrong == 2 ? k : turned));
    if (extra % 2) scores = scaled(wide_of(scores), 0.25, wide());
    if (extra / 2 % 2) {
      const std::string name = fmt::format("m{}", parameters_++);
      heads_ += fmt::format("input {} : {}\n", name, type(extra / 4 % 2 ? "4, 4" : "2, 1, 4"));
      scores = sum(wide_of(scores), "%" + name, wide());
    }
    inner_ = line(wide(), fmt::format("aten.softmax.int({}, {})", wide_of(scores),
                                      wrong == 3     ? "1"
                                      : form / 3 % 2 ? "2"
                                                     : "-1"));
    return line(wide(), fmt::format("aten.matmul.default({}, {})", wide_of(inner_), v));
  }

  std::string linear(const std::string& x, int form, int extra, int wrong) {
    const std::string w = parameter("4, 4");
    const std::string t = line(type("4, 4") + " strides=(1, 4)",
                               form % 2 ? fmt::format("aten.t.default({})", w)
                                        : fmt::format("aten.transpose.int({}, 0, 1)", w));
    inner_ = line(wide(), fmt::format("aten.matmul.default({}, {})", wide_of(x),
                                      wrong == 2 ? another(x) : t));
    if (wrong == 3)
      return line(wide(),
                  fmt::format("aten.add.Tensor({}, {}) {{alpha: 2}}", inner_, parameter("4")));
    // Without a bias the product is the result.
    if (extra % 2 || wrong) return sum(wide_of(inner_), parameter("4"), wide());
    return inner_;
  }

  std::string turned(const std::string& x, int extra, int wrong) {
    const std::string w = parameter("4, 4");
    inner_ = line(wide(), fmt::format("aten.matmul.default({}, {})", wide_of(x), w));
    if (wrong == 2)
      returned_.push_back(line(type("4, 4"), fmt::format("aten.exp.default({})", w)).substr(1));
    if (wrong == 3)
      return line(wide(), fmt::format("aten.matmul.default({}, {})", inner_,
                                      line(type("4, 4"), fmt::format("aten.exp.default({})", w))));
    if (extra % 2 || wrong == 1) return sum(wide_of(inner_), parameter("4"), wide());
    return inner_;
  }

  std::string lora(const std::string& x, int form, int wrong) {
    const std::string w = parameter("4, 4"), a = parameter("2, 4"), b = parameter("4, 2");
    const std::string bias = form % 2 ? ", " + parameter("4") : "";
    const std::string base =
        line(wide(), fmt::format("aten.linear.default({}, {}{})", wide_of(x), w, bias));
    inner_ = line(type("2, 4, 2"), fmt::format("aten.linear.default({}, {})",
                                               wrong == 2 ? another(x) : wide_of(x), a));
    std::string up = line(
        wide(), fmt::format("aten.linear.default({}, {})", passed(inner_, type("2, 4, 2")), b));
    if (wrong == 3) up = unary("relu", up, wide());
    if (form / 2 % 2) up = scaled(wide_of(up), 0.5, wide());
    return sum(wide_of(base), up, wide());
  }

 public:
  static constexpr const char* kNames[] = {
      "fuse-silu",      "fuse-gelu",   "fuse-gelu-tanh",         "fuse-layer-norm", "fuse-rms-norm",
      "fuse-attention", "fuse-linear", "fuse-linear-transposed", "merge-lora"};

 private:
  std::string dtype_, heads_, lines_, inner_;
  std::vector<std::string> values_, returned_;
  std::map<std::string, int> expected_;
  int count_ = 0, parameters_ = 0, no_ops_ = 0, order_ = 0;
};

rc::Gen<Planted> any_place() {
  const auto n = any_number();
  return rc::gen::build<Planted>(rc::gen::set(&Planted::kind, n), rc::gen::set(&Planted::from, n),
                                 rc::gen::set(&Planted::other, n), rc::gen::set(&Planted::third, n),
                                 rc::gen::set(&Planted::form, n), rc::gen::set(&Planted::order, n),
                                 rc::gen::set(&Planted::no_ops, n),
                                 rc::gen::set(&Planted::extra, n),
                                 rc::gen::set(&Planted::wrong, n));
}
rc::Gen<Plan> any_plan() {
  return rc::gen::build<Plan>(rc::gen::set(&Plan::dtype, any_number()),
                              rc::gen::set(&Plan::order_of_undo, any_number()),
                              rc::gen::set(&Plan::places, up_to(6, any_place())));
}

void found_all_and_no_other() {
  const Plan plan = *any_plan();
  const PlantedText planted(plan);
  if (plan.places.empty()) return;
  const Model original = parse_filled(long_text(planted.text()));
  const std::string before = snapshot(original);
  Model model = original;
  for (const char* name : PlantedText::kNames) {
    const Transformation& rule = find_transformation(name);
    const auto it = planted.expected().find(name);
    const std::size_t expected =
        it == planted.expected().end() ? 0 : static_cast<std::size_t>(it->second);
    const Outcome outcome = rule(model);
    EXPECT_EQ(outcome.steps.size(), expected)
        << name << (outcome.refusals.empty() ? "" : ": " + to_string(outcome.refusals[0].reason))
        << "\n"
        << planted.text();
  }
  validate(model);
  expect_same_results(original, model, random_inputs(original));
  // What builds on a step is applied again without it, and may find more then.
  unsigned at = static_cast<unsigned>(plan.order_of_undo);
  for (int turn = 0; !model.history().empty(); ++turn, at = at * 7 + 3) {
    ASSERT_LT(turn, 100) << planted.text();
    const std::vector<StepId> steps = model.history().ids();
    reverse(model, steps[at % steps.size()]);
  }
  validate(model);
  EXPECT_EQ(snapshot(model), before) << planted.text();
}

int cases() {
  const char* text = std::getenv("REFX_CASES");
  return text ? std::atoi(text) : 400;
}

// Four parts, so that they can run side by side.
class RandomRules : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Quarter, RandomRules, ::testing::Range(1, 5));

TEST_P(RandomRules, AllThatIsPlantedIsFoundAndNothingElse) {
  check_property("planted places are found", cases() / 4, static_cast<std::uint64_t>(GetParam()),
                 found_all_and_no_other);
}

}  // namespace
}  // namespace refx::testing

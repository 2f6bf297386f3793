// SPDX-License-Identifier: Apache-2.0

// The laboratory: measuring, tuning and searching. Results cross as JSON and text.

#include "bind.h"
#include "refx/bench.h"
#include "refx/bisect.h"
#include "refx/report.h"
#include "refx/sensitivity.h"
#include "refx/tune.h"
#include "refx/values.h"
#include "refx/verify.h"

namespace refx::python {

namespace {

using Result = std::pair<std::string, std::string>;  // JSON, text

Inputs to_inputs(std::vector<std::vector<c10::IValue>> calls) {
  Inputs all(std::move(calls[0]), "given");
  all.next.assign(calls.begin() + 1, calls.end());
  return all;
}

// Also the moment at which Ctrl-C is seen.
OnProgress to_progress(const py::object& callback) {
  return [&callback](const Progress& now) {
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!callback.is_none()) callback(now.done, now.total, now.what);
  };
}

// The options that Python gives by name. Each is taken once, and none may be left over.
class Given {
 public:
  Given(const Model& model, py::kwargs options) : model_(model), options_(std::move(options)) {}

  template <class T>
  Given& take(const char* name, T& to) {
    if (!options_.contains(name)) return *this;
    const py::object value = options_.attr("pop")(name);
    try {
      to = value.cast<T>();
    } catch (const py::cast_error&) {
      throw py::type_error(std::string(name) + ": this cannot be " + std::string(py::repr(value)));
    }
    return *this;
  }

  // Several sets of inputs: the first to measure on, and those besides it.
  Given& take_sets(Measure& to, std::vector<Inputs>& more) {
    const py::object inputs = options_.attr("pop")("inputs", py::none());
    if (inputs.is_none()) return *this;
    auto sets = flatten_sets(model_, to_value(inputs));
    to.inputs = to_inputs(std::move(sets[0]));
    for (std::size_t i = 1; i < sets.size(); ++i) more.push_back(to_inputs(std::move(sets[i])));
    return *this;
  }

  Given& take(const char* name, Measure& to) {
    if (const py::object inputs = options_.attr("pop")("inputs", py::none()); !inputs.is_none())
      to.inputs = to_inputs(flatten_calls(model_, to_value(inputs)));
    if (options_.contains("progress")) progress_ = options_.attr("pop")("progress");
    to.progress = to_progress(progress_);
    return take("batch", to.batch)
        .take("steps", to.steps)
        .take("threads", to.threads)
        .take("device", to.device)
        .take("seconds", to.seconds)
        .take("seed", to.seed)
        .none_left(name);
  }

 private:
  Given& none_left(const char* what) {
    if (!options_.empty())
      throw py::type_error(std::string(what) + " takes no " + std::string(py::repr(options_)));
    return *this;
  }

  const Model& model_;
  py::kwargs options_;
  py::object progress_ = py::none();  // outlives what calls it
};

Result verify(const Model& self, const Model* against, const py::kwargs& how) {
  VerifyOptions options{.against = against};
  bool by_error = false;
  Given given(self, how);
  given.take("per_step", options.per_step)
      .take("power", options.power)
      .take("tolerance", options.tolerance)
      .take("budget", options.budget)
      .take("by_error", by_error)
      .take_sets(options.measure, options.more_inputs)
      .take("verify", options.measure);
  if (by_error) options.sort = StepOrder::error;
  const py::gil_scoped_release no_gil;
  const Verification result = refx::verify(self, options);
  return {to_json(result), to_text(result)};
}

Result sensitivity(const Model& self, const std::vector<std::string>& names,
                   const py::kwargs& how) {
  SensitivityOptions options{.transformations = find_transformations(names)};
  Given given(self, how);
  given.take("site", options.filter.site)
      .take("exclude", options.filter.exclude)
      .take("reversed", options.reversed)
      .take("sensitivity", options.measure);
  const py::gil_scoped_release no_gil;
  const Sensitivity result = refx::sensitivity(self, options);
  return {to_json(result), to_text(result)};
}

Result bench(const Model& self, const Model* against, const py::kwargs& how) {
  BenchOptions options{.against = against};
  Given given(self, how);
  given.take("cuda_graph", options.cuda_graph)
      .take("per_step", options.per_step)
      .take("rounds", options.rounds)
      .take("bench", options.measure);
  const py::gil_scoped_release no_gil;
  const Benchmark result = refx::bench(self, options);
  return {to_json(result, hint_as_argument), to_text(result, hint_as_argument)};
}

Result tune(Model& self, const std::vector<std::string>& names, const py::kwargs& how) {
  TuneOptions options{.transformations = find_transformations(names)};
  Given given(self, how);
  // A function of a model: (whether it is accepted, its score or None).
  py::object accept = py::none();
  bool smaller = false;
  given.take("site", options.filter.site)
      .take("exclude", options.filter.exclude)
      .take("trials", options.trials)
      .take("resume", options.resume_from)
      .take("budget", options.budget)
      .take("accept", accept)
      .take("smaller", smaller)
      .take_sets(options.measure, options.more_inputs);
  if (smaller) options.prefer = Prefer::size;
  if (!accept.is_none())
    options.accept = [accept](const Model& candidate) {
      const py::gil_scoped_acquire gil;
      const auto [accepted, score] =
          accept(py::cast(candidate)).cast<std::pair<bool, std::optional<double>>>();
      return Acceptance{accepted, score};
    };
  given.take("tune", options.measure);
  const py::gil_scoped_release no_gil;
  const Tuning result = refx::tune(self, options);
  return {to_json(result), to_text(result)};
}

// What repairs a refx.Model; empty where one call does not.
std::string repair(const Bisection& found) {
  if (found.repair.size() != 1) return "";
  return "model.reverse(" + std::to_string(found.repair[0].value) + ", dependents=\"cascade\"" +
         (found.discards ? ", discard_changes=True)" : ")");
}

Result search(const Model& self, const BisectCheck& check, const std::string& journal,
              const std::string& key, const OnProgress& progress) {
  const Bisection result =
      refx::bisect(self, check, {.journal = journal, .key = key, .progress = progress});
  return {to_json(result, self, repair(result)), to_text(result, self, repair(result))};
}

// True is good, False bad, None skip.
BisectVerdict to_verdict(const py::object& verdict) {
  if (verdict.is_none()) return BisectVerdict::skip;
  const int good = PyObject_IsTrue(verdict.ptr());
  if (good < 0) throw py::error_already_set();
  return good ? BisectVerdict::good : BisectVerdict::bad;
}

// `judge` takes a form of the model.
Result bisect(const Model& self, const py::object& judge, const std::string& journal,
              const std::string& key, const py::object& progress) {
  const BisectCheck check = [&](const Model& form) {
    const py::gil_scoped_acquire gil;
    return to_verdict(judge(py::cast(form)));
  };
  const OnProgress on_progress = to_progress(progress);
  const py::gil_scoped_release no_gil;
  return search(self, check, journal, key, on_progress);
}

Result bisect_within(const Model& self, double tolerance, const std::string& journal,
                     const py::kwargs& how) {
  VerifyOptions options{.tolerance = tolerance};
  Given given(self, how);
  given.take("bisect", options.measure);
  const OnProgress progress = std::exchange(options.measure.progress, {});
  const py::gil_scoped_release no_gil;
  return search(self, check_tolerance(self, options), journal, std::to_string(tolerance), progress);
}

Result bisect_by_command(const Model& self, const std::string& command, const std::string& journal,
                         const py::object& progress) {
  const OnProgress on_progress = to_progress(progress);
  const py::gil_scoped_release no_gil;
  return search(self, check_command(command), journal, command, on_progress);
}

std::string page(const Model& self, const py::kwargs& how) {
  MeasuredReportOptions options;
  Given given(self, how);
  given.take("title", options.title)
      .take("verify", options.verify)
      .take("bench", options.bench)
      .take("per_step", options.per_step)
      .take("report", options.measure);
  const py::gil_scoped_release no_gil;
  return measured_report(self, options).html;
}

}  // namespace

Result bisect_steps(const Model& model, const py::object& judge, const py::object& progress) {
  const BisectCheck check = [&](const Model& form) {
    std::vector<std::uint32_t> kept;
    for (StepId id : form.history().ids()) kept.push_back(id.value);
    const py::gil_scoped_acquire gil;
    return to_verdict(judge(kept));
  };
  const OnProgress on_progress = to_progress(progress);
  const py::gil_scoped_release no_gil;
  const Bisection result = refx::bisect(model, check, {.progress = on_progress});
  return {to_json(result, model), to_text(result, model)};
}

void bind_lab(py::class_<Model>& model) {
  model.def("verify", &verify, py::arg("against"))
      .def("sensitivity", &sensitivity, py::arg("transformations"))
      .def("bench", &bench, py::arg("against"))
      .def("tune", &tune, py::arg("transformations"))
      .def("bisect", &bisect, py::arg("judge"), py::arg("journal"), py::arg("key"),
           py::arg("progress"))
      .def("bisect_within", &bisect_within, py::arg("tolerance"), py::arg("journal"))
      .def("bisect_by_command", &bisect_by_command, py::arg("command"), py::arg("journal"),
           py::arg("progress"))
      .def("report", &page)
      .def_static("write_report", &write_report, py::arg("path"), py::arg("html"));
}

}  // namespace refx::python

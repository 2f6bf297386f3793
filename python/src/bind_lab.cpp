// The laboratory: measuring, tuning and searching. Results cross as JSON and text.

#include "bind.h"
#include "refx/bench.h"
#include "refx/bisect.h"
#include "refx/report.h"
#include "refx/tune.h"
#include "refx/verify.h"

namespace refx::python {

namespace {

using Result = std::pair<std::string, std::string>;  // JSON, text

Inputs to_inputs(const Model& model, py::handle inputs) {
  if (inputs.is_none()) return {};
  return {flatten_inputs(model, to_value(inputs)), "given"};
}

// Also the moment at which Ctrl-C is seen.
OnProgress to_progress(const py::object& callback) {
  return [&callback](const Progress& now) {
    const py::gil_scoped_acquire gil;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    if (!callback.is_none()) callback(now.done, now.total, now.what);
  };
}

Result verify(const Model& self, const Model* against, const py::object& inputs, bool per_step,
              bool power, double tolerance, int threads, std::uint64_t seed,
              const py::object& progress) {
  VerifyOptions options{.against = against,
                        .tolerance = tolerance,
                        .per_step = per_step,
                        .power = power,
                        .threads = threads,
                        .seed = seed,
                        .progress = to_progress(progress)};
  if (!inputs.is_none()) options.inputs = {to_inputs(self, inputs)};
  const py::gil_scoped_release no_gil;
  const Verification result = refx::verify(self, options);
  return {to_json(result), to_text(result)};
}

Result bench(const Model& self, const Model* against, const py::object& inputs, std::int64_t batch,
             int threads, const std::string& device, bool cuda_graph, bool per_step, int rounds,
             double seconds, std::uint64_t seed, const py::object& progress) {
  BenchOptions options{.against = against,
                       .inputs = to_inputs(self, inputs),
                       .batch = batch,
                       .threads = threads,
                       .device = device,
                       .cuda_graph = cuda_graph,
                       .per_step = per_step,
                       .rounds = rounds,
                       .seconds = seconds,
                       .seed = seed,
                       .progress = to_progress(progress)};
  const py::gil_scoped_release no_gil;
  const Benchmark result = refx::bench(self, options);
  return {to_json(result), to_text(result)};
}

Result tune(Model& self, const std::vector<std::string>& names, const py::object& inputs,
            std::int64_t batch, int threads, const std::string& device, double seconds,
            std::uint64_t seed, const std::string& record, const std::vector<std::string>& known,
            const py::object& progress) {
  TuneOptions options{.transformations = find_transformations(names),
                      .inputs = to_inputs(self, inputs),
                      .batch = batch,
                      .threads = threads,
                      .device = device,
                      .seconds = seconds,
                      .seed = seed,
                      .record = record,
                      .known = known,
                      .progress = to_progress(progress)};
  const py::gil_scoped_release no_gil;
  const Tuning result = refx::tune(self, options);
  return {to_json(result), to_text(result)};
}

Result search(const Model& self, const Check& check, const std::string& journal,
              const std::string& key, const OnProgress& progress) {
  const Bisection result =
      refx::bisect(self, check, {.journal = journal, .key = key, .progress = progress});
  return {to_json(result, self), to_text(result, self)};
}

// True is good, False bad, None skip.
Verdict to_verdict(const py::object& verdict) {
  if (verdict.is_none()) return Verdict::skip;
  const int good = PyObject_IsTrue(verdict.ptr());
  if (good < 0) throw py::error_already_set();
  return good ? Verdict::good : Verdict::bad;
}

// `judge` takes a form of the model.
Result bisect(const Model& self, const py::object& judge, const std::string& journal,
              const std::string& key, const py::object& progress) {
  const Check check = [&](const Model& form) {
    const py::gil_scoped_acquire gil;
    return to_verdict(judge(py::cast(form)));
  };
  const OnProgress on_progress = to_progress(progress);
  const py::gil_scoped_release no_gil;
  return search(self, check, journal, key, on_progress);
}

Result bisect_within(const Model& self, double tolerance, const py::object& inputs,
                     std::uint64_t seed, const std::string& journal, const py::object& progress) {
  VerifyOptions options;
  if (!inputs.is_none()) options.inputs = {to_inputs(self, inputs)};
  options.tolerance = tolerance;
  options.seed = seed;
  const OnProgress on_progress = to_progress(progress);
  const py::gil_scoped_release no_gil;
  return search(self, within(self, options), journal, std::to_string(tolerance), on_progress);
}

Result bisect_by_command(const Model& self, const std::string& command, const std::string& journal,
                         const py::object& progress) {
  const OnProgress on_progress = to_progress(progress);
  const py::gil_scoped_release no_gil;
  return search(self, by_command(command), journal, command, on_progress);
}

std::string page(const Model& self, const std::string& title, bool verify, bool bench,
                 bool per_step, const py::object& inputs, int threads, double seconds,
                 std::uint64_t seed, const py::object& progress) {
  MeasureOptions options{.title = title,
                         .verify = verify,
                         .bench = bench,
                         .per_step = per_step,
                         .inputs = to_inputs(self, inputs),
                         .threads = threads,
                         .seconds = seconds,
                         .seed = seed,
                         .progress = to_progress(progress)};
  const py::gil_scoped_release no_gil;
  return measured_report(self, options).html;
}

}  // namespace

Result bisect_steps(const Model& model, const py::object& judge, const py::object& progress) {
  const Check check = [&](const Model& form) {
    std::vector<std::uint32_t> kept;
    for (StepId id : form.history().ids()) kept.push_back(id.value);
    const py::gil_scoped_acquire gil;
    return to_verdict(judge(kept));
  };
  const OnProgress on_progress = to_progress(progress);
  const py::gil_scoped_release no_gil;
  return search(model, check, "", "", on_progress);
}

void bind_lab(py::class_<Model>& model) {
  model.def("verify", &verify)
      .def("bench", &bench)
      .def("tune", &tune)
      .def("bisect", &bisect)
      .def("bisect_within", &bisect_within)
      .def("bisect_by_command", &bisect_by_command)
      .def("report", &page);
}

}  // namespace refx::python

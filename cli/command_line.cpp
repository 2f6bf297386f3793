// SPDX-License-Identifier: Apache-2.0

// The definition of the command line. The only file that includes CLI11.

#include "command_line.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <memory>
#include <unordered_set>

#include "commands.h"
#include "completion.h"
#include "manual_page.h"
#include "output.h"
#include "refx/error.h"
#include "refx/registry.h"
#include "refx/rule.h"
#include "util/did_you_mean.h"

namespace refx::cli {

namespace {

constexpr const char* kExamples = R"(Examples:
  refx inspect model.pt2                            list operators, sites and refusals
  refx apply   model.pt2 merge-linears -o fast.pt2  rewrite the model
  refx log     fast.pt2                             list the steps
  refx verify  fast.pt2                             compare it with its original
  refx reverse fast.pt2 --all -o model.pt2          undo all steps
  refx demo                                         show this on a small generated model

Exit codes: 0 success; 1 the answer is no (different, failed, not found);
2 wrong usage or bad input; 3 internal error; 130 interrupted)";

// The type names of options tell completion which values they take. The help shows option_text()
// instead.
constexpr const char* kModel = "MODEL";
constexpr const char* kTensors = "TENSORS";
constexpr const char* kTransformation = "TRANSFORMATION";
constexpr const char* kStep = "STEP";

// The group of options that are shown neither in the help nor by completion. CLI11 has a group for
// this, without a name, but its messages then lack the names of the options.
constexpr const char* kHidden = "hidden";

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name,
                        CLI::AppFormatMode mode) const override {
    std::string help = CLI::Formatter::make_help(app, std::move(name), mode);
    // CLI11 ends every group but the last with an empty line, also if the last one is hidden.
    const auto at = help.find("\n\n\n");
    return at == help.npos ? help : help.erase(at, 1);
  }
  std::string make_group(std::string group, bool positional,
                         std::vector<const CLI::Option*> options) const override {
    if (group == kHidden) return "";
    return CLI::Formatter::make_group(std::move(group), positional, std::move(options));
  }
};

Takes takes(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return Takes::nothing;
  const std::string type = option.get_type_name();
  return type == kModel            ? Takes::model
         : type == kTensors        ? Takes::tensors
         : type == kTransformation ? Takes::transformation
         : type == kStep           ? Takes::step
                                   : Takes::text;
}

// Checks of values. complaint() puts the name of the option before what they return.

std::string takes_only(const std::string& what, const std::string& text) {
  double number = 0;
  const char* quote = CLI::detail::lexical_cast(text, number) ? "" : "'";
  return fmt::format("takes {0}, not {1}{2}{1}", what, quote, text);
}

std::string any_number(const std::string& text) {
  double number = 0;
  return CLI::detail::lexical_cast(text, number) ? "" : takes_only("a number", text);
}

std::string positive(const std::string& text) {
  double number = 0;
  return CLI::detail::lexical_cast(text, number) && number > 0
             ? ""
             : takes_only("a number greater than 0", text);
}

std::string not_negative(const std::string& text) {
  double number = 0;
  return CLI::detail::lexical_cast(text, number) && number >= 0
             ? ""
             : takes_only("a number of 0 or more", text);
}

using Check = std::function<std::string(const std::string&)>;

Check between(std::int64_t first, std::int64_t last) {
  return [=](const std::string& text) {
    std::int64_t number = 0;
    return CLI::detail::lexical_cast(text, number) && number >= first && number <= last
               ? ""
               : takes_only(fmt::format("a number from {} to {}", first, last), text);
  };
}

Check either(const std::string& one, const std::string& other) {
  return [=](const std::string& text) {
    return text == one || text == other ? "" : takes_only(one + " or " + other, text);
  };
}

class CommandLine {
 public:
  CommandLine() {
    app.formatter(std::make_shared<HelpFormatter>());
    app.require_subcommand(0, 1);
    app.footer(kExamples);
    app.get_formatter()->column_width(26);
    app.get_formatter()->label("Positionals", "Arguments");
    app.get_formatter()->label("SUBCOMMAND", "COMMAND");
    app.set_version_flag("--version",
                         fmt::format("refx {} (LibTorch {})", REFX_VERSION, TORCH_VERSION),
                         "Print the version and exit");
    app.set_help_flag("-h,--help", "Print this help and exit");
    define_reading();
    define_writing();
    define_running();
    define_lab();
    define_check();
    define_report();
    define_others();
  }

  CLI::App app{"Reversible rewrites of PyTorch graphs.", "refx"};
  std::function<int()> command;

 private:
  void define_reading();
  void define_writing();
  void define_running();
  void define_lab();
  void define_check();
  void define_report();
  void define_others();

  // A command with its examples. Every command has --quiet, so that a script can pass it always.
  CLI::App* add(const char* name, const char* what, const char* examples,
                std::function<int()> run) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->group("Commands");
    sub->footer(*examples ? fmt::format("Examples:\n{}", examples) : std::string());
    sub->callback([this, run = std::move(run)] {
      command = [this, run] {
        register_rules();
        return run();
      };
    });
    sub->add_flag_callback(
        "-q,--quiet", [] { set_quiet(true); }, "Print no messages except errors");
    return sub;
  }
  // A user's rule replaces a shipped rule of the same name.
  void register_rules() {
    std::unordered_set<std::string> names;
    for (const std::string& path : rules_)
      for (Rule& rule : load_rules(path)) {
        if (!names.emplace(rule.name()).second)
          throw Error(fmt::format("{}: another rule is also called '{}'", path, rule.name()));
        inspect_options.lossy |= !rule.preserves_computation();
        register_rule(std::move(rule));
      }
  }
  // An option of every command that looks up transformations by name.
  void rules(CLI::App* sub) {
    sub->add_option("--rules", rules_, "Load rules from this file, see docs/rules.md; repeatable")
        ->option_text("FILE")
        ->allow_extra_args(false);
  }
  void json(CLI::App* sub, bool& to) { sub->add_flag("--json", to, "Print JSON"); }
  CLI::Option* model(CLI::App* sub, const char* name, std::string& to, const char* what) {
    return sub->add_option(name, to, what)->type_name(kModel)->option_text(" ");
  }
  void output(CLI::App* sub, std::string& to) {
    sub->add_option("-o,--output", to, "The file to write; may be MODEL")
        ->type_name(kModel)
        ->option_text("OUT");
  }
  // An option of every command that may need detached originals.
  void base(CLI::App* sub, std::string& to) {
    model(sub, "--base", to,
          "Take detached originals from here: a .pt2 or .safetensors file, or a folder of them")
        ->option_text("BASE");
  }
  // The options of every command that runs a model.
  CLI::Option* runs(CLI::App* sub, Runs& options, Measure& to) {
    sub->footer(sub->get_footer() +
                "\n\nThe command runs the operators that the file names, except those that access "
                "files or trust\ncaller-supplied sizes or pointers. Before running files from "
                "others, read docs/security.md.");
    sub->add_option("--allow-ops", options.allow_ops,
                    "Also run this operator (mylib.add), or all of a namespace (mylib); repeatable")
        ->option_text("NAME")
        ->allow_extra_args(false);
    auto* inputs = sub->add_option("--inputs", options.inputs,
                                   "Inputs saved by torch.save: (args, kwargs), args, a dict by "
                                   "name, or a list of such calls")
                       ->type_name(kTensors)
                       ->option_text("FILE")
                       ->expected(1);
    sub->add_option("--steps", to.steps,
                    "After the first call, make N more on the state that it left, as in decoding")
        ->option_text("N")
        ->check(between(0, 1000000));
    sub->add_option("--seed", to.seed, "Seed of generated inputs and random operators (0)")
        ->option_text("N")
        ->check(not_negative);
    return inputs;
  }
  // Allows any number of input sets.
  static void several(CLI::Option* inputs) {
    inputs->description(inputs->get_description() + "; repeatable")
        ->expected(1, CLI::detail::expected_max_vector_size)
        ->allow_extra_args(false);
  }
  void threads(CLI::App* sub, Measure& to, const char* what) {
    sub->add_option("--threads", to.threads, what)
        ->option_text("N")
        ->check(between(0, kMaxThreads));
  }
  // The options of every command that measures times.
  CLI::Option* timed(CLI::App* sub, Runs& options, Measure& to) {
    CLI::Option* inputs = runs(sub, options, to);
    sub->add_option("--batch", to.batch, "Generate inputs with this batch size, if it is dynamic")
        ->option_text("N")
        ->check(positive);
    threads(sub, to, "Number of threads; 0: one per core");
    sub->add_option("--device", to.device, "cpu, cuda or cuda:N; default: the device of the model")
        ->option_text("DEVICE");
    sub->add_option("--seconds", to.seconds, "Measure for at least this long (3)")
        ->option_text("X")
        ->check(positive);
    return inputs;
  }
  static void filter(CLI::App* sub, SiteFilter& to) {
    const auto patterns = [&](const char* name, std::vector<std::string>& all, const char* what) {
      sub->add_option(name, all, what)->option_text("PATTERN")->allow_extra_args(false);
    };
    patterns("--site", to.site,
             "Only sites whose name, module, tensor or node matches (* and ?); repeatable");
    patterns("--exclude", to.exclude, "Leave out sites that match this pattern; repeatable");
    // After --exclude, whose callback replaces the list: CLI11 runs callbacks in this order.
    sub->add_option_function<std::vector<std::string>>(
           "--except",
           [&to](const std::vector<std::string>& more) {
             to.exclude.insert(to.exclude.end(), more.begin(), more.end());
           })
        ->allow_extra_args(false)
        ->group(kHidden);
  }
  // The former name of an option. Scripts may use it; help and completion do not show it.
  template <class T>
  static CLI::Option* former_name(CLI::App* sub, const char* name, T& to, CLI::Option* now) {
    return sub->add_option(name, to)->group(kHidden)->excludes(now);
  }
  std::vector<CommandInfo> commands() const;

  ListOptions list_options;
  InspectOptions inspect_options;
  ApplyOptions apply_options;
  LogOptions log_options;
  ReverseOptions reverse_options;
  DiffOptions diff_options;
  DetachOptions detach_options;
  ForgetOptions forget_options;
  RunOptions run_options;
  VerifyOptions verify_options;
  SensitivityOptions sensitivity_options;
  BenchOptions bench_options;
  TuneOptions tune_options;
  BisectOptions bisect_options;
  CheckOptions check_options;
  ReportOptions report_options;
  std::vector<std::string> rules_;
  std::string what, shell;
};

void CommandLine::define_reading() {
  auto* sub = add("list", "List the transformations",
                  "  refx list\n"
                  "  refx list --json\n"
                  "  refx list --reasons",
                  [this] { return list(list_options); });
  sub->add_flag("--reasons", list_options.reasons, "List the reasons for refusals and their codes");
  rules(sub);
  json(sub, list_options.json);

  sub = add("explain", "Explain a transformation or the reason of a refusal",
            "  refx explain merge-linears\n"
            "  refx explain used-elsewhere\n"
            "  refx explain 'is used in more than one place'",
            [this] { return explain(what); });
  sub->add_option("WHAT", what, "A name from `refx list`, or the code or text of a refusal reason")
      ->type_name(kTransformation)
      ->option_text(" ")
      ->required();
  rules(sub);

  sub = add("inspect", "Show what a model contains and which transformations apply",
            "  refx inspect model.pt2            operators, tensors, sites, refusals\n"
            "  refx inspect model.pt2 store-linear-int8 --site head    only these sites\n"
            "  refx inspect model.pt2 --lossy    also count the sites of lossy transformations\n"
            "  refx inspect model.pt2 --graph    the graph as text\n"
            "  refx inspect model.pt2 --json",
            [this] { return inspect(inspect_options); });
  model(sub, "MODEL", inspect_options.model, "A .pt2 file")->required();
  sub->add_option("TRANSFORMATION", inspect_options.transformations,
                  "Names from `refx list`; default: all that are not lossy")
      ->type_name(kTransformation)
      ->option_text(" ");
  filter(sub, inspect_options.filter);
  sub->add_flag("--graph", inspect_options.graph, "Print only the text form of the model");
  sub->add_flag("--lossy", inspect_options.lossy,
                "Also count the sites of lossy transformations; --site '*' lists them");
  rules(sub);
  json(sub, inspect_options.json);

  sub = add("log", "List the steps of a model, oldest first",
            "  refx log fast.pt2           id, transformation, site\n"
            "  refx log fast.pt2 --json    with nodes, parameters and bytes kept for undo",
            [this] { return log(log_options); });
  model(sub, "MODEL", log_options.model, "A .pt2 file")->required();
  json(sub, log_options.json);

  sub = add("diff", "Show how two models differ, or a model and its original",
            "  refx diff fast.pt2              against its own original\n"
            "  refx diff model.pt2 fast.pt2\n"
            "  refx diff a.pt2 b.pt2 && echo equal",
            [this] { return diff(diff_options); });
  model(sub, "A", diff_options.model, "A .pt2 file")->required();
  model(sub, "B", diff_options.other, "Another .pt2 file; default: compare A with its original");
  base(sub, diff_options.base);
  json(sub, diff_options.json);
}

void CommandLine::define_writing() {
  auto* sub = add("apply", "Apply transformations and write the result",
                  "  refx apply model.pt2 merge-linears -o fast.pt2\n"
                  "  refx apply model.pt2 all --exclude 'head.*' -o fast.pt2\n"
                  "  refx apply model.pt2 fuse-bias-in-linear --site 'encoder.0.*' --dry-run",
                  [this] { return apply(apply_options); });
  model(sub, "MODEL", apply_options.model, "A .pt2 file")->required();
  sub->add_option("TRANSFORMATION", apply_options.transformations,
                  "Names from `refx list`, applied in this order; or `all`")
      ->type_name(kTransformation)
      ->option_text(" ")
      ->required();
  output(sub, apply_options.output);
  filter(sub, apply_options.filter);
  sub->add_flag("--dry-run", apply_options.dry_run, "Show the steps without writing a file");
  rules(sub);
  json(sub, apply_options.json);

  sub =
      add("reverse", "Undo steps and write the result",
          "  refx reverse fast.pt2 3 -o fast.pt2               a step by its number in `refx log`\n"
          "  refx reverse fast.pt2 merge-linears 'head.*' -o x.pt2\n"
          "  refx reverse fast.pt2 --all -o model.pt2          the original file\n"
          "  refx reverse slim.pt2 --all --base model.pt2 -o x.pt2    after `refx detach`",
          [this] { return reverse(reverse_options); });
  model(sub, "MODEL", reverse_options.model, "A .pt2 file")->required();
  sub->add_option("WHAT", reverse_options.what,
                  "Step numbers, transformation names, or site patterns")
      ->type_name(kStep)
      ->option_text(" ");
  output(sub, reverse_options.output);
  sub->add_flag("--all", reverse_options.all, "All steps");
  auto* refuse =
      sub->add_flag("--refuse", reverse_options.refuse, "Fail if later steps depend on these")
          ->option_text(" ");
  sub->add_flag("--cascade", reverse_options.cascade,
                "Also reverse dependent steps; default: apply them again where they still match")
      ->option_text(" ")
      ->excludes(refuse);
  sub->add_flag("--discard-changes", reverse_options.discard_changes,
                "Lose changes that training made to rewritten tensors");
  base(sub, reverse_options.base);
  rules(sub);
  json(sub, reverse_options.json);

  sub = add("detach", "Remove the originals from a file; `refx reverse --base` restores them",
            "  refx detach fast.pt2 -o slim.pt2\n"
            "  refx reverse slim.pt2 --all --base model.pt2 -o back.pt2",
            [this] { return detach(detach_options); });
  model(sub, "MODEL", detach_options.model, "A .pt2 file")->required();
  output(sub, detach_options.output);
  json(sub, detach_options.json);

  sub = add("forget", "Remove the history and the originals that it keeps",
            "  refx forget fast.pt2 -o slim.pt2", [this] { return forget(forget_options); });
  model(sub, "MODEL", forget_options.model, "A .pt2 file")->required();
  output(sub, forget_options.output);
  json(sub, forget_options.json);
}

void CommandLine::define_running() {
  auto* sub = add("run", "Run a model and show its outputs",
                  "  refx run model.pt2                        on the sample inputs in the file\n"
                  "  refx run model.pt2 --inputs x.pt -o y.pt  read the inputs, write the outputs\n"
                  "  refx run decoder.pt2 --steps 32           decode with the model's own cache",
                  [this] { return run(run_options); });
  model(sub, "MODEL", run_options.model, "A .pt2 file")->required();
  runs(sub, run_options, run_options.measure);
  threads(sub, run_options.measure, "Number of threads; 0: one per core");
  sub->add_option("-o,--output", run_options.output, "Write the outputs, for torch.load")
      ->type_name(kTensors)
      ->option_text("OUT");
  sub->add_option("--state", run_options.state,
                  "Write the state after the run (caches, counters), a dict by name")
      ->type_name(kTensors)
      ->option_text("OUT");
  json(sub, run_options.json);

  sub = add("verify", "Compare the outputs of a model with those of its original",
            "  refx verify fast.pt2\n"
            "  refx verify fast.pt2 --per-step           also the error of each step alone\n"
            "  refx verify fast.pt2 --power              also the smallest error it would detect\n"
            "  refx verify decoder.pt2 --steps 32        every step of decoding\n"
            "  refx verify fast.pt2 --against model.pt2 --inputs x.pt",
            [this] { return verify(verify_options); });
  model(sub, "MODEL", verify_options.model, "A .pt2 file")->required();
  model(sub, "--against", verify_options.against, "Compare with this file instead of the original")
      ->option_text("OTHER");
  base(sub, verify_options.base);
  several(runs(sub, verify_options, verify_options.how.measure));
  sub->add_option("--tolerance", verify_options.how.tolerance,
                  "The largest relative error; default: what rounding explains")
      ->option_text("X")
      ->check(not_negative);
  sub->add_option("--budget", verify_options.how.budget,
                  "The largest relative L2 error that lossy steps may cause")
      ->option_text("X")
      ->check(positive);
  sub->add_flag("--per-step", verify_options.how.per_step, "Also measure every step alone");
  sub->add_option_function<std::string>(
         "--sort",
         [this](const std::string& by) {
           verify_options.how.sort = by == "error" ? StepOrder::error : StepOrder::step;
         },
         "Order of the steps: by number, or the largest error first (step)")
      ->option_text("step|error")
      ->check(either("step", "error"));
  sub->add_flag(
      "--power", verify_options.how.power,
      "Plant smaller and smaller errors in each step: report the smallest that is detected");
  threads(sub, verify_options.how.measure,
          "Number of threads (1); results may differ between numbers");
  json(sub, verify_options.json);

  sub = add("sensitivity", "Measure the error that lossy rewrites cause in each layer",
            "  refx sensitivity small.pt2                        the steps of the model\n"
            "  refx sensitivity model.pt2 quantize-linear-int8   each site, tried on a copy",
            [this] { return sensitivity(sensitivity_options); });
  model(sub, "MODEL", sensitivity_options.model, "A .pt2 file")->required();
  sub->add_option("TRANSFORMATION", sensitivity_options.transformations,
                  "Names from `refx list`: try them on a copy, at each site")
      ->type_name(kTransformation)
      ->option_text(" ");
  filter(sub, sensitivity_options.filter);
  base(sub, sensitivity_options.base);
  runs(sub, sensitivity_options, sensitivity_options.measure);
  threads(sub, sensitivity_options.measure, "Number of threads (1)");
  rules(sub);
  json(sub, sensitivity_options.json);
}

void CommandLine::define_lab() {
  auto* sub = add("bench", "Compare the speed of a model with its original, or with another file",
                  "  refx bench fast.pt2\n"
                  "  refx bench fast.pt2 --against model.pt2 --inputs x.pt --threads 1\n"
                  "  refx bench fast.pt2 --per-step            also the effect of each step\n"
                  "  refx bench decoder.pt2 --steps 32         tokens per second",
                  [this] { return bench(bench_options); });
  model(sub, "MODEL", bench_options.model, "A .pt2 file")->required();
  model(sub, "--against", bench_options.against, "Compare with this file instead of the original")
      ->option_text("OTHER");
  base(sub, bench_options.base);
  timed(sub, bench_options, bench_options.how.measure);
  sub->add_flag("--cuda-graph", bench_options.how.cuda_graph,
                "Capture a run in a CUDA graph and time its replays");
  sub->add_flag("--per-step", bench_options.how.per_step,
                "Also measure the model without each step");
  sub->add_option("--rounds", bench_options.how.rounds, "Measure at least N rounds (10)")
      ->option_text("N")
      ->check(between(1, 1000000));
  json(sub, bench_options.json);

  sub = add("tune", "Find the rewrites that make a model faster on this machine",
            "  refx tune model.pt2 -o best.pt2\n"
            "  refx tune model.pt2 -o best.pt2 merge-linears fuse-bias-in-linear --threads 1\n"
            "  refx tune model.pt2 -o best.pt2 quantize-linear-int8 --budget 0.01\n"
            "  refx tune model.pt2 -o small.pt2 store-linear-int8 --prefer size --accept "
            "'./eval.sh {}'\n"
            "  torchrun --no-python --nproc-per-node 2 refx tune model.pt2 -o best.pt2",
            [this] { return tune(tune_options); });
  model(sub, "MODEL", tune_options.model, "A .pt2 file")->required();
  sub->add_option("TRANSFORMATION", tune_options.transformations,
                  "Names from `refx list`; default: all that are not lossy")
      ->type_name(kTransformation)
      ->option_text(" ");
  filter(sub, tune_options.how.filter);
  output(sub, tune_options.output);
  base(sub, tune_options.base);
  several(timed(sub, tune_options, tune_options.how.measure));
  sub->add_option("--budget", tune_options.how.budget,
                  "The largest relative L2 error that lossy rewrites may cause")
      ->option_text("X")
      ->check(positive);
  auto* accept = sub->add_option("--accept", tune_options.accept,
                                 "Command that accepts (exit 0) or rejects the model at {}")
                     ->option_text("COMMAND");
  auto* accept_min =
      sub->add_option("--accept-min", tune_options.accept_min,
                      "Accept only if the last line that the command prints is X or more")
          ->option_text("X")
          ->check(any_number);
  former_name(sub, "--budget-run", tune_options.accept, accept);
  former_name(sub, "--at-least", tune_options.accept_min, accept_min)->check(any_number);
  sub->add_option_function<std::string>(
         "--prefer",
         [this](const std::string& what) {
           tune_options.how.prefer = what == "size" ? Prefer::size : Prefer::speed;
         },
         "What to optimize within the budget (speed)")
      ->option_text("speed|size")
      ->check(either("speed", "size"));
  sub->add_option("--report", tune_options.report,
                  "Also write an HTML page about the result, see `refx report`")
      ->option_text("OUT.html");
  sub->add_option("--trials", tune_options.how.trials,
                  "Record every trial in this file (OUT.trials.jsonl)")
      ->option_text("FILE");
  sub->add_flag("--resume", tune_options.resume,
                "Reuse the recorded trials instead of measuring again");
  rules(sub);
  json(sub, tune_options.json);

  sub = add("bisect", "Find the steps that make a check fail",
            "  refx bisect fast.pt2 --tolerance 1e-4\n"
            "  refx bisect fast.pt2 --run './check.sh {}'   exit 0 good, 1 to 124 bad, 125 skip",
            [this] { return bisect(bisect_options); });
  model(sub, "MODEL", bisect_options.model, "A .pt2 file")->required();
  auto* tolerance = sub->add_option("--tolerance", bisect_options.tolerance,
                                    "The largest relative error; 0: what rounding explains")
                        ->option_text("X")
                        ->check(not_negative);
  sub->add_option("--run", bisect_options.run, "Command that checks the model at {}")
      ->option_text("COMMAND")
      ->excludes(tolerance);
  base(sub, bisect_options.base);
  runs(sub, bisect_options, bisect_options.measure);
  threads(sub, bisect_options.measure, "Number of threads (1)");
  sub->add_flag("--fresh", bisect_options.fresh,
                "Start over instead of resuming an interrupted search");
  rules(sub);
  json(sub, bisect_options.json);
}

void CommandLine::define_check() {
  auto* sub = add("check", "Test rules on random models: results against fp64, and undo",
                  "  refx check rules.refx\n"
                  "  refx check rules.refx --rule merge-lora --instances 1000\n"
                  "  refx check                               the rules that ship with refx",
                  [this] { return check(check_options); });
  sub->add_option("FILE", check_options.files,
                  "Files of rules, see docs/rules.md; default: the shipped rules")
      ->option_text(" ");
  sub->add_option("--rule", check_options.rules, "Test only this rule; repeatable")
      ->option_text("NAME")
      ->allow_extra_args(false);
  sub->add_option("--instances", check_options.how.instances,
                  "Number of models for each form of a rule (100)")
      ->option_text("N")
      ->check(between(1, 1000000));
  sub->add_option("--seed", check_options.how.seed, "Seed of the random models")
      ->option_text("N")
      ->check(not_negative);
  json(sub, check_options.json);
}

void CommandLine::define_report() {
  auto* sub =
      add("report", "Write an HTML page about a model, its steps and their effects",
          "  refx report fast.pt2 -o report.html\n"
          "  refx report fast.pt2 -o report.html --no-bench  faster: without measuring times",
          [this] { return report(report_options); });
  model(sub, "MODEL", report_options.model, "A .pt2 file")->required();
  sub->add_option("-o,--output", report_options.output, "The HTML file to write")
      ->option_text("OUT");
  sub->add_option("--title", report_options.how.title,
                  "Title of the page; default: the name of MODEL")
      ->option_text("TEXT");
  base(sub, report_options.base);
  runs(sub, report_options, report_options.how.measure);
  threads(sub, report_options.how.measure, "Number of threads (1); 0: one per core");
  MeasuredReportOptions& how = report_options.how;
  sub->add_flag_callback(
      "--no-verify", [&how] { how.verify = false; }, "Do not verify the model");
  sub->add_flag_callback(
      "--no-bench", [&how] { how.bench = false; }, "Do not measure times");
  sub->add_flag("--per-step", how.per_step, "Also measure every step alone");
}

void CommandLine::define_others() {
  add("demo", "Rewrite a small model and undo it step by step", "  refx demo", demo);
  auto* sub = add("completion", "Print a completion script for a shell",
                  "  source <(refx completion bash)\n"
                  "  refx completion zsh > ~/.zfunc/_refx\n"
                  "  refx completion fish > ~/.config/fish/completions/refx.fish",
                  [this] {
                    say_exactly(completion_script(shell, commands()));
                    return int{kDone};
                  });
  sub->add_option("SHELL", shell, "bash, zsh or fish")->option_text(" ")->required();
  add("man", "Print the manual page", "  refx man | man -l -", [this] {
    std::vector<Chapter> chapters;
    for (const CLI::App* one : app.get_subcommands([](const CLI::App*) { return true; }))
      chapters.push_back({"refx " + one->get_name(), one->help("refx")});
    // app.help() would print the help of the chosen command, `man`.
    const std::string all =
        app.get_formatter()->make_help(&app, "refx", CLI::AppFormatMode::Normal);
    say_exactly(manual_page(all, chapters));
    return int{kDone};
  });
}

std::vector<CommandInfo> CommandLine::commands() const {
  std::vector<CommandInfo> all;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    CommandInfo info{sub->get_name(), sub->get_description(), {}, {}};
    for (const CLI::Option* option : sub->get_options()) {
      if (option->get_group() == kHidden) continue;
      if (option->get_positional()) {
        info.arguments.push_back(takes(*option));
        if (option->get_name() == "SHELL") info.words = {"bash", "zsh", "fish"};
        continue;
      }
      OptionInfo o{{}, option->get_description(), takes(*option)};
      for (const std::string& name : option->get_snames()) o.names.push_back("-" + name);
      for (const std::string& name : option->get_lnames()) o.names.push_back("--" + name);
      info.options.push_back(std::move(o));
    }
    all.push_back(std::move(info));
  }
  return all;
}

// ---- wrong usage -------------------------------------------------------------------------------

const CLI::App& chosen(const CLI::App& app) {
  const auto subcommands = app.get_subcommands();
  return subcommands.empty() ? app : *subcommands.front();
}

std::string see_help(const CLI::App& app) {
  const CLI::App& at = chosen(app);
  return fmt::format("; see `{} --help`", &at == &app ? "refx" : "refx " + at.get_name());
}

// An option, a command or an argument that does not exist, and the most similar one that does.
std::string unexpected(const CLI::App& app, const std::string& word) {
  const CLI::App& at = chosen(app);
  const bool option = word.starts_with('-'), no_command = &at == &app;
  std::vector<std::string> known;
  if (option) {
    for (const CLI::Option* o : at.get_options()) {
      if (o->get_group() == kHidden) continue;
      for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
    }
  } else if (no_command) {
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
  }
  const std::string what = option ? fmt::format("unknown option '{}'", word)
                           : no_command
                               ? fmt::format("unknown command '{}'", word)
                               : fmt::format("'{}' does not take '{}'", at.get_name(), word);
  const std::string nearest = did_you_mean(word, known);
  return what + (nearest.empty() ? see_help(app) : nearest);
}

// What CLI11 says, in the words of the other messages.
std::string in_our_words(const CLI::App& app, const CLI::ParseError& error) {
  const std::string what = error.what();
  // Splits the message where it has `separator`.
  std::string before, after;
  const auto has = [&](std::string_view separator) {
    const auto at = what.find(separator);
    if (at == what.npos) return false;
    before = what.substr(0, at);
    after = what.substr(at + separator.size());
    return true;
  };
  if (what.ends_with(" is required") && has(" is required"))
    return fmt::format("'{}' needs {}", chosen(app).get_name(), before);
  if (what.ends_with(" missing") && has(": ")) return before + " needs a value";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) && has(": At Most 1 "))
    return before + " can be given only once";
  if (dynamic_cast<const CLI::ExcludesError*>(&error) && has(" excludes "))
    return fmt::format("give either {} or {}", before, after);
  if (dynamic_cast<const CLI::ValidationError*>(&error) && has(": ")) return before + " " + after;
  if (what.starts_with("Could not convert: ") && has(" = "))
    return fmt::format("{} does not take '{}'", before.substr(before.find(": ") + 2), after);
  return what;
}

// CLI11 reports a missing argument before an unknown option, which is the more likely mistake.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  for (const std::string& word : app.remaining(true))
    if (word.starts_with('-') && word != "--") return unexpected(app, word);
  return in_our_words(app, error) + see_help(app);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CommandLine line;
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return line.app.exit(help_or_version);
  } catch (const CLI::ExtrasError&) {
    throw Error(unexpected(line.app, line.app.remaining(true).front()));
  } catch (const CLI::ParseError& error) {
    throw Error(complaint(line.app, error));
  }
  if (!line.command) {
    fmt::print(stderr, "{}", line.app.help());
    return kUsage;
  }
  return line.command();
}

}  // namespace refx::cli

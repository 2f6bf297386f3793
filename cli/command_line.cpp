// SPDX-License-Identifier: Apache-2.0

// The definition of the command line. The only file that includes CLI11.

#include "command_line.h"

#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <functional>
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
  refx inspect model.pt2                            what is in it, and what could be done
  refx apply   model.pt2 merge-linears -o fast.pt2  rewrite it
  refx log     fast.pt2                             the steps
  refx verify  fast.pt2                             whether it still computes the same
  refx reverse fast.pt2 --all -o model.pt2          take them back
  refx demo                                         all of it on a model made up for it

Exit codes: 0 done; 1 the answer is no; 2 wrong usage or bad input; 3 a fault of refx;
130 interrupted)";

// The type names of options, from which completion knows what they take. The help shows others.
constexpr const char* kModel = "MODEL";
constexpr const char* kTensors = "TENSORS";
constexpr const char* kTransformation = "TRANSFORMATION";
constexpr const char* kStep = "STEP";

Takes takes(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) return Takes::nothing;
  const std::string type = option.get_type_name();
  return type == kModel            ? Takes::model
         : type == kTensors        ? Takes::tensors
         : type == kTransformation ? Takes::transformation
         : type == kStep           ? Takes::step
                                   : Takes::text;
}

std::string positive(const std::string& text) {
  double number = 0;
  return CLI::detail::lexical_cast(text, number) && number > 0 ? "" : "needs a number above 0";
}

std::string not_negative(const std::string& text) {
  double number = 0;
  return CLI::detail::lexical_cast(text, number) && number >= 0 ? "" : "needs a number, 0 or above";
}

class CommandLine {
 public:
  CommandLine() {
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

  // A command with its examples. Each has --quiet, so that a script need not know which need it.
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
        "-q,--quiet", [] { set_quiet(true); }, "No messages but errors");
    return sub;
  }
  // A rule of the user's own takes the place of one of the library.
  void register_rules() {
    std::unordered_set<std::string> names;
    for (const std::string& path : rules_)
      for (Rule& rule : load_rules(path)) {
        if (!names.emplace(rule.name()).second)
          throw Error(fmt::format("{}: another rule is called '{}', too", path, rule.name()));
        inspect_options.lossy |= !rule.preserves_computation();
        register_rule(std::move(rule));
      }
  }
  // What a command has that looks transformations up by name.
  void rules(CLI::App* sub) {
    sub->add_option("--rules", rules_, "Rules of your own, see docs/rules.md; repeatable")
        ->option_text("FILE")
        ->allow_extra_args(false);
  }
  void json(CLI::App* sub, bool& to) { sub->add_flag("--json", to, "Print JSON"); }
  CLI::Option* model(CLI::App* sub, const char* name, std::string& to, const char* what) {
    return sub->add_option(name, to, what)->type_name(kModel)->option_text(" ");
  }
  void output(CLI::App* sub, std::string& to) {
    sub->add_option("-o,--output", to, "The file to write; it may be MODEL")
        ->type_name(kModel)
        ->option_text("OUT");
  }
  // What a command has that needs originals.
  void base(CLI::App* sub, std::string& to) {
    model(sub, "--base", to,
          "Has the originals that were detached: a .pt2 or .safetensors file, or a folder of these")
        ->option_text("BASE");
  }
  // What a command has that runs a model.
  CLI::Option* runs(CLI::App* sub, Runs& options, Measure& to) {
    sub->footer(sub->get_footer() +
                "\n\nIt runs the operators that the file names, but for those that touch files or "
                "trust memory;\ndocs/security.md says what that means for files from others.");
    sub->add_option("--allow-ops", options.allow_ops,
                    "Run operators of this namespace, or this one (mylib.add), too; repeatable")
        ->option_text("NAME")
        ->allow_extra_args(false);
    auto* inputs = sub->add_option("--inputs", options.inputs,
                                   "(args, kwargs), or args, or a dict by name, or a list of such "
                                   "calls, by torch.save")
                       ->type_name(kTensors)
                       ->option_text("FILE")
                       ->expected(1);
    sub->add_option("--steps", to.steps,
                    "Then N calls on the state that the first one left, as in decoding")
        ->option_text("N")
        ->check(CLI::Range(0, 1000000));
    sub->add_option("--seed", to.seed, "For inputs that are generated, and random operators")
        ->option_text("N")
        ->check(not_negative);
    return inputs;
  }
  // Instead of one set of inputs any number.
  static void several(CLI::Option* inputs) {
    inputs->description(inputs->get_description() + "; repeatable")
        ->expected(1, CLI::detail::expected_max_vector_size)
        ->allow_extra_args(false);
  }
  void threads(CLI::App* sub, Measure& to, const char* what) {
    sub->add_option("--threads", to.threads, what)->option_text("N")->check(CLI::Range(0, 1024));
  }
  // Where, on what and how long times are measured.
  CLI::Option* timed(CLI::App* sub, Runs& options, Measure& to) {
    CLI::Option* inputs = runs(sub, options, to);
    sub->add_option("--batch", to.batch, "Generated inputs with this size of a dynamic batch")
        ->option_text("N")
        ->check(positive);
    threads(sub, to, "Threads to run on; 0: as many as there are cores");
    sub->add_option("--device", to.device, "cpu, cuda or cuda:N; without it, where the model is")
        ->option_text("DEVICE");
    sub->add_option("--seconds", to.seconds, "How long to measure, at least (3)")
        ->option_text("X")
        ->check(positive);
    return inputs;
  }
  static void filter(CLI::App* sub, SiteFilter& to) {
    const auto patterns = [&](const char* name, std::vector<std::string>& all, const char* what) {
      sub->add_option(name, all, what)->option_text("PATTERN")->allow_extra_args(false);
    };
    patterns("--site", to.only,
             "Only sites whose name, module, tensor or node matches (* and ?); repeatable");
    patterns("--except", to.except, "Leave these alone: patterns as of --site; repeatable");
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
                  "  refx list --json",
                  [this] { return list(list_options); });
  rules(sub);
  json(sub, list_options.json);

  sub = add("explain", "Say what a transformation does, or what a refusal means",
            "  refx explain merge-linears\n"
            "  refx explain 'is used in more than one place'",
            [this] { return explain(what); });
  sub->add_option("WHAT", what, "A name from `refx list`, or a reason that refx gave")
      ->type_name(kTransformation)
      ->option_text(" ")
      ->required();
  rules(sub);

  sub = add("inspect", "Show what is in a model and what could be done to it",
            "  refx inspect model.pt2            operators, tensors, sites, refusals\n"
            "  refx inspect model.pt2 store-linear-int8 --site head    of these alone\n"
            "  refx inspect model.pt2 --lossy    counts the sites of lossy transformations, too\n"
            "  refx inspect model.pt2 --graph    the graph as text\n"
            "  refx inspect model.pt2 --json",
            [this] { return inspect(inspect_options); });
  model(sub, "MODEL", inspect_options.model, "A .pt2 file")->required();
  sub->add_option("TRANSFORMATION", inspect_options.transformations,
                  "Names from `refx list`: list their sites and no others")
      ->type_name(kTransformation)
      ->option_text(" ");
  filter(sub, inspect_options.filter);
  sub->add_flag("--graph", inspect_options.graph, "Print the text form of the model instead");
  sub->add_flag("--lossy", inspect_options.lossy,
                "Lossy transformations, too: how many sites they have; --site '*' lists them");
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
  model(sub, "B", diff_options.other, "Another one; without it, A's original is shown against A");
  base(sub, diff_options.base);
  json(sub, diff_options.json);
}

void CommandLine::define_writing() {
  auto* sub = add("apply", "Apply transformations and write the result",
                  "  refx apply model.pt2 merge-linears -o fast.pt2\n"
                  "  refx apply model.pt2 all --except 'head.*' -o fast.pt2\n"
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
  sub->add_flag("--dry-run", apply_options.dry_run, "Say what would be done; write nothing");
  rules(sub);
  json(sub, apply_options.json);

  sub =
      add("reverse", "Take steps back and write the result",
          "  refx reverse fast.pt2 3 -o fast.pt2               a step, as `refx log` numbers them\n"
          "  refx reverse fast.pt2 merge-linears 'head.*' -o x.pt2\n"
          "  refx reverse fast.pt2 --all -o model.pt2          the original file\n"
          "  refx reverse slim.pt2 --all --base model.pt2 -o x.pt2    after `refx detach`",
          [this] { return reverse(reverse_options); });
  model(sub, "MODEL", reverse_options.model, "A .pt2 file")->required();
  sub->add_option("WHAT", reverse_options.what,
                  "Step ids, transformations, patterns as of `apply --site`")
      ->type_name(kStep)
      ->option_text(" ");
  output(sub, reverse_options.output);
  sub->add_flag("--all", reverse_options.all, "All steps");
  auto* refuse =
      sub->add_flag("--refuse", reverse_options.refuse, "Stop if later steps were built on these")
          ->option_text(" ");
  sub->add_flag("--cascade", reverse_options.cascade,
                "Reverse those too (else they are applied again where they still match)")
      ->option_text(" ")
      ->excludes(refuse);
  sub->add_flag("--discard-changes", reverse_options.discard_changes,
                "Drop what was trained into rewritten tensors since");
  base(sub, reverse_options.base);
  rules(sub);
  json(sub, reverse_options.json);

  sub = add("detach", "Take the originals out of a file; `reverse --base` brings them back",
            "  refx detach fast.pt2 -o slim.pt2\n"
            "  refx reverse slim.pt2 --all --base model.pt2 -o back.pt2",
            [this] { return detach(detach_options); });
  model(sub, "MODEL", detach_options.model, "A .pt2 file")->required();
  output(sub, detach_options.output);
  json(sub, detach_options.json);

  sub = add("forget", "Drop the history and the originals that it keeps",
            "  refx forget fast.pt2 -o slim.pt2", [this] { return forget(forget_options); });
  model(sub, "MODEL", forget_options.model, "A .pt2 file")->required();
  output(sub, forget_options.output);
  json(sub, forget_options.json);
}

void CommandLine::define_running() {
  auto* sub =
      add("run", "Run a model and show what comes out",
          "  refx run model.pt2                        on the sample inputs in the file\n"
          "  refx run model.pt2 --inputs x.pt -o y.pt  torch.save'd inputs; write the outputs\n"
          "  refx run decoder.pt2 --steps 32           decode on the cache that it keeps",
          [this] { return run(run_options); });
  model(sub, "MODEL", run_options.model, "A .pt2 file")->required();
  runs(sub, run_options, run_options.measure);
  threads(sub, run_options.measure, "Threads to run on; 0: as many as there are cores");
  sub->add_option("-o,--output", run_options.output, "Write the outputs, for torch.load")
      ->type_name(kTensors)
      ->option_text("OUT");
  sub->add_option("--state", run_options.state,
                  "Write the state that the run left (caches, counters), a dict by name")
      ->type_name(kTensors)
      ->option_text("OUT");
  json(sub, run_options.json);

  sub = add("verify", "Compare what a model computes with what its original did",
            "  refx verify fast.pt2\n"
            "  refx verify fast.pt2 --per-step           the error of each step by itself\n"
            "  refx verify fast.pt2 --power              how small a wrong it would notice\n"
            "  refx verify decoder.pt2 --steps 32        every step of decoding\n"
            "  refx verify fast.pt2 --against model.pt2 --inputs x.pt",
            [this] { return verify(verify_options); });
  model(sub, "MODEL", verify_options.model, "A .pt2 file")->required();
  model(sub, "--against", verify_options.against, "Compare with this file, not with its original")
      ->option_text("OTHER");
  base(sub, verify_options.base);
  several(runs(sub, verify_options, verify_options.how.measure));
  sub->add_option("--tolerance", verify_options.how.tolerance,
                  "The largest relative error; without it, what rounding explains")
      ->option_text("X")
      ->check(not_negative);
  sub->add_option("--budget", verify_options.how.budget,
                  "The largest relative L2 error that lossy steps may make")
      ->option_text("X")
      ->check(positive);
  sub->add_flag("--per-step", verify_options.how.per_step, "Measure every step by itself, too");
  sub->add_option_function<std::string>(
         "--sort", [this](const std::string& by) { verify_options.how.by_error = by == "error"; },
         "The steps in their order, or the one that costs most first (step)")
      ->option_text("step|error")
      ->check(CLI::IsMember({"step", "error"}));
  sub->add_flag("--power", verify_options.how.power,
                "Plant ever smaller wrongs in what each step made: which would be noticed");
  threads(sub, verify_options.how.measure,
          "Threads to run on (1): they change the bits of results");
  json(sub, verify_options.json);

  sub = add("sensitivity", "Show which layers lossy rewrites hurt, and how much",
            "  refx sensitivity small.pt2                        the steps that it has\n"
            "  refx sensitivity model.pt2 quantize-linear-int8   what they would do",
            [this] { return sensitivity(sensitivity_options); });
  model(sub, "MODEL", sensitivity_options.model, "A .pt2 file")->required();
  sub->add_option("TRANSFORMATION", sensitivity_options.transformations,
                  "Names from `refx list`, tried where the model does not have them")
      ->type_name(kTransformation)
      ->option_text(" ");
  filter(sub, sensitivity_options.filter);
  base(sub, sensitivity_options.base);
  runs(sub, sensitivity_options, sensitivity_options.measure);
  threads(sub, sensitivity_options.measure, "Threads to run on (1)");
  rules(sub);
  json(sub, sensitivity_options.json);
}

void CommandLine::define_lab() {
  auto* sub = add("bench", "Measure a model against its original, or against another file",
                  "  refx bench fast.pt2\n"
                  "  refx bench fast.pt2 --against model.pt2 --inputs x.pt --threads 1\n"
                  "  refx bench fast.pt2 --per-step            what each step gives\n"
                  "  refx bench decoder.pt2 --steps 32         tokens per second",
                  [this] { return bench(bench_options); });
  model(sub, "MODEL", bench_options.model, "A .pt2 file")->required();
  model(sub, "--against", bench_options.against, "Compare with this file, not with its original")
      ->option_text("OTHER");
  base(sub, bench_options.base);
  timed(sub, bench_options, bench_options.how.measure);
  sub->add_flag("--cuda-graph", bench_options.how.cuda_graph, "Capture a run and time its replays");
  sub->add_flag("--per-step", bench_options.how.per_step,
                "Measure the model without each step, too");
  json(sub, bench_options.json);

  sub = add("tune", "Find the rewrites that pay on this machine and these inputs",
            "  refx tune model.pt2 -o best.pt2\n"
            "  refx tune model.pt2 -o best.pt2 merge-linears fuse-bias-in-linear --threads 1\n"
            "  refx tune model.pt2 -o best.pt2 quantize-linear-int8 --budget 0.01\n"
            "  refx tune model.pt2 -o small.pt2 store-linear-int8 --prefer size --budget-run "
            "'./eval.sh {}'\n"
            "  refx tune model.pt2 --trials a.jsonl --shard 0/2    on one machine of two\n"
            "  refx tune model.pt2 -o best.pt2 --merge a.jsonl --merge b.jsonl\n"
            "  torchrun --no-python --nproc-per-node 2 refx tune model.pt2 -o best.pt2",
            [this] { return tune(tune_options); });
  model(sub, "MODEL", tune_options.model, "A .pt2 file")->required();
  sub->add_option("TRANSFORMATION", tune_options.transformations,
                  "Names from `refx list`; without any, all")
      ->type_name(kTransformation)
      ->option_text(" ");
  filter(sub, tune_options.how.filter);
  output(sub, tune_options.output);
  base(sub, tune_options.base);
  several(timed(sub, tune_options, tune_options.how.measure));
  sub->add_option("--budget", tune_options.how.budget,
                  "The largest relative L2 error that lossy rewrites may make")
      ->option_text("X")
      ->check(positive);
  auto* budget_run =
      sub->add_option("--budget-run", tune_options.budget_run,
                      "A command that says whether the model at the path {} will do: exit 0")
          ->option_text("COMMAND");
  sub->add_option("--at-least", tune_options.at_least,
                  "… if the number in the last line that it prints is not smaller")
      ->option_text("N")
      ->needs(budget_run);
  sub->add_option_function<std::string>(
         "--prefer",
         [this](const std::string& what) {
           tune_options.how.prefer = what == "size" ? Prefer::size : Prefer::speed;
         },
         "What to gain within the budget (speed)")
      ->option_text("speed|size")
      ->check(CLI::IsMember({"speed", "size"}));
  sub->add_option("--report", tune_options.report,
                  "Write a page about the result, too: see `refx report`")
      ->option_text("OUT.html");
  sub->add_option("--trials", tune_options.how.record,
                  "Keep what was measured in this file (OUT.trials.jsonl)")
      ->option_text("FILE");
  sub->add_flag("--resume", tune_options.resume,
                "Do not measure again what is in the file of trials");
  sub->add_option("--shard", tune_options.shard, "Measure only part I of N, and write only trials")
      ->option_text("I/N");
  sub->add_option("--merge", tune_options.how.known, "Use these trials, too; repeatable")
      ->option_text("FILE")
      ->allow_extra_args(false);
  rules(sub);
  json(sub, tune_options.json);

  sub = add("bisect", "Find the steps that make a check fail",
            "  refx bisect fast.pt2 --tolerance 1e-4\n"
            "  refx bisect fast.pt2 --run './check.sh {}'   exit 0 good, 125 skip, 1-124 bad",
            [this] { return bisect(bisect_options); });
  model(sub, "MODEL", bisect_options.model, "A .pt2 file")->required();
  auto* tolerance =
      sub->add_option("--tolerance", bisect_options.tolerance,
                      "The largest relative error; 0: a bound from the original's own")
          ->option_text("X")
          ->check(not_negative);
  sub->add_option("--run", bisect_options.run, "A command that judges the model at the path {}")
      ->option_text("COMMAND")
      ->excludes(tolerance);
  base(sub, bisect_options.base);
  runs(sub, bisect_options, bisect_options.measure);
  threads(sub, bisect_options.measure, "Threads to run on (1)");
  sub->add_flag("--fresh", bisect_options.fresh,
                "Forget what a search that was cut short had found");
  rules(sub);
  json(sub, bisect_options.json);
}

void CommandLine::define_check() {
  auto* sub = add("check", "Try rules on random models, against fp64, and take them back",
                  "  refx check rules.refx\n"
                  "  refx check rules.refx --rule merge-lora --instances 1000\n"
                  "  refx check                               the rules that refx has itself",
                  [this] { return check(check_options); });
  sub->add_option("FILE", check_options.files, "Files of rules, see docs/rules.md")
      ->option_text(" ");
  sub->add_option("--rule", check_options.rules, "Only the rule of this name; repeatable")
      ->option_text("NAME")
      ->allow_extra_args(false);
  sub->add_option("--instances", check_options.how.instances,
                  "How many models of each form are tried (100)")
      ->option_text("N")
      ->check(CLI::Range(1, 1000000));
  sub->add_option("--seed", check_options.how.seed, "Other seeds try other models")
      ->option_text("N")
      ->check(not_negative);
  json(sub, check_options.json);
}

void CommandLine::define_report() {
  auto* sub = add("report", "Write a page that shows a model, its steps and what they do",
                  "  refx report fast.pt2 -o report.html             verifies and times it, too\n"
                  "  refx report fast.pt2 -o report.html --no-bench  only what takes little time",
                  [this] { return report(report_options); });
  model(sub, "MODEL", report_options.model, "A .pt2 file")->required();
  sub->add_option("-o,--output", report_options.output, "The page to write, one HTML file")
      ->option_text("OUT");
  sub->add_option("--title", report_options.how.title, "The page's title; else the name of MODEL")
      ->option_text("TEXT");
  base(sub, report_options.base);
  runs(sub, report_options, report_options.how.measure);
  threads(sub, report_options.how.measure, "Threads to run on (1); 0: as many as there are cores");
  MeasuredReportOptions& how = report_options.how;
  sub->add_flag_callback(
      "--no-verify", [&how] { how.verify = false; }, "Do not compare it with its original");
  sub->add_flag_callback(
      "--no-bench", [&how] { how.bench = false; }, "Do not time it");
  sub->add_flag("--per-step", how.per_step, "Measure every step by itself, too");
}

void CommandLine::define_others() {
  add("demo", "Rewrite a small model, and take it back step by step", "  refx demo", demo);
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
    // Its own help, not that of the command that was chosen.
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

// What the user typed that nothing takes, and the nearest thing that is there.
std::string unexpected(const CLI::App& app, const std::string& word) {
  const CLI::App& at = chosen(app);
  const bool option = word.starts_with('-'), no_command = &at == &app;
  std::vector<std::string> known;
  if (option) {
    for (const CLI::Option* o : at.get_options())
      for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  } else if (no_command) {
    for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
      known.push_back(sub->get_name());
  }
  const std::string what = option       ? fmt::format("unknown option '{}'", word)
                           : no_command ? fmt::format("unknown command '{}'", word)
                                        : fmt::format("'{}' takes no '{}'", at.get_name(), word);
  const std::string nearest = did_you_mean(word, known);
  return what + (nearest.empty() ? see_help(app) : nearest);
}

// CLI11 reports a missing argument before a word that nothing takes, which is the likelier slip.
std::string complaint(const CLI::App& app, const CLI::ParseError& error) {
  for (const std::string& word : app.remaining(true))
    if (word.starts_with('-') && word != "--") return unexpected(app, word);
  const std::string what = error.what(), required = " is required";
  if (what.ends_with(required))
    return fmt::format("'{}' needs {}{}", chosen(app).get_name(),
                       what.substr(0, what.size() - required.size()), see_help(app));
  if (what.ends_with(" missing") && what.find(": ") != what.npos)
    return fmt::format("{} needs a value{}", what.substr(0, what.find(": ")), see_help(app));
  return what + see_help(app);
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

// SPDX-License-Identifier: Apache-2.0

#include "cli/program.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>

#include "refx/explain.h"
#include "refx/registry.h"

namespace refx::testing {
namespace {

TEST_F(Program, ListsTheTransformations) {
  const Result result = run("list");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  std::size_t width = 0;
  for (const auto& t : registry()) width = std::max(width, t->name().size());
  std::string table = fmt::format("{:{}}  reversible  same results  in all  what it does\n",
                                  "transformation", width);
  for (const auto& t : registry())
    table += fmt::format("{:{}}  {:10}  {:12}  {:6}  {}\n", t->name(), width,
                         t->reversible() ? "yes" : "no", t->preserves_computation() ? "yes" : "no",
                         t->in_all() ? "yes" : "no", t->summary());
  EXPECT_EQ(result.out, table);
}

TEST_F(Program, ListsThemAsJson) {
  const Result result = run("list --json");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  check_json(result.out);
  std::vector<std::string> lines;
  for (const auto& t : registry())
    lines.push_back(fmt::format(
        R"(  {{"name": "{}", "summary": "{}", "reversible": {}, "preserves_computation": {}, "in_all": {}}})",
        t->name(), t->summary(), t->reversible(), t->preserves_computation(), t->in_all()));
  EXPECT_EQ(result.out, fmt::format("[\n{}\n]\n", fmt::join(lines, ",\n")));
}

TEST_F(Program, DemoShowsRewritingAndExactReversal) {
  const Result result = run("demo");
  EXPECT_EQ(result.code, 0);
  EXPECT_EQ(result.err, "");
  const std::regex error_size(R"(\d\.\de[-+]\d\d)");
  const std::string shown = std::regex_replace(result.out, error_size, "E");
  EXPECT_EQ(shown, R"(A small vision transformer: 33 operators, 29 tensors.

1. Rewrite it
    1  merge-linears                      attention.{query,key,value}
    2  change-true-div-to-mul-by-inverse  attention.div
    3  fuse-batch-norm-2d-in-conv-2d      stem.{conv,norm}
    4  fuse-batch-norm-1d-in-linear       head.{hidden,norm}
    5  fuse-bias-in-linear                attention.{query,key,value}
   aten.batch_norm.default        2 -> 0
   aten.constant_pad_nd.default   0 -> 1
   aten.div.Tensor                1 -> 0
   aten.linear.default            8 -> 6
   aten.mul.Tensor                0 -> 1
   aten.slice.Tensor              0 -> 3
   all operators                 33 -> 33

2. The results are the same
   error against fp64: E before, E after; outputs are up to 0.6

3. Take back step 1, the first of all; the others stay
   step 5 was built on it: done again as 6, 7, 8
    2  change-true-div-to-mul-by-inverse  attention.div
    3  fuse-batch-norm-2d-in-conv-2d      stem.{conv,norm}
    4  fuse-batch-norm-1d-in-linear       head.{hidden,norm}
    6  fuse-bias-in-linear                attention.query
    7  fuse-bias-in-linear                attention.key
    8  fuse-bias-in-linear                attention.value
   error against fp64: E

4. Take back the rest
   6 steps reversed, 0 left
   graph, names, order:  identical
   tensors:              29 of 29 the same, bit for bit
   output:               identical, bit for bit
)");
  // The errors are those of fp32.
  const std::string& out = result.out;
  for (std::sregex_iterator it(out.begin(), out.end(), error_size), end; it != end; ++it) {
    EXPECT_LT(std::stod(it->str()), 2e-6);
    EXPECT_GT(std::stod(it->str()), 0);
  }
}

TEST_F(Program, HelpListsTheCommands) {
  const Result help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(help.out, run("-h").out);
  EXPECT_EQ(help.out, R"(Reversible rewrites of PyTorch graphs.
Usage: refx [OPTIONS] [COMMAND]

Options:
  --version               Print the version and exit
  -h,--help               Print this help and exit

Commands:
  list                    List the transformations
  explain                 Say what a transformation does, or what a refusal means
  inspect                 Show what is in a model and what could be done to it
  log                     List the steps of a model, oldest first
  diff                    Show how two models differ, or a model and its original
  apply                   Apply transformations and write the result
  reverse                 Take steps back and write the result
  detach                  Take the originals out of a file; `reverse --base` brings them back
  forget                  Drop the history and the originals that it keeps
  run                     Run a model and show what comes out
  verify                  Compare what a model computes with what its original did
  sensitivity             Show which layers lossy rewrites hurt, and how much
  bench                   Measure a model against its original, or against another file
  tune                    Find the rewrites that pay on this machine and these inputs
  bisect                  Find the steps that make a check fail
  check                   Try rules on random models, against fp64, and take them back
  report                  Write a page that shows a model, its steps and what they do
  demo                    Rewrite a small model, and take it back step by step
  completion              Print a completion script for a shell
  man                     Print the manual page

Examples:
  refx inspect model.pt2                            what is in it, and what could be done
  refx apply   model.pt2 merge-linears -o fast.pt2  rewrite it
  refx log     fast.pt2                             the steps
  refx verify  fast.pt2                             whether it still computes the same
  refx reverse fast.pt2 --all -o model.pt2          take them back
  refx demo                                         all of it on a model made up for it

Exit codes: 0 done; 1 the answer is no; 2 wrong usage or bad input; 3 a fault of refx;
130 interrupted
)");
}

TEST_F(Program, HelpOfACommandTeachesByExamples) {
  EXPECT_EQ(run("apply --help").out, R"(Apply transformations and write the result
Usage: refx apply [OPTIONS] MODEL TRANSFORMATION...

Arguments:
  MODEL                   A .pt2 file
  TRANSFORMATION          Names from `refx list`, applied in this order; or `all`

Options:
  -h,--help               Print this help and exit
  -q,--quiet              No messages but errors
  -o,--output OUT         The file to write; it may be MODEL
  --site PATTERN          Only sites whose name, module, tensor or node matches (* and ?); repeatable
  --except PATTERN        Leave these alone: patterns as of --site; repeatable
  --dry-run               Say what would be done; write nothing
  --rules FILE            Rules of your own, see docs/rules.md; repeatable
  --json                  Print JSON

Examples:
  refx apply model.pt2 merge-linears -o fast.pt2
  refx apply model.pt2 all --except 'head.*' -o fast.pt2
  refx apply model.pt2 fuse-bias-in-linear --site 'encoder.0.*' --dry-run
)");
  for (const char* command :
       {"list", "explain", "man", "inspect", "log", "diff", "apply", "reverse", "detach", "forget",
        "run", "verify", "demo", "completion"}) {
    const Result help = run(fmt::format("{} --help", command));
    EXPECT_EQ(help.code, 0) << command;
    const auto examples = help.out.find("\nExamples:\n");
    ASSERT_NE(examples, help.out.npos) << help.out;
    EXPECT_NE(help.out.find(fmt::format("refx {}", command), examples), help.out.npos) << help.out;
  }
}

TEST_F(Program, ExplainsTransformationsAndRefusals) {
  const Result said = run("explain merge-linears");
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out, refx::explain("merge-linears"));
  EXPECT_EQ(run("explain 'is used in more than one place'").out,
            refx::explain("is used in more than one place"));
  expect_error("explain merge-linear",
               "'merge-linear' is neither a transformation nor a reason that refx gives; did you "
               "mean 'merge-linears'?");
}

TEST_F(Program, ARuleOfYourOwnReplacesAShippedOne) {
  const auto rule = [](const char* name) {
    return fmt::format(
        "rule {}  \"mine\"\nbefore(x):\n    return aten.abs(x)\nafter:\n    return x\n", name);
  };
  std::ofstream(folder_ / "work" / "own.refx") << rule("silu-written-out");
  std::ofstream(folder_ / "work" / "again.refx") << rule("silu-written-out");
  std::ofstream(folder_ / "work" / "layers.refx") << rule("merge-linears");
  const std::string shipped = run("list").out;
  const std::string listed = run("list --rules own.refx").out;
  EXPECT_EQ(std::count(listed.begin(), listed.end(), '\n'),
            std::count(shipped.begin(), shipped.end(), '\n'));
  EXPECT_TRUE(std::regex_search(listed, std::regex("\nsilu-written-out +yes +yes +yes +mine\n")));
  expect_error("list --rules own.refx --rules again.refx",
               "again.refx: another rule is called 'silu-written-out', too");
  expect_error("list --rules layers.refx",
               "a transformation 'merge-linears' is already registered");
}

TEST_F(Program, TheManualPageHasTheHelpOfEveryCommand) {
  const Result page = run("man");
  EXPECT_EQ(page.code, 0);
  EXPECT_TRUE(page.out.starts_with(".TH REFX 1 ")) << page.out;
  const std::string unescaped = std::regex_replace(page.out, std::regex(R"(\\-)"), "-");
  EXPECT_NE(unescaped.find(run("--help").out), page.out.npos);
  for (const char* command : {"apply", "tune", "man"})
    EXPECT_NE(unescaped.find(run(fmt::format("{} --help", command)).out), page.out.npos) << command;
}

TEST_F(Program, PrintsItsVersion) {
  const Result version = run("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_TRUE(std::regex_match(version.out,
                               std::regex(R"(refx \d+\.\d+\.\d+ \(LibTorch \d+\.\d+\..*\)\n)")))
      << version.out;
}

TEST_F(Program, WrongUsageGetsTheNearestNameAndExitCode2) {
  const std::map<std::string, std::string> cases = {
      {"lst", "unknown command 'lst'; did you mean 'list'?"},
      {"aply m.pt2", "unknown command 'aply'; did you mean 'apply'?"},
      {"frobnicate", "unknown command 'frobnicate'; see `refx --help`"},
      {"--versoin", "unknown option '--versoin'; did you mean '--version'?"},
      {"list --jsn", "unknown option '--jsn'; did you mean '--json'?"},
      {"list --frobnicate", "unknown option '--frobnicate'; see `refx list --help`"},
      {"apply --sit", "unknown option '--sit'; did you mean '--site'?"},
      {"demo model.pt2", "'demo' takes no 'model.pt2'; see `refx demo --help`"},
      {"inspect", "'inspect' needs MODEL; see `refx inspect --help`"},
      {"log a.pt2 b.pt2", "'log' takes no 'b.pt2'; see `refx log --help`"},
      {"diff a b c", "'diff' takes no 'c'; see `refx diff --help`"},
      {"apply m.pt2", "'apply' needs TRANSFORMATION; see `refx apply --help`"},
      {"apply m.pt2 all -o", "--output needs a value; see `refx apply --help`"},
      {"apply m.pt2 merge-linear -o x.pt2",
       "there is no transformation 'merge-linear'; did you mean 'merge-linears'?"},
      {"apply m.pt2 all",
       "'apply' writes a file: say which with -o OUT.pt2 (-o m.pt2 replaces the model)"},
      {"forget 'my model.pt2'",
       "'forget' writes a file: say which with -o OUT.pt2 (-o 'my model.pt2' replaces the model)"},
      {"reverse m.pt2 1",
       "'reverse' writes a file: say which with -o OUT.pt2 (-o m.pt2 replaces the model)"},
      {"reverse m.pt2 -o x.pt2",
       "say what to reverse: steps, transformations, site patterns or --all; see `refx reverse "
       "--help`"},
      {"reverse m.pt2 3 --all -o x.pt2",
       "--all leaves nothing to choose: drop it, or '3'; see `refx reverse --help`"},
      {"reverse m.pt2 --all --refuse --cascade -o x.pt2",
       "--refuse excludes --cascade; see `refx reverse --help`"},
      {"verify m.pt2 --budget abc", "--budget: needs a number above 0; see `refx verify --help`"},
      {"verify m.pt2 --tolerance -1",
       "--tolerance: needs a number, 0 or above; see `refx verify --help`"},
      {"completion basj", "no completion for 'basj'; did you mean 'bash'?"},
      {"completion", "'completion' needs SHELL; see `refx completion --help`"},
  };
  for (const auto& [arguments, message] : cases) expect_error(arguments, message);
}

TEST_F(Program, NoCommandShowsTheHelpAsAMessage) {
  const Result result = run("");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.out, "");
  EXPECT_EQ(result.err, run("--help").out);
}

TEST_F(Program, SaysWhenItCannotWrite) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP();
  // All at the end, and more than is kept until then.
  EXPECT_EQ(shell("\"$refx\" --version >/dev/full").code, 2);
  EXPECT_EQ(shell("\"$refx\" list >/dev/full").code, 2);
}

TEST_F(Program, EndsQuietlyWhenNobodyReadsOn) {
  // With the signal ignored, as some parents leave it, writing would fail instead.
  const Result result = shell("trap '' PIPE; for i in 1 2 3; do \"$refx\" list | true; done");
  EXPECT_EQ(result.err, "");
}

TEST_F(Program, ColoursOnlyATerminalThatWantsThem) {
  EXPECT_NE(on_terminal("list").find("\033["), std::string::npos);
  EXPECT_EQ(on_terminal("list", "export NO_COLOR=1;").find("\033["), std::string::npos);
  EXPECT_EQ(shell("unset NO_COLOR; \"$refx\" list").out.find('\033'), std::string::npos);
}

}  // namespace
}  // namespace refx::testing

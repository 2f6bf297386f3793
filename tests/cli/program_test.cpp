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

3. Undo step 1, the oldest; the others remain
   step 5 depended on it: applied again as 6, 7, 8
    2  change-true-div-to-mul-by-inverse  attention.div
    3  fuse-batch-norm-2d-in-conv-2d      stem.{conv,norm}
    4  fuse-batch-norm-1d-in-linear       head.{hidden,norm}
    6  fuse-bias-in-linear                attention.query
    7  fuse-bias-in-linear                attention.key
    8  fuse-bias-in-linear                attention.value
   error against fp64: E

4. Undo the rest
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

// tests/goldens has what the program printed when somebody last ran and read `make goldens`.
TEST_F(Program, HelpIsAsInTheGoldens) {
  const Result help = run("--help");
  EXPECT_EQ(help.code, 0);
  EXPECT_EQ(help.err, "");
  EXPECT_EQ(help.out, run("-h").out);
  EXPECT_EQ(help.out, golden("help/refx.txt"));
  const std::vector<std::string> all = commands();
  EXPECT_GE(all.size(), 20u);
  for (const std::string& command : all) {
    const Result own = run(command + " --help");
    EXPECT_EQ(own.code, 0) << command;
    EXPECT_EQ(own.out, golden("help/" + command + ".txt"));
    const auto examples = own.out.find("\nExamples:\n");
    ASSERT_NE(examples, own.out.npos) << own.out;
    EXPECT_EQ(own.out.find("\n\n\n"), own.out.npos) << own.out;
    EXPECT_NE(own.out.find("refx " + command, examples), own.out.npos) << own.out;
  }
}

TEST_F(Program, ListIsAsInTheGoldens) {
  if (std::getenv("REFX_ONE_MORE"))
    GTEST_SKIP() << "the goldens lack the additional transformation";
  EXPECT_EQ(run("list").out, golden("list.txt"));
}

TEST_F(Program, ExplainsTransformationsAndRefusals) {
  const Result said = run("explain merge-linears");
  EXPECT_EQ(said.code, 0);
  EXPECT_EQ(said.out, refx::explain("merge-linears"));
  EXPECT_EQ(run("explain silu-written-out").out, refx::explain("fuse-silu"));
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
  std::ofstream(folder_ / "work" / "own.refx") << rule("fuse-silu");
  std::ofstream(folder_ / "work" / "again.refx") << rule("fuse-silu");
  std::ofstream(folder_ / "work" / "layers.refx") << rule("merge-linears");
  const std::string shipped = run("list").out;
  const std::string listed = run("list --rules own.refx").out;
  EXPECT_EQ(std::count(listed.begin(), listed.end(), '\n'),
            std::count(shipped.begin(), shipped.end(), '\n'));
  EXPECT_TRUE(std::regex_search(listed, std::regex("\nfuse-silu +yes +yes +yes +mine\n")));
  expect_error("list --rules own.refx --rules again.refx",
               "again.refx: another rule is also called 'fuse-silu'");
  expect_error("list --rules layers.refx",
               "a transformation 'merge-linears' is already registered");
}

TEST_F(Program, TheManualPageHasTheHelpOfEveryCommand) {
  const Result page = run("man");
  EXPECT_EQ(page.code, 0);
  const std::regex version(R"re(^(\.TH REFX 1 "" "refx) [^"]*")re");
  EXPECT_EQ(std::regex_replace(page.out, version, "$1\""), golden("refx.1"));
  const std::string unescaped = std::regex_replace(page.out, std::regex(R"(\\-)"), "-");
  EXPECT_NE(unescaped.find(run("--help").out), page.out.npos);
  for (const std::string& command : commands())
    EXPECT_NE(unescaped.find(run(command + " --help").out), page.out.npos) << command;
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
      {"demo model.pt2", "'demo' does not take 'model.pt2'; see `refx demo --help`"},
      {"inspect", "'inspect' needs MODEL; see `refx inspect --help`"},
      {"log a.pt2 b.pt2", "'log' does not take 'b.pt2'; see `refx log --help`"},
      {"diff a b c", "'diff' does not take 'c'; see `refx diff --help`"},
      {"apply m.pt2", "'apply' needs TRANSFORMATION; see `refx apply --help`"},
      {"apply m.pt2 all -o", "--output needs a value; see `refx apply --help`"},
      {"apply m.pt2 merge-linear -o x.pt2",
       "there is no transformation 'merge-linear'; did you mean 'merge-linears'?"},
      {"apply m.pt2 all", "'apply' needs an output file: -o OUT.pt2 (-o m.pt2 replaces the model)"},
      {"forget 'my model.pt2'",
       "'forget' needs an output file: -o OUT.pt2 (-o 'my model.pt2' replaces the model)"},
      {"reverse m.pt2 1",
       "'reverse' needs an output file: -o OUT.pt2 (-o m.pt2 replaces the model)"},
      {"reverse m.pt2 -o x.pt2",
       "'reverse' needs step numbers, transformations, site patterns or --all; see `refx reverse "
       "--help`"},
      {"reverse m.pt2 3 --all -o x.pt2",
       "--all already selects every step: remove it or '3'; see `refx reverse --help`"},
      {"reverse m.pt2 --all --refuse --cascade -o x.pt2",
       "give either --refuse or --cascade; see `refx reverse --help`"},
      {"verify m.pt2 --budget abc",
       "--budget takes a number greater than 0, not 'abc'; see `refx verify --help`"},
      {"verify m.pt2 --tolerance -1",
       "--tolerance takes a number of 0 or more, not -1; see `refx verify --help`"},
      {"verify m.pt2 --seed 1 --seed 2", "--seed can be given only once; see `refx verify --help`"},
      {"verify m.pt2 --seed 1.5", "--seed does not take '1.5'; see `refx verify --help`"},
      {"verify m.pt2 --sort size",
       "--sort takes step or error, not 'size'; see `refx verify --help`"},
      {"bench m.pt2 --threads 2000",
       "--threads takes a number from 0 to 1024, not 2000; see `refx bench --help`"},
      {"bench m.pt2 --threads few",
       "--threads takes a number from 0 to 1024, not 'few'; see `refx bench --help`"},
      {"tune m.pt2 --prefer foo",
       "--prefer takes speed or size, not 'foo'; see `refx tune --help`"},
      {"tune m.pt2 --accept-min abc",
       "--accept-min takes a number, not 'abc'; see `refx tune --help`"},
      {"bisect m.pt2 --tolerance 1 --run true",
       "give either --tolerance or --run; see `refx bisect --help`"},
      // Former names, which the help does not show.
      {"apply m.pt2 all --except", "--except needs a value; see `refx apply --help`"},
      {"tune m.pt2 --budget-run", "--budget-run needs a value; see `refx tune --help`"},
      {"tune m.pt2 --at-least abc", "--at-least takes a number, not 'abc'; see `refx tune --help`"},
      {"tune m.pt2 --budget-run true --accept false",
       "give either --accept or --budget-run; see `refx tune --help`"},
      {"tune m.pt2 --at-least 1 --accept-min 2",
       "give either --accept-min or --at-least; see `refx tune --help`"},
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

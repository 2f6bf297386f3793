// SPDX-License-Identifier: Apache-2.0

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <fstream>
#include <set>

#include "cli/program.h"
#include "refx/registry.h"

namespace refx::testing {
namespace {

class Completion : public Program {
 protected:
  // What bash offers for the last of these words.
  std::string offered(const std::string& words) const {
    return shell(fmt::format(R"(source <("$refx" completion bash)
COMP_WORDS=({})
COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_refx
printf '%s\n' "${{COMPREPLY[@]}}" | LC_ALL=C sort)",
                             words))
        .out;
  }
};

TEST_F(Completion, OffersCommands) {
  EXPECT_EQ(offered("refx rev"), "reverse\n");
  EXPECT_EQ(offered("refx --v"), "--version\n");
}

TEST_F(Completion, OffersWhatIsInTheGoldens) {
  std::string all = "refx \n" + offered("refx ''");
  for (const std::string& command : commands())
    all += fmt::format("\nrefx {0} m.pt2 -\n{1}", command, offered("refx " + command + " m.pt2 -"));
  EXPECT_EQ(all, golden("completion.txt"));
}

TEST_F(Completion, OffersTheOptionsOfTheCommand) {
  EXPECT_EQ(offered("refx list --j"), "--json\n");
  EXPECT_EQ(offered("refx completion ''"), "bash\nfish\nzsh\n");
  EXPECT_EQ(offered("refx apply m.pt2 --exc"), "--exclude\n");  // not its former name
}

TEST_F(Completion, OffersTransformations) {
  std::set<std::string> names;
  for (const auto& t : registry())
    if (t->name().starts_with("fuse-b")) names.insert(t->name());
  EXPECT_EQ(offered("refx apply m.pt2 fuse-b"), fmt::format("{}\n", fmt::join(names, "\n")));
  EXPECT_EQ(offered("refx apply m.pt2 merge-linears al"), "all\n");
  EXPECT_EQ(offered("refx reverse m.pt2 al"), "\n");
}

TEST_F(Completion, OffersModelsAndFolders) {
  for (const char* name : {"model.pt2", "my model.pt2", "notes.txt"})
    std::ofstream(folder_ / "work" / name) << "";
  std::filesystem::create_directory(folder_ / "work" / "models");
  EXPECT_EQ(offered("refx inspect m"), "model.pt2\nmodels\nmy model.pt2\n");
  EXPECT_EQ(offered("refx apply m"), "model.pt2\nmodels\nmy model.pt2\n");
  EXPECT_EQ(offered("refx apply model.pt2 all -o my"), "my model.pt2\n");
  EXPECT_EQ(offered("refx apply model.pt2 all --site m"), "\n");
}

TEST_F(Completion, IsAScriptThatEachShellCanRead) {
  for (const char* name : {"bash", "zsh", "fish"}) {
    const Result script = run(fmt::format("completion {}", name));
    EXPECT_EQ(script.code, 0);
    for (const char* part : {"discard-changes", "merge-linears", "pt2"})
      EXPECT_NE(script.out.find(part), std::string::npos) << name << " lacks " << part;
    const Result read = shell(fmt::format(
        "if command -v {0} >/dev/null; then \"$refx\" completion {0} >script && {0} -n script; fi",
        name));
    EXPECT_EQ(read.code, 0) << name << ": " << read.err;
  }
}

}  // namespace
}  // namespace refx::testing

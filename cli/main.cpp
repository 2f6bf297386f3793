// The program: parses the command line, calls one command, maps errors to exit codes.
// Results go to stdout, messages to stderr. The only file that includes CLI11.

#include <fmt/format.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <functional>

#include "commands.h"
#include "refx/error.h"
#include "text/did_you_mean.h"

namespace {

using namespace refx::cli;

constexpr const char* kExamples = R"(Examples:
  refx list           the transformations
  refx list --json    the same for a program
  refx demo           rewrites a small model and takes it all back

Exit codes: 0 done; 1 the answer is no; 2 wrong usage or bad input; 3 a fault of refx)";

struct CommandLine {
  CLI::App app{"Reversible rewrites of PyTorch graphs.", "refx"};
  std::function<int()> command;

  CommandLine() {
    app.require_subcommand(0, 1);
    app.footer(kExamples);
    app.get_formatter()->column_width(22);
    app.set_version_flag("--version",
                         fmt::format("refx {} (LibTorch {})", REFX_VERSION, TORCH_VERSION),
                         "Print the version and exit");
    app.set_help_flag("-h,--help", "Print this help and exit");

    auto* list_app = add("list", "List the transformations", [this] { return list(list_options); });
    list_app->add_flag("--json", list_options.json, "Print a JSON array");
    add("demo", "Rewrite a small model, and take it back step by step", demo);
  }

 private:
  CLI::App* add(const char* name, const char* what, std::function<int()> run) {
    CLI::App* sub = app.add_subcommand(name, what);
    sub->footer("");
    sub->callback([this, run = std::move(run)] { command = run; });
    return sub;
  }

  ListOptions list_options;
};

// What the user typed that nothing takes, and the nearest thing that is there.
std::string unexpected(const CLI::App& app, const std::string& word) {
  const auto chosen = app.get_subcommands();
  const CLI::App& at = chosen.empty() ? app : *chosen.front();
  const bool option = word.starts_with('-');
  std::vector<std::string> known;
  for (const CLI::Option* o : at.get_options())
    for (const std::string& name : o->get_lnames()) known.push_back("--" + name);
  if (!option) {
    known.clear();
    if (chosen.empty())
      for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
        known.push_back(sub->get_name());
  }
  const std::string where = chosen.empty() ? "refx" : "refx " + at.get_name();
  const std::string what = option ? fmt::format("unknown option '{}'", word)
                           : chosen.empty()
                               ? fmt::format("unknown command '{}'", word)
                               : fmt::format("'{}' takes no '{}'", at.get_name(), word);
  const std::string nearest = refx::did_you_mean(word, known);
  return what + (nearest.empty() ? fmt::format("; see `{} --help`", where) : nearest);
}

int usage_error(const std::string& message) {
  fmt::print(stderr, "refx: {}\n", message);
  return kUsage;
}

int parse_and_run(CommandLine& line, int argc, char** argv) {
  try {
    line.app.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    return line.app.exit(help_or_version);
  } catch (const CLI::ExtrasError&) {
    return usage_error(unexpected(line.app, line.app.remaining(true).front()));
  } catch (const CLI::ParseError& error) {
    return usage_error(error.what());
  }
  if (!line.command) {
    fmt::print(stderr, "{}", line.app.help());
    return kUsage;
  }
  return line.command();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    CommandLine line;
    const int code = parse_and_run(line, argc, argv);
    if (std::fflush(stdout) != 0) throw refx::Error("cannot write the output");
    return code;
  } catch (const refx::InternalError& error) {
    fmt::print(stderr, "refx: internal error: {}\nThis is a bug in refx; please report it.\n",
               error.what());
    return kBug;
  } catch (const std::exception& error) {
    return usage_error(error.what());
  }
}

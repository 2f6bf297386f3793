// SPDX-License-Identifier: Apache-2.0

// Damaged text gives an Error or a model that prints and parses again: nothing else, ever.

#include <gtest/gtest.h>

#include <random>

#include "refx/error.h"
#include "refx/text.h"

namespace refx {
namespace {

constexpr std::string_view kWhole = R"~(parameter q.weight : f32[8, 4] requires_grad=True
parameter k.weight : f32[4, 4] strides=(1, 4) shares=q.weight offset=16
buffer n : i64[] persistent=False storage=64
constant "odd name" : bf16[0, 3] device=meta
constant sparse : f32[3, 3] layout=sparse_coo
module bn : torch.nn.BatchNorm2d(num_features=8, eps=1e-05, affine=True) training=True custom="hook"
mutates n = output 0
graph():
    %p : f32[8, 4] [num_users=1] = placeholder[target=p](state=q.weight)
    %x : f32[s0{2}, 2*s0{4}] strides=(1, s0{2}) device=cuda:0 [num_users=3] = placeholder[target=x](default=None)
    %n : [num_users=1] = get_attr[target=n]
    %linear : [num_users=1] = call_function[target=aten.linear.default](args = (%x, %p), kwargs = {})  # meta {stack: "a\n"} marks ["m()"]
    %bn : [num_users=2] = call_module[target=bn](args = (%linear,), kwargs = {a: -1.5e-07, b: [1, (2,), {"k": %x}]})
    %f : [num_users=1] = call_method[target=to](args = (%bn, torch.float16, torch.channels_last, device(type='cuda', index=0), slice(None, 3, ...), sym(2*s0), raw("\xff\\"), complex(1.0, nan)), kwargs = {})
    return (n, bn, {"x": f, 7: x})
)~";

constexpr std::string_view kSpice = "\n\t \"'\\%#()[]{}:,=.-+0123456789eE_aAxzé\0\xff";

using Random = std::mt19937;

std::size_t below(Random& random, std::size_t limit) { return random() % limit; }

void damage(std::string& text, Random& random) {
  if (text.empty()) return;
  const std::size_t at = below(random, text.size());
  const std::size_t length = below(random, 12);
  switch (below(random, 6)) {
    case 0:
      text[at] = kSpice[below(random, kSpice.size())];
      break;
    case 1:
      text.insert(at, 1, kSpice[below(random, kSpice.size())]);
      break;
    case 2:
      text.erase(at, length);
      break;
    case 3:
      text.insert(at, text.substr(below(random, text.size()), length));
      break;
    case 4:
      text.resize(at);
      break;
    default:
      text[at] = static_cast<char>(random());
      break;
  }
}

// Swaps two lines now and then: a name defined too late, a heading in the graph.
void shuffle_lines(std::string& text, Random& random) {
  const std::size_t a = text.find('\n', below(random, text.size()));
  if (a == std::string::npos) return;
  const std::size_t b = text.find('\n', a + 1);
  if (b == std::string::npos) return;
  const std::string line = text.substr(a, b - a);
  text.erase(a, b - a);
  const std::size_t to = text.find('\n', below(random, text.size()));
  text.insert(to == std::string::npos ? text.size() : to, line);
}

TEST(TextDamage, TheWholeTextIsFine) { EXPECT_EQ(print(parse(kWhole)), kWhole); }

TEST(TextDamage, GivesAnErrorOrAModel) {
  Random random(7);
  int models = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string text(kWhole);
    if (below(random, 4) == 0) shuffle_lines(text, random);
    for (std::size_t n = below(random, 3) + 1; n > 0; --n) damage(text, random);
    try {
      const std::string printed = print(parse(text));
      EXPECT_EQ(print(parse(printed)), printed) << text;
      ++models;
    } catch (const Error& error) {
      EXPECT_EQ(std::string_view(error.what()).substr(0, 5), "line ") << error.what() << '\n'
                                                                      << text;
    } catch (const std::exception& error) {
      FAIL() << error.what() << '\n' << text;
    }
  }
  EXPECT_GT(models, 100);
}

TEST(TextDamage, GivesAnErrorForEveryBeginning) {
  for (std::size_t length = 0; length + 1 < kWhole.size(); ++length)
    EXPECT_THROW(parse(kWhole.substr(0, length)), Error) << length;
}

}  // namespace
}  // namespace refx

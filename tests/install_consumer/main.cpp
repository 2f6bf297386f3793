// SPDX-License-Identifier: Apache-2.0

// A project outside refx: the installed headers and library are all it sees.
#include <ATen/ops/ones.h>
#include <refx/refx.h>

#include <iostream>

int main() {
  refx::Builder b;
  const refx::NodeId x = b.input("x");
  refx::Model model = b.build(b.call("aten.div.Tensor", {x, 3.0}));
  const std::string original = refx::print(model);

  refx::compose(refx::MergeLinears(), refx::ChangeTrueDivToMulByInverse())(model);
  for (const refx::Step& step : model.history()) std::cout << step << '\n';
  if (model.history().size() != 1) return 1;
  if (model.forward({at::ones({2})}).toTensor().numel() != 2) return 1;

  refx::reverse_all(model);
  return refx::print(model) == original ? 0 : 1;
}

// SPDX-License-Identifier: Apache-2.0

// Rules: a text is parsed or refused, and parsed rules can be searched for, applied and undone.

#include "refx/rule.h"

#include "refx/text.h"
#include "refx/validate.h"
#include "target.h"

namespace refx::fuzz {

namespace {

// A model with sites of most of the rules that ship with refx.
const Model& small_model() {
  static const Model model = parse(R"(
parameter w : f32[4, 4]
parameter b : f32[4]
graph():
    %p_w : f32[4, 4] = placeholder[target=p_w](state=w)
    %p_b : f32[4] = placeholder[target=p_b](state=b)
    %x : f32[2, 4, 4] = placeholder[target=x]
    %t : f32[4, 4] strides=(1, 4) = call_function[target=aten.t.default](args = (%p_w,))
    %m : f32[2, 4, 4] = call_function[target=aten.matmul.default](args = (%x, %t))
    %l : f32[2, 4, 4] = call_function[target=aten.add.Tensor](args = (%m, %p_b))
    %s : f32[2, 4, 4] = call_function[target=aten.sigmoid.default](args = (%l,))
    %h : f32[2, 4, 4] = call_function[target=aten.mul.Tensor](args = (%l, %s))
    %k : f32[2, 4, 4] strides=(16, 1, 4) = call_function[target=aten.transpose.int](args = (%h, -2, -1))
    %q : f32[2, 4, 4] = call_function[target=aten.matmul.default](args = (%h, %k))
    %d : f32[2, 4, 4] = call_function[target=aten.div.Tensor](args = (%q, 2.0))
    %p : f32[2, 4, 4] = call_function[target=aten.softmax.int](args = (%d, -1))
    %a : f32[2, 4, 4] = call_function[target=aten.matmul.default](args = (%p, %h))
    %n : f32[2, 4, 4] = call_function[target=aten.relu.default](args = (%a,))
    %y : f32[2, 4, 4] = call_function[target=aten.relu.default](args = (%n,))
    return y
)");
  return model;
}

}  // namespace

void run_rule(std::string_view bytes) {
  const std::string before = print(small_model());
  for (const Rule& rule : parse_rules(bytes)) {
    Model model = small_model();
    rule(model);
    validate(model);
    rule(model, Reverse::yes);
    REFX_EXPECT(print(model) == before, "a rule that is reversed leaves something behind");
  }
}

}  // namespace refx::fuzz

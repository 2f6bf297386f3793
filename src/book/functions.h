#pragma once

#include <string>
#include <string_view>

#include "book/notation.h"

namespace refx::book {

// A function of torch.nn.functional that takes other arguments than aten's operator of that name.
struct Function {
  std::string op;  // aten's name for what it does
  Signature signature;
  Operation operation;
};
// By its name in torch.nn.functional; null where its arguments are the operator's, or it is not
// known.
const Function* find_function(std::string_view name);

}  // namespace refx::book

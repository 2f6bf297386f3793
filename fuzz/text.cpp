// SPDX-License-Identifier: Apache-2.0

// The text form: a parsed text prints as the same text, and every transformation accepts the model.

#include "refx/text.h"

#include "refx/registry.h"
#include "target.h"

namespace refx::fuzz {

void run_text(std::string_view bytes) {
  const Model model = parse(bytes);
  const std::string once = print(model);
  REFX_EXPECT(print(parse(once)) == once, "a printed model is read as another one");
  print_brief(model);
  for (const auto& transformation : registry()) transformation->find(model);
}

}  // namespace refx::fuzz

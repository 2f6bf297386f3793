#pragma once

#include "edit/plan.h"
#include "refx/reverse.h"

namespace refx {

// As reverse(), but what is reversed cannot be redone: the model keeps nothing of it.
Reversal reverse_for_good(Model& model, const Plan& plan, ReverseOptions options);

}  // namespace refx

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lab/tune/session.h"

namespace refx {

// Chooses the trials to apply from what was measured, and proves the choice on the whole model.
// `start` is the model to rewrite, `form` the same where it is measured. Sets Tuning::changed and
// the result if the model gets better; otherwise the result stays as it is.
void decide(TuneSession& session, const Model& start, const Model& form, Model& result);

}  // namespace refx

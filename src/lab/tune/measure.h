// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lab/tune/ranks.h"
#include "lab/tune/session.h"

namespace refx {

// Makes the trials of all classes, with the other processes if there are `ranks`. Returns false in
// a process in which nothing is to be decided, because another one decides.
bool measure_classes(TuneSession& session, Ranks* ranks);

}  // namespace refx

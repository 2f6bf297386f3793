// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pt2/history_json.h"
#include "pt2/history_tensors.h"
#include "pt2/source.h"
#include "refx/model.h"
#include "refx/pt2.h"

namespace refx {

// Reads the steps of a history and applies them to `model`, which contains the original. Every name
// and id is checked here or by the Restorer before it is used.
void read_steps(HistoryJson& json, HistoryTensors& tensors, const Pt2Source& source, Model& model);

// The line about a step in the log.
StepLabel read_step_label(const dom::element& item);

}  // namespace refx

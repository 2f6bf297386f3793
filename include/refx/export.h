// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the library shows. Everything else in it is hidden, so that it can change.
#define REFX_API __attribute__((visibility("default")))

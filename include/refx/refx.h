#pragma once

#include "refx/builder.h"
#include "refx/compose.h"
#include "refx/editor.h"
#include "refx/error.h"
#include "refx/executor.h"
#include "refx/from_module.h"
#include "refx/model.h"
#include "refx/registry.h"
#include "refx/reverse.h"
#include "refx/text.h"
#include "refx/transforms.h"
#include "refx/validate.h"

# SPDX-License-Identifier: Apache-2.0

import os
import sys

import torch

import models

torch.set_num_threads(1)
for name in sys.argv[2:]:
    models.export(name, os.path.join(sys.argv[1], name + ".pt2"))

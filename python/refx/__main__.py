# SPDX-License-Identifier: Apache-2.0
"""``python -m refx`` is the program ``refx``."""

from refx_program import main

main()

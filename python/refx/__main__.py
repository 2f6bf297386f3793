"""``python -m refx`` is the program ``refx``."""

from refx_program import main

main()

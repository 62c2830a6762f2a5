"""``python -m sglrun``."""

from sglrun.cli import main

main()

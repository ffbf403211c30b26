"""``python -m outvote`` is ``outvote``."""

from outvote.cli import main

main()

"""``python -m outvote`` is ``outvote``."""

from outvote.cli.commands import main

main()

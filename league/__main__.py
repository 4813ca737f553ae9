"""`python -m league` is the command `league`."""

from league.commands.app import main

main()

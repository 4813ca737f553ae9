"""Run the command `league` as `python -m league`."""

from league.commands.app import main

main()

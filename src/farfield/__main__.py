"""The command line by `python -m farfield`."""

from farfield.cli import main

main()

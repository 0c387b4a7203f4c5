"""`python -m muster` is the same program as the command `muster`."""

from muster.cli.main import main

if __name__ == "__main__":
    main()

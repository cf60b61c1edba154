"""The command line, for ``python -m ssnt``."""

from ssnt.cli import main

if __name__ == "__main__":
    main()

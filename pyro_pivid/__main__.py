"""``python -m pyro_pivid`` is the command ``pivid``."""

import sys

from pyro_pivid.cli import main

if __name__ == "__main__":
    sys.exit(main())

"""``python -m paddock`` is the ``paddock`` command. Nothing but the command line starts here."""

import sys

from paddock.cli import main

if __name__ == "__main__":
    sys.exit(main())

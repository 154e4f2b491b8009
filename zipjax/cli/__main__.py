"""`python -m zipjax.cli`, for where the command is not on the path."""

import sys

from zipjax.cli.main import main

if __name__ == "__main__":
    sys.exit(main())

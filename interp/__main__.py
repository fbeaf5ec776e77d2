"""`python -m interp`."""

import sys

from interp.cli import main

sys.exit(main())

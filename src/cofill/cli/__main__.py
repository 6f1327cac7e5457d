"""python -m cofill.cli"""

import sys

from cofill.cli import main

sys.exit(main())

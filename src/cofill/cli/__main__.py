"""python -m cofill.cli"""

from cofill.cli import main

main()

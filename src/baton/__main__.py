"""`python -m baton` and the console script."""

import os
import sys

if __name__ == "__main__" and not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
    del sys.path[0]  # put there by `python -m`: a torch.py in the working folder is not to be taken for torch

from baton.cli import main

if __name__ == "__main__":
    main()

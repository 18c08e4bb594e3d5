"""`python -m baton` and the console script."""

from baton.cli import main

if __name__ == "__main__":
    main()

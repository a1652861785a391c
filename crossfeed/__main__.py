"""`python -m crossfeed`: the command line where its script is not on the path."""

from crossfeed.cli import main

if __name__ == "__main__":
    main()

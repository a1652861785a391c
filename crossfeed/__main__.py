"""The process that `crossfeed` and `python -m crossfeed` start."""

from crossfeed.cli import main
from crossfeed.cli.common import quick_end
from crossfeed.processes import begin_own_command


def run() -> None:
    """The command line as a process of its own, which ends with it."""
    begin_own_command()
    with quick_end():
        main()


if __name__ == "__main__":
    run()

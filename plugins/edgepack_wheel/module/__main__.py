"""The bundle's program in the place of this one: ``python -m`` of this package, and the command of its name."""

import os
import sys

from ._backend import program


def main() -> None:
    command = program()
    try:
        os.execv(command, [command, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"error: {command} does not start: {error.strerror}")


if __name__ == "__main__":
    main()

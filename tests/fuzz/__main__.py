"""``python -m tests.fuzz SECONDS [NAME …]``: all that reads what strangers wrote, or some of it, so many seconds for each parser, with another seed each time."""

import sys
import tempfile
import time
from pathlib import Path

from tests.fuzz import answers, further_models, models, native, outputs, pickles, plans, readers

ALL = {
    module.__name__.rpartition(".")[2]: module
    for module in (native, outputs, plans, answers, readers, models, pickles, further_models)
}


def main(seconds: str, *names: str) -> None:
    seed = int(time.time())
    for name in names or ALL:
        with tempfile.TemporaryDirectory() as folder:
            for said, run in ALL[name].campaigns(Path(folder)):
                runs = run(float(seconds), seed)
                print(f"{name}: {said}: {runs:,} inputs, seed {seed}: nothing found", flush=True)  # noqa: T201


main(*sys.argv[1:])

"""Processes of the command that begin with their modules imported: importing is most of what a refusal takes.

One process imports, runs nothing itself, and forks for each command. What it forks gets the words, the environment, the folder
and the output of the command, and ends as its interpreter would.
"""

import atexit
import importlib
import json
import os
import runpy
import socket
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

MODULES = (
    "edgepack.cli",
    "edgepack.finished_bundle",
    "edgepack.models.fuse.fusion",
    "edgepack.models.inspection",
    "edgepack.pipeline",
    "edgepack.suitability.rows",
    "edgepack_engine.builder",
)
"""What commands import when they need it, with all that these import."""
LONGEST = 1 << 20
"""Bytes of an order."""


def serve(orders: socket.socket) -> None:
    """Carry out one order after the other, until nobody is there to give any."""
    from tests.support.kept import keep_answers
    from tests.support.resting_threads import let_threads_rest

    let_threads_rest()
    for name in MODULES:
        importlib.import_module(name)
    keep_answers()
    while order := orders.recv(LONGEST):
        child = os.fork()
        if child == 0:
            orders.close()
            _run(json.loads(order))
        _, status, used = os.wait4(child, 0)
        done = {"code": os.waitstatus_to_exitcode(status), "seconds": used.ru_utime + used.ru_stime}
        orders.send(json.dumps(done).encode())


def _run(order: dict[str, Any]) -> NoReturn:
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    for number, name in ((1, order["output"]), (2, order["messages"])):
        os.dup2(os.open(name, os.O_WRONLY | os.O_APPEND), number)
    sys.path[0] = order["folder"]
    sys.argv = ["edgepack", *order["words"]]
    code = 0
    try:
        runpy.run_module("edgepack", run_name="__main__", alter_sys=True)
    except SystemExit as leave:
        if not isinstance(leave.code, int | None):
            sys.stderr.write(f"{leave.code}\n")
            code = 1
        else:
            code = leave.code or 0
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code & 0xFF)


if __name__ == "__main__":
    # Not the folder of this file, whose modules have names of others'.
    sys.path[0] = str(Path(__file__).parents[2])
    serve(socket.socket(fileno=int(sys.argv[1])))

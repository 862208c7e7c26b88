"""Servers of several bundles beside each other: requests a second, processor time of a request, memory.

    .venv/bin/python benchmarks/servers.py NATIVE-BUNDLE FROZEN-BUNDLE      # the native one made with --set serve=true

Each server is asked by 16 clients on kept connections, one text a request, glosses of WordNet. The servers take turns; a ratio is the
median of those of the rounds, to the first bundle in the same round, so above 1 a server needs more. The clients run on the same
machine, and their time is in that by the clock, so the ratio of processor time is the one that compares.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from edgepack.bundles.manifest import open_bundle
from edgepack.console import Story
from edgepack.plugins.context import host_context
from edgepack.verifier.tasks.wordnet import retrieval_task

CLIENTS = 16
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(kw_only=True)
class Server:
    name: str
    pid: int
    port: int
    idle_mb: float
    rates: list[float] = field(default_factory=list)
    """Requests a second, a number a round."""
    costs: list[float] = field(default_factory=list)
    """Seconds of processor time a request, a number a round."""


def main() -> None:
    options = arguments()
    with host_context(story=Story(quiet=True)) as context:
        texts = retrieval_task(glosses=options.requests, words=1, context=context).glosses
    with running(options.bundles, options.threads) as servers:
        for turn in range(options.rounds + 1):
            for server in servers:
                rate, cost = measured(server, texts)
                if turn:  # one round warms
                    server.rates.append(rate)
                    server.costs.append(cost)
        Console(width=120).print(table(servers))


def arguments() -> argparse.Namespace:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("bundles", type=Path, nargs="+", help="with a server; the first is the measure")
    made.add_argument("--threads", type=int, default=2)
    made.add_argument("--requests", type=int, default=2000, help="of a round")
    made.add_argument("--rounds", type=int, default=5)
    return made.parse_args()


@contextmanager
def running(bundles: Sequence[Path], threads: int) -> Iterator[list[Server]]:
    processes, servers = [], []
    try:
        for path in bundles:
            bundle = open_bundle(path)
            command = [str(bundle.program), "serve", "--port=0", f"--threads={threads}"]
            process = subprocess.Popen(command, env={}, stderr=subprocess.PIPE, text=True)
            processes.append(process)
            assert process.stderr is not None
            line = process.stderr.readline()
            if "http" not in line:
                sys.exit(f"{path}: its program has no server: {line}")
            port = int(line.strip().rpartition(":")[2])
            name = bundle.manifest["name"]
            servers.append(Server(name=name, pid=process.pid, port=port, idle_mb=resident(process.pid)))
        yield servers
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def measured(server: Server, texts: Sequence[str]) -> tuple[float, float]:
    """Requests a second, and the server's seconds of processor time for each."""
    before, begin = cpu_of(server.pid), time.perf_counter()
    asyncio.run(ask_all(server.port, texts))
    wall, cpu = time.perf_counter() - begin, cpu_of(server.pid) - before
    return len(texts) / wall, cpu / len(texts)


async def ask_all(port: int, texts: Sequence[str]) -> None:
    left = iter(texts)

    async def client() -> None:
        connection = await asyncio.open_connection("127.0.0.1", port)
        for text in left:
            await ask(connection, text)
        connection[1].close()

    await asyncio.gather(*(client() for _ in range(CLIENTS)))


async def ask(connection: Connection, text: str) -> None:
    reader, writer = connection
    body = json.dumps({"input": text, "encoding_format": "base64"}).encode()
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    answer = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    await reader.readexactly(int(answer.partition("content-length:")[2].split()[0]))
    if " 200 " not in answer.partition("\r\n")[0]:
        sys.exit(answer)


def cpu_of(pid: int) -> float:
    """Seconds of processor time of all its threads so far: the clock that clock_getcpuclockid(3) names."""
    return time.clock_gettime((~pid << 3) | 2)


def resident(pid: int, what: str = "VmRSS:") -> float:
    """MB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition(what)[2].split()[0]) * 1024 / 1e6


def table(servers: Sequence[Server]) -> Table:
    made = Table("server", "requests/s", "CPU ms a request", "ratio", "by the clock", "idle MB", "peak MB")
    first = servers[0]
    for server in servers:
        ratio = statistics.median(map(float.__truediv__, server.costs, first.costs))
        wall = statistics.median(map(float.__truediv__, first.rates, server.rates))
        made.add_row(
            server.name,
            f"{statistics.median(server.rates):.0f}",
            f"{statistics.median(server.costs) * 1e3:.2f}",
            f"{ratio:.2f}",
            f"{wall:.2f}",
            f"{server.idle_mb:.1f}",
            f"{resident(server.pid, 'VmHWM:'):.1f}",
        )
    return made


if __name__ == "__main__":
    main()

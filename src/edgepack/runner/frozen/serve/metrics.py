"""What the server has done, in Prometheus' text format: https://prometheus.io/docs/instrumenting/exposition_formats/"""

from collections.abc import Iterator, Mapping, Sequence
from time import time

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
BATCH = (1, 2, 4, 8, 16, 32)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Histogram:
    """Counts by upper bound."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        self.sum += value
        self.counts[sum(value > bound for bound in self.bounds)] += 1

    def lines(self, name: str) -> Iterator[str]:
        total = 0
        for bound, count in zip([*self.bounds, "+Inf"], self.counts, strict=True):
            total += count
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self.sum:.6f}"
        yield f"{name}_count {total}"


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.started = time()
        self.requests: dict[tuple[str, int], int] = {}
        self.texts = self.tokens = 0
        self.seconds = Histogram(SECONDS)
        self.batches = Histogram(BATCH)

    def count(self, path: str, status: int) -> None:
        self.requests[path, status] = self.requests.get((path, status), 0) + 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """The whole page; ``gauges`` are name → (help, value)."""
        return "\n".join(self._lines(gauges)) + "\n"

    def _lines(self, gauges: Mapping[str, tuple[str, float]]) -> Iterator[str]:
        yield from heading("embed_requests_total", "counter", "Answers by path and status.")
        for (path, status), count in sorted(self.requests.items()):
            yield f'embed_requests_total{{path="{path}",status="{status}"}} {count}'
        yield from heading("embed_texts_total", "counter", "Texts embedded.")
        yield f"embed_texts_total {self.texts}"
        yield from heading("embed_tokens_total", "counter", "Tokens embedded.")
        yield f"embed_tokens_total {self.tokens}"
        yield from heading(
            "embed_request_seconds", "histogram", "Time from a read request for vectors to its answer."
        )
        yield from self.seconds.lines("embed_request_seconds")
        yield from heading("embed_batch_texts", "histogram", "Texts that went through the model together.")
        yield from self.batches.lines("embed_batch_texts")
        for name, (help, value) in gauges.items():
            yield from heading(name, "gauge", help)
            yield f"{name} {value:g}"
        yield from heading("process_start_time_seconds", "gauge", "Start of the program, Unix time.")
        yield f"process_start_time_seconds {self.started:.3f}"


def heading(name: str, kind: str, help: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"

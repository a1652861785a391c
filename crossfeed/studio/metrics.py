"""What the service counts, in the text format of Prometheus."""

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
SIZES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
LabelledValue = tuple[Mapping[str, str], float]


class Histogram:
    """Counts below fixed edges, with their sum."""

    def __init__(self, edges: tuple[float, ...]) -> None:
        self.edges, self.counts, self.total = edges, [0] * (len(edges) + 1), 0.0

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.edges, value)] += 1
        self.total += value


class Metrics:
    """Counters of this process; safe to use from the threads that compute."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, str]] = Counter()
        self._refused: Counter[str] = Counter()
        self._seconds: dict[str, Histogram] = {}
        self._batches = Histogram(SIZES)
        self._gauges: list[tuple[str, str, Callable[[], Iterable[LabelledValue]]]] = []
        self._began = time.monotonic()
        self._cancelled = 0

    def answered(self, route: str, status: int, seconds: float) -> None:
        """A request came to its end."""
        with self._lock:
            self._requests[route, str(status)] += 1
            self._seconds.setdefault(route, Histogram(SECONDS)).observe(seconds)

    def refused(self, status: int) -> None:
        """A request did not pass the gate."""
        with self._lock:
            self._refused[str(status)] += 1

    def passed(self, size: int) -> None:
        """One pass of the network answered so many requests."""
        with self._lock:
            self._batches.observe(size)

    def cancelled(self) -> None:
        """Work was stopped because nobody waits for it any more."""
        with self._lock:
            self._cancelled += 1

    def watch(self, name: str, meaning: str, read: Callable[[], Iterable[LabelledValue]]) -> None:
        """Show a value of somebody else's, who is asked when somebody looks."""
        self._gauges.append((name, meaning, read))

    def text(self) -> str:
        """Everything, one sample a line."""
        with self._lock:
            up = time.monotonic() - self._began
            answered = [({"route": route, "status": code}, n) for (route, code), n in sorted(self._requests.items())]
            refused = [({"status": status}, n) for status, n in sorted(self._refused.items())]
            seconds = [({"route": route}, one) for route, one in sorted(self._seconds.items())]
            stopped: list[LabelledValue] = [({}, self._cancelled)]
            lines = [
                *_lines("crossfeed_up_seconds", "Seconds since the start.", "gauge", [({}, up)]),
                *_lines("process_cpu_seconds_total", "CPU time.", "counter", [({}, time.process_time())]),
                *_lines("crossfeed_requests_total", "Requests that were answered.", "counter", answered),
                *_lines("crossfeed_refused_total", "Requests that the gate refused.", "counter", refused),
                *_lines("crossfeed_cancelled_total", "Work stopped because its client left.", "counter", stopped),
                *_histograms("crossfeed_request_seconds", "Time to the answer.", seconds),
                *_histograms("crossfeed_batch_size", "Forecasts that shared one pass.", [({}, self._batches)]),
            ]
        for name, meaning, read in self._gauges:
            lines += _lines(name, meaning, "gauge", read())
        return "\n".join(lines) + "\n"


def _lines(name: str, meaning: str, metric_type: str, samples: Iterable[LabelledValue]) -> list[str]:
    head = [f"# HELP {name} {meaning}", f"# TYPE {name} {metric_type}"]
    return head + [f"{name}{_labels(labels)} {_number(value)}" for labels, value in samples]


def _histograms(name: str, meaning: str, samples: Iterable[tuple[Mapping[str, str], Histogram]]) -> list[str]:
    lines = [f"# HELP {name} {meaning}", f"# TYPE {name} histogram"]
    for labels, histogram in samples:
        running = 0
        for edge, count in zip((*histogram.edges, float("inf")), histogram.counts):
            running += count
            lines.append(f"{name}_bucket{_labels({**labels, 'le': _number(edge)})} {running}")
        lines.append(f"{name}_sum{_labels(labels)} {_number(histogram.total)}")
        lines.append(f"{name}_count{_labels(labels)} {running}")
    return lines


def _labels(labels: Mapping[str, str]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

    return "{" + ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _number(value: float) -> str:
    return "+Inf" if value == float("inf") else f"{value:.10g}"

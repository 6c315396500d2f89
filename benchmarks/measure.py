"""Wall and CPU seconds of runs that take turns, so that a machine that gets slower slows all of them."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import psutil


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds on the clock, seconds of CPU that all threads of this process took, and those that
    its children took, the embedded server among them.
    """

    wall_seconds: float
    cpu_seconds: float
    server_seconds: float


Samples = dict[str, list[Sample]]


def taking_turns(runs: Mapping[str, Callable[[], object]], *, repeats: int) -> Samples:
    """A, B, A, B: each run ``repeats`` times."""
    samples: Samples = {name: [] for name in runs}
    for _ in range(repeats):
        for name, run in runs.items():
            samples[name].append(timed(run))
    return samples


def timed(run: Callable[[], object]) -> Sample:
    gc.collect()
    children, wall, cpu = children_seconds(), time.perf_counter(), time.process_time()
    run()
    taken = time.perf_counter() - wall, time.process_time() - cpu
    return Sample(*taken, children_seconds() - children)


def children_seconds() -> float:
    """CPU seconds of the processes that this one has started and that run."""
    taken = 0.0
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.NoSuchProcess):
            times = child.cpu_times()
            taken += times.user + times.system
    return taken


def wall(samples: list[Sample]) -> float:
    """The median, in seconds."""
    return median(sample.wall_seconds for sample in samples)


def cpu(samples: list[Sample]) -> float:
    """The median, in seconds."""
    return median(sample.cpu_seconds for sample in samples)


def served(samples: list[Sample]) -> float:
    """The median, in CPU seconds of the embedded server."""
    return median(sample.server_seconds for sample in samples)


def ratio(ours: list[Sample], theirs: list[Sample], of: Callable[[Sample], float]) -> tuple[float, str]:
    """Median of ours / theirs, pair by pair, and the spread of the pairs as text."""
    pairs = [of(one) / of(other) for one, other in zip(ours, theirs, strict=True)]
    return median(pairs), spread(pairs)


def spread(values: list[float]) -> str:
    """``0.91 to 1.04 in 5 runs``."""
    return f"{min(values):.3g} to {max(values):.3g} in {len(values)} runs"

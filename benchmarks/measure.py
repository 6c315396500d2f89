"""Wall and CPU seconds of runs that take turns, so that a machine that gets slower slows all of them."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Sample:
    """One run: seconds on the clock, and seconds of CPU that all threads of this process took."""

    wall_seconds: float
    cpu_seconds: float


Samples = dict[str, list[Sample]]


def taking_turns(runs: Mapping[str, Callable[[], object]], *, repeats: int, warm_up: bool = True) -> Samples:
    """A, B, A, B: each run ``repeats`` times; before that each once, not counted, for what is made once."""
    samples: Samples = {name: [] for name in runs}
    if warm_up:
        for run in runs.values():
            run()
    for _ in range(repeats):
        for name, run in runs.items():
            samples[name].append(timed(run))
    return samples


def timed(run: Callable[[], object]) -> Sample:
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    run()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu)


def wall(samples: list[Sample]) -> float:
    """The median, in seconds."""
    return median(sample.wall_seconds for sample in samples)


def cpu(samples: list[Sample]) -> float:
    """The median, in seconds."""
    return median(sample.cpu_seconds for sample in samples)


def ratio(ours: list[Sample], theirs: list[Sample], of: Callable[[Sample], float]) -> tuple[float, str]:
    """Median of ours / theirs, pair by pair, and the spread of the pairs as text."""
    pairs = [of(one) / of(other) for one, other in zip(ours, theirs, strict=True)]
    return median(pairs), spread(pairs)


def spread(values: list[float]) -> str:
    """``0.91 to 1.04 in 5 runs``."""
    return f"{min(values):.3g} to {max(values):.3g} in {len(values)} runs"

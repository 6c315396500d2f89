"""What passes through one read: rows, bytes, seconds waited, and a line in the log now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

log = logging.getLogger(__name__)

MEGABYTE = 1_000_000
LINE_SECONDS = 30.0


class Sized(Protocol):
    """A batch of rows, as far as it is weighed here."""

    @property
    def nbytes(self) -> int: ...
    @property
    def num_rows(self) -> int: ...


Batch = TypeVar("Batch", bound=Sized)


@dataclass(slots=True)
class ReadMeter:
    """Wraps the iterators of one read, one after the other; logs a line when 30 seconds have passed.

    A line comes with a batch: a server that sends nothing gets none.

    :param label: what the log calls the rows; holds no key value.
    :param expected: rows of the whole read as planned; None where that is not known.
    :param clock: monotonic, in seconds.
    :ivar seconds: waited for batches, without what is done with them.
    """

    label: str
    expected: int | None = None
    clock: Callable[[], float] = time.monotonic
    rows: int = 0
    read_bytes: int = 0
    seconds: float = 0.0
    _began: float = field(init=False, repr=False)
    _logged: float = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._began = self._logged = self.clock()

    @property
    def megabytes(self) -> float:
        return self.read_bytes / MEGABYTE

    def watched(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """The same batches."""
        while True:
            since = self.clock()
            batch = next(batches, None)
            now = self.clock()
            self.seconds += now - since
            if batch is None:
                return
            self.rows += batch.num_rows
            self.read_bytes += batch.nbytes
            self._log(now)
            yield batch

    def _log(self, now: float) -> None:
        if now - self._logged < LINE_SECONDS:
            return
        self._logged = now
        # An estimate may be too low: more than all of it says nothing.
        known = self.expected is not None and self.rows <= self.expected
        share = f", {self.rows / self.expected:.0%} of it" if known and self.expected else ""
        log.info(
            "%s: %s rows read so far%s, %s rows/s",
            *(self.label, f"{self.rows:,}", share, f"{self.rows / (now - self._began):,.0f}"),
        )

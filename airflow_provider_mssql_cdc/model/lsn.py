"""A log sequence number: SQL Server's position in its transaction log, binary(10)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TEXT = re.compile(r"0x[0-9A-Fa-f]{20}\Z")
_HALF_BITS = 40
_HALF_MASK = (1 << _HALF_BITS) - 1
_LARGEST = (1 << 80) - 1


@dataclass(frozen=True, slots=True, order=True)
class Lsn:
    """Hold a position in the log, ordered like SQL Server's binary(10): by unsigned bytes.

    NULL and all-zero are not positions; :meth:`from_server` turns them into None.
    """

    value: int

    def __post_init__(self) -> None:
        if not 0 < self.value <= _LARGEST:
            raise ValueError(f"an LSN must be an integer of 1 to 80 bits, got {self.value:#x}")

    @classmethod
    def parse(cls, text: str) -> Lsn:
        """Read ``0x`` and 20 hex digits; anything else, zero included, is a ValueError."""
        if not isinstance(text, str) or not _TEXT.match(text):
            raise ValueError(f"an LSN must be 0x and 20 hex digits, got {text!r}")
        return cls(int(text, 16))

    @classmethod
    def from_server(cls, answer: str | None) -> Lsn | None:
        """Read a server's answer, where NULL and all-zero both mean "no position"."""
        if answer is None or not answer.removeprefix("0x").strip("0"):
            return None
        return cls.parse(answer)

    @classmethod
    def from_halves(cls, hi: int, lo: int) -> Lsn:
        """Join the two 40-bit numbers of :attr:`hi` and :attr:`lo`."""
        if not (0 <= hi <= _HALF_MASK and 0 <= lo <= _HALF_MASK):
            raise ValueError(f"the halves of an LSN must have 40 bits each, got {hi:#x} and {lo:#x}")
        return cls((hi << _HALF_BITS) | lo)

    @property
    def text(self) -> str:
        """``0x`` and 20 upper-case hex digits: text order is LSN order."""
        return f"0x{self.value:020X}"

    @property
    def hi(self) -> int:
        """The upper 40 bits; with :attr:`lo` this is how a Delta transaction carries an LSN."""
        return self.value >> _HALF_BITS

    @property
    def lo(self) -> int:
        """The lower 40 bits."""
        return self.value & _HALF_MASK

    def incremented(self) -> Lsn:
        """The next LSN, as ``sys.fn_cdc_increment_lsn`` gives it."""
        return Lsn(self.value + 1)

    def decremented(self) -> Lsn:
        """The LSN just below, as ``sys.fn_cdc_decrement_lsn`` gives it."""
        return Lsn(self.value - 1)

    def __str__(self) -> str:
        return self.text


LAST_LSN = Lsn(_LARGEST)
"""Above every position that a server can have."""

"""Log sequence numbers as SQL Server has them, and a log that hands them out.

An LSN is ten bytes, compared as unsigned bytes: four of the virtual log file, four of the block (its
offset in units of 512 bytes), two of the record's slot within the block. Its text is ``0x`` and twenty
upper-case digits. Pure: values in, values out.
"""

from __future__ import annotations

from dataclasses import dataclass

LSN_BYTES = 10
ZERO = bytes(LSN_BYTES)

_BLOCK_UNIT_BYTES = 512
_RECORD_BYTES = 96
_BLOCK_RECORDS = 60 * 1024 // _RECORD_BYTES
_FILE_BLOCKS = 0x20000


def text(lsn: bytes) -> str:
    """``0x`` and twenty upper-case hex digits, so that text order is LSN order."""
    return "0x" + lsn.hex().upper()


def parse(value: str | bytes) -> bytes:
    """An LSN from its text (or itself); raises ValueError for anything that is not ten bytes."""
    raw = value if isinstance(value, bytes) else bytes.fromhex(value.removeprefix("0x").removeprefix("0X"))
    if len(raw) != LSN_BYTES:
        raise ValueError(f"an LSN has {LSN_BYTES} bytes, not {len(raw)}: {value!r}")
    return raw


@dataclass(slots=True)
class LogPosition:
    """Where the next record of a database's log goes; it only ever moves up."""

    file: int = 0x25
    block: int = 0x5A8
    slot: int = 1

    @classmethod
    def at(cls, lsn: bytes) -> LogPosition:
        """The position of a record that has this LSN."""
        return cls(
            int.from_bytes(lsn[:4], "big"), int.from_bytes(lsn[4:8], "big"), int.from_bytes(lsn[8:], "big")
        )

    def lsn(self) -> bytes:
        """The LSN of a record at this position."""
        return (self.file << 48 | self.block << 16 | self.slot).to_bytes(LSN_BYTES, "big")

    def record(self) -> bytes:
        """Write one record: its LSN, and the position moves to the next slot (or block, or file)."""
        written = self.lsn()
        self.slot += 1
        if self.slot > _BLOCK_RECORDS:
            self.flush()
        return written

    def skip(self, records: int) -> None:
        """Move as ``records`` calls of ``record`` would."""
        while records:
            step = min(records, _BLOCK_RECORDS - self.slot)
            self.slot, records = self.slot + step, records - step
            if records:
                self.record()
                records -= 1

    def flush(self) -> None:
        """End the block, as a commit does: the next record starts a new one."""
        self.block += max(8, -(-self.slot * _RECORD_BYTES // _BLOCK_UNIT_BYTES))
        self.slot = 1
        if self.block >= _FILE_BLOCKS:
            self.file, self.block = self.file + 1, 0x10

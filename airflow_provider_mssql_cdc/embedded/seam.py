"""The seam between the protocol (``embedded.tds``) and the engine (``embedded.engine``).

The protocol knows packets, tokens and how a value looks on the wire; the engine knows T-SQL,
tables and transactions. They meet in the types of this module and nowhere else.

**Stored values.** A row is a tuple of *stored values*: what SQLite holds, chosen so that SQLite's
own comparison is SQL Server's order and so that a whole column is encoded at once:

=====================  ====================================================================
SQL type               stored value (NULL is always ``None``)
=====================  ====================================================================
bit, tinyint..bigint   int
decimal(p, s), p <= 18 int, scaled by 10**s
decimal(p, s), p > 18  bytes, 16, big-endian of (scaled value + 2**127)
money, smallmoney      int, scaled by 10**4
real, float            float
date                   int, days since 0001-01-01
time(n)                int, units of 100 ns since midnight
datetime               int, ticks of 1/300 s since 1900-01-01
smalldatetime          int, minutes since 1900-01-01
datetime2(n)           int, units of 100 ns since 0001-01-01
datetimeoffset(n)      str, ``f"{utc_units:020d}{offset_minutes:+05d}"`` (units of 100 ns)
(n)char, (n)varchar    str; char and nchar are padded with blanks to their length
text, ntext, xml       str
uniqueidentifier       bytes, 16, permuted into SQL Server's order of comparison
(var)binary, image     bytes; binary is padded with zero bytes
rowversion             bytes, 8
=====================  ====================================================================
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Row = tuple[Any, ...]

MAX = -1

#: ``stored[i] = wire[GUID_ORDER[i]]``, where wire is ``uuid.UUID.bytes_le``: the order in which SQL Server
#: compares the bytes of a uniqueidentifier (.NET's ``SqlGuid`` documents the same one).
GUID_ORDER = (10, 11, 12, 13, 14, 15, 8, 9, 6, 7, 4, 5, 0, 1, 2, 3)


_COLLATIONS = """arabic:401:1256 chinese_prc:804:936 chinese_simplified_pinyin:804:936
    chinese_taiwan_stroke:404:950 chinese_traditional_stroke_count:404:950 cyrillic_general:419:1251
    czech:405:1250 danish_norwegian:406:1252 estonian:425:1257 finnish_swedish:40B:1252
    french:40C:1252 german_phonebook:10407:1252 greek:408:1253 hebrew:40D:1255 hungarian:40E:1250
    icelandic:40F:1252 japanese:411:932 japanese_bushu_kakusu:40411:932 japanese_xjis:411:932
    korean:412:949 korean_wansung:412:949 latin1_general:409:1252 modern_spanish:C0A:1252
    polish:415:1250 thai:41E:874 turkish:41F:1254 ukrainian:422:1251 vietnamese:42A:1258"""
COLLATIONS = {
    name: (int(lcid, 16), int(page)) for name, lcid, page in (c.split(":") for c in _COLLATIONS.split())
}
"""Windows collations by designator: LCID and code page (the manual's page "Windows collation name")."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A SQL Server type as the catalog spells it.

    ``length`` is in bytes as in ``sys.columns.max_length`` (nvarchar(50) has 100, ``MAX`` is -1) and
    is None for types without one; ``scale`` is the fractional digits of time types too.
    """

    name: str
    length: int | None = None
    precision: int | None = None
    scale: int | None = None
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a result as the client sees it."""

    name: str
    type: SqlType
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a remote procedure call: its declared type and its stored value.

    ``name`` begins with ``@``; it is empty for an argument that the client passed by position.
    """

    name: str
    type: SqlType
    value: Any
    output: bool = False


@dataclass(slots=True)
class ResultSet:
    """Columns, and the rows in batches of some thousands; the rows are read while they are sent."""

    columns: tuple[ResultColumn, ...]
    batches: Iterator[list[Row]]


@dataclass(frozen=True, slots=True)
class RowCount:
    """A statement without rows is done; ``rows`` is None for DDL and SET."""

    rows: int | None


@dataclass(frozen=True, slots=True)
class Message:
    """An informational message (INFO token), for instance 5701 after USE."""

    number: int
    text: str


class SqlError(Exception):
    """An error that the client sees: number, text, severity and state as SQL Server has them."""

    def __init__(self, number: int, text: str, severity: int = 16, state: int = 1) -> None:
        super().__init__(f"Msg {number}: {text}")
        self.number, self.text, self.severity, self.state = number, text, severity, state


class DropConnection(Exception):
    """A fault that was asked for: the protocol closes the socket at once, without an answer.

    The rows before it arrive (unless a column is of a (max) type); the break is inside the last of them, as
    it nearly always is on a real network. ``between_rows`` breaks off after a whole row, which msodbcsql's
    block fetch, and with it mssql-python, takes for the end of the result: fewer rows, and no error.
    """

    def __init__(self, *, between_rows: bool = False) -> None:
        super().__init__("the connection is dropped on request")
        self.between_rows = between_rows


class EngineSession(Protocol):
    """One logged-in session; every method may raise SqlError or DropConnection."""

    session_id: int

    @property
    def database(self) -> str: ...

    def execute(
        self, sql: str, parameters: Sequence[Parameter] = ()
    ) -> Iterator[ResultSet | RowCount | Message]:
        """Run a batch; a ResultSet's rows are consumed before the next item is asked for."""

    def call(
        self, procedure: str, parameters: Sequence[Parameter]
    ) -> Iterator[ResultSet | RowCount | Message]:
        """Run a stored procedure by name (an RPC that is not one of the sp_execute family)."""

    def begin(self) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def cancel(self) -> None:
        """Stop what runs (called from another thread on ATTENTION); ``execute`` then raises.

        It means the statement that runs now: the next ``execute`` starts unharmed.
        """

    def reset(self) -> None:
        """What a pooled connection's reset flag asks for: roll back, default SET options."""

    def close(self) -> None: ...


class Engine(Protocol):
    """What a listener needs: a way to log in."""

    def login(self, user: str, password: str, database: str, *, replica: str | None = None) -> EngineSession:
        """Open a session, or raise SqlError 18456 (login failed) or 4060 (no such database).

        ``replica`` names the listener when it is a second one over the same databases that can be
        held behind; None is the primary.
        """

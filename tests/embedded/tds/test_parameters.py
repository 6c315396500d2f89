"""What the drivers bind is what the engine gets, and it comes back as it was."""

from __future__ import annotations

import datetime as dt
import struct
import uuid
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pytest

from airflow_provider_mssql_cdc.embedded.seam import (
    MAX,
    Message,
    Parameter,
    ResultSet,
    RowCount,
    SqlError,
    SqlType,
)
from airflow_provider_mssql_cdc.embedded.tds import procedures, requests, tokens, type_info
from airflow_provider_mssql_cdc.embedded.tds.packets import ProtocolError
from airflow_provider_mssql_cdc.embedded.tds.type_info import collation
from tests.embedded.tds.clients import Clients, fetch
from tests.embedded.tds.scripted import ScriptedEngine, ScriptedSession, rows_of
from tests.embedded.tds.stored import days, decimal38, guid, offset, units

GUID = "0e984725-c51c-4bf4-9960-e1c80e27aba0"
LATE = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
WEST = dt.datetime(2024, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=-5)))


def echo(_: ScriptedSession, given: Sequence[Parameter]) -> Iterator[ResultSet | RowCount | Message]:
    columns = [(p.name, p.type) for p in given]
    return iter([rows_of(columns, [tuple(p.value for p in given)])])


BOUND: list[tuple[Any, str, Any]] = [
    (True, "bit", 1),
    (1, "tinyint", 1),
    (-300, "smallint", -300),
    (2**31, "bigint", 2**31),
    (-(2**63), "bigint", -(2**63)),
    (1.5, "float", 1.5),
    (Decimal("-12.50"), "decimal", -1250),
    (Decimal("9" * 38), "decimal", decimal38("9" * 38, 0)),
    (Decimal("0.0000000001"), "decimal", 1),
    ("abc", "varchar", "abc"),
    ("", "varchar", ""),
    ("a\x00b ", "varchar", "a\x00b "),
    ("it's; --", "varchar", "it's; --"),
    ("日本 😀", "nvarchar", "日本 😀"),
    ("x" * 9000, "varchar", "x" * 9000),
    ("й" * 9000, "nvarchar", "й" * 9000),
    (b"\x00\x01'", "varbinary", b"\x00\x01'"),
    (b"", "varbinary", b""),
    (b"z" * 9000, "varbinary", b"z" * 9000),
    (dt.date(9999, 12, 31), "date", days(dt.date(9999, 12, 31))),
    (dt.time(23, 59, 59, 999999), "time", 863_999_999_990),
    (LATE, "datetime2", units(LATE)),
    (WEST, "datetimeoffset", offset(WEST)),
    (uuid.UUID(GUID), "uniqueidentifier", guid(GUID)),
]


@pytest.mark.parametrize(("value", "name", "stored"), BOUND, ids=lambda v: repr(v)[:30])
def test_mssql_python_binds_a_typed_parameter(
    value: Any, name: str, stored: Any, engine: ScriptedEngine, clients: Clients
) -> None:
    engine.scripts["SELECT @P1"] = echo
    assert fetch(clients.mssql_python(), "SELECT ?", value) == [(value,)]
    _, (given,) = engine.sessions[-1].calls[-1]
    assert (given.name, given.type.name, given.value) == ("@P1", name, stored)


def test_a_null_is_asked_about_and_then_bound(engine: ScriptedEngine, clients: Clients) -> None:
    engine.scripts["SELECT @P1, @P2"] = echo
    assert fetch(clients.mssql_python(), "SELECT ?, ?", None, 5) == [(None, 5)]
    _, given = engine.sessions[-1].calls[-1]
    assert [(p.name, p.value) for p in given] == [("@P1", None), ("@P2", 5)]


def test_executemany_runs_the_statement_once_for_each_row(engine: ScriptedEngine, clients: Clients) -> None:
    engine.on("INSERT INTO t VALUES (@P1,@P2)", lambda: RowCount(1))
    cursor = clients.mssql_python().cursor()
    cursor.executemany("INSERT INTO t VALUES (?,?)", [(i, f"row {i}") for i in range(300)])
    assert cursor.rowcount == 300
    ran = [tuple(p.value for p in given) for sql, given in engine.sessions[-1].calls if "INSERT" in sql]
    assert ran == [(i, f"row {i}") for i in range(300)]


def test_pymssql_writes_parameters_into_the_statement(engine: ScriptedEngine, clients: Clients) -> None:
    engine.on("INSERT INTO t VALUES (N'it''s',1)", RowCount(1))
    cursor = clients.pymssql().cursor()
    cursor.execute("INSERT INTO t VALUES (%s,%d)", ("it's", 1))
    assert cursor.rowcount == 1


def test_a_procedure_is_called_by_name(engine: ScriptedEngine, clients: Clients) -> None:
    engine.scripts["sys.sp_cdc_help"] = echo
    cursor = clients.pymssql().cursor()
    cursor.callproc(
        "sys.sp_cdc_help", (1, "日本", None, dt.datetime(2024, 1, 1), Decimal("1.50"), b"\x00\x01")
    )
    (row,) = cursor.fetchall()
    assert row[:3] == (1, "日本", None)
    _, given = engine.sessions[-1].calls[-1]
    assert [p.name for p in given] == [""] * 6


def test_odbc_calls_a_procedure_by_its_escape(engine: ScriptedEngine, clients: Clients) -> None:
    engine.scripts["dbo.p"] = echo
    assert fetch(clients.mssql_python(), "{CALL dbo.p(?, ?)}", 1, "x") == [(1, "x")]


def test_an_unknown_procedure_has_its_number(clients: Clients) -> None:
    with pytest.raises(Exception, match="2812|Could not find stored procedure"):
        clients.pymssql().cursor().callproc("dbo.nothing", (1,))


# -- what the drivers do not send by themselves ------------------------------------------------------------


def read(data: bytes) -> Parameter:
    return requests.parameter(requests.Cursor(tokens.short_text("@p") + b"\x01" + data))


GREEK = collation("Greek_CI_AS").wire
LONG = [
    # chunks, their total unknown
    (b"\xa5\xff\xff" + struct.pack("<QI", 2**64 - 2, 1) + b"a\2\0\0\0bc" + bytes(4), "varbinary", b"abc"),
    # short values of padded types
    (b"\xad\x04\x00\x01\x00a", "binary", b"a\0\0\0"),
    (b"\xef\x06\x00" + GREEK + b"\x02\x00a\0", "nchar", "a  "),
    (b"\xaf\x03\x00" + GREEK + b"\x01\x00a", "char", "a  "),
]


@pytest.mark.parametrize(("data", "name", "value"), LONG, ids=lambda v: v if type(v) is str else "")
def test_other_forms_of_a_parameter_are_understood(data: bytes, name: str, value: Any) -> None:
    given = read(data)
    assert (given.type.name, given.value, given.output) == (name, value, True)


def test_a_parameter_that_is_cut_off_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="inside a value"):
        read(b"\x26\x04\x04\x01\x00")


def test_a_type_that_is_not_spoken_is_named() -> None:
    with pytest.raises(type_info.UnsupportedType, match="0xf3"):
        read(b"\xf3")


def test_the_declaration_gives_names_to_positions() -> None:
    given = [Parameter("", SqlType("int"), 1), Parameter("@b", SqlType("varchar", MAX), "x")]
    named = procedures.named("@a decimal(18,4) OUTPUT,@b varchar(max)", given)
    assert [p.name for p in named] == ["@a", "@b"]


def test_more_parameters_than_declared_is_an_error() -> None:
    with pytest.raises(SqlError, match="8144"):
        procedures.named("@a int", [Parameter("", SqlType("int"), 1)] * 2)


def test_undeclared_parameters_are_listed_once() -> None:
    result = procedures.undeclared_parameters("SELECT @P1, @P2, @P1, @@SPID WHERE 1 = @x", "@x int")
    (rows,) = list(result.batches)
    assert [row[:2] for row in rows] == [(1, "@P1"), (2, "@P2")]
    assert all(len(row) == len(result.columns) == 24 for row in rows)

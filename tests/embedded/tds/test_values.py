"""Every type of the seam's table arrives in both drivers as what it is."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, NamedTuple

import pytest

from airflow_provider_mssql_cdc.embedded.listener import Listener
from airflow_provider_mssql_cdc.embedded.seam import MAX, SqlType
from tests.embedded.tds.clients import Clients, fetch
from tests.embedded.tds.scripted import ScriptedEngine
from tests.embedded.tds.stored import UNITS_PER_DAY, days, decimal38, guid, offset, units

END = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
PARIS, HALF_WEST = (dt.timezone(dt.timedelta(minutes=m)) for m in (120, -210))


class Case(NamedTuple):
    name: str
    type: SqlType
    stored: Any
    expected: Any
    arrow: Any = None
    """What Arrow gives where that differs."""


def decimal(precision: int, scale: int) -> SqlType:
    return SqlType("decimal", precision=precision, scale=scale)


def chars(name: str, length: int, collation: str | None = None) -> SqlType:
    return SqlType(name, length, collation=collation)


NINES = "9" * 38
NUMBERS = [
    Case("bit 0", SqlType("bit"), 0, False),
    Case("bit 1", SqlType("bit"), 1, True),
    Case("tinyint", SqlType("tinyint"), 255, 255),
    Case("smallint", SqlType("smallint"), -(2**15), -(2**15)),
    Case("int", SqlType("int"), -(2**31), -(2**31)),
    Case("bigint low", SqlType("bigint"), -(2**63), -(2**63)),
    Case("bigint high", SqlType("bigint"), 2**63 - 1, 2**63 - 1),
    Case("decimal(5,2)", decimal(5, 2), -12345, Decimal("-123.45")),
    Case("decimal(9,9)", decimal(9, 9), 1, Decimal("0.000000001")),
    Case("decimal(18,4)", decimal(18, 4), -(10**18 - 1), Decimal("-99999999999999.9999")),
    Case("decimal(18,0) zero", decimal(18, 0), 0, Decimal(0)),
    Case("decimal(19,0)", decimal(19, 0), decimal38("-" + "9" * 19, 0), Decimal("-" + "9" * 19)),
    Case("decimal(28,28)", decimal(28, 28), decimal38("9" * 28, 0), Decimal("0." + "9" * 28)),
    Case("decimal(38,0) high", decimal(38, 0), decimal38(NINES, 0), Decimal(NINES)),
    Case("decimal(38,0) low", decimal(38, 0), decimal38("-" + NINES, 0), Decimal("-" + NINES)),
    Case("decimal(38,38) small", decimal(38, 38), decimal38("-1", 0), Decimal("-1").scaleb(-38)),
    Case("decimal(38,10) zero", decimal(38, 10), decimal38("0", 0), Decimal(0)),
    Case("money low", SqlType("money"), -(2**63), Decimal("-922337203685477.5808")),
    Case("money high", SqlType("money"), 2**63 - 1, Decimal("922337203685477.5807")),
    Case("money cents", SqlType("money"), -1, Decimal("-0.0001")),
    Case("smallmoney", SqlType("smallmoney"), -(2**31), Decimal("-214748.3648")),
    Case("real", SqlType("real"), 0.5, 0.5),
    Case("float", SqlType("float"), -1.7976931348623157e308, -1.7976931348623157e308),
    Case("float small", SqlType("float"), 5e-324, 5e-324),
]
TIMES = [
    Case("date first", SqlType("date"), 0, dt.date(1, 1, 1)),
    Case("date last", SqlType("date"), days(dt.date(9999, 12, 31)), dt.date(9999, 12, 31)),
    Case("time(7) last", SqlType("time", scale=7), UNITS_PER_DAY - 1, END.time()),
    Case("time(0)", SqlType("time", scale=0), 3723 * 10**7, dt.time(1, 2, 3)),
    Case("time(3)", SqlType("time", scale=3), 45670000, dt.time(0, 0, 4, 567000)),
    Case("datetime first", SqlType("datetime"), -53690 * 25_920_000, dt.datetime(1753, 1, 1)),
    Case(
        "datetime last",
        SqlType("datetime"),
        2958464 * 25_920_000 - 1,
        dt.datetime(9999, 12, 31, 23, 59, 59, 997000),
    ),
    Case("datetime a tick", SqlType("datetime"), 1, dt.datetime(1900, 1, 1, 0, 0, 0, 3000)),
    Case("datetime before 1900", SqlType("datetime"), -1, dt.datetime(1899, 12, 31, 23, 59, 59, 997000)),
    Case("smalldatetime first", SqlType("smalldatetime"), 0, dt.datetime(1900, 1, 1)),
    Case("smalldatetime last", SqlType("smalldatetime"), 65536 * 1440 - 1, dt.datetime(2079, 6, 6, 23, 59)),
    Case("datetime2(7) first", SqlType("datetime2", scale=7), 0, dt.datetime(1, 1, 1)),
    Case("datetime2(7) last", SqlType("datetime2", scale=7), units(END, 9), END),
    Case("datetime2(3)", SqlType("datetime2", scale=3), units(END, 9), END.replace(microsecond=999000)),
    Case("datetime2(0)", SqlType("datetime2", scale=0), units(END, 9), END.replace(microsecond=0)),
    Case(
        "datetimeoffset east",
        SqlType("datetimeoffset", scale=7),
        offset(dt.datetime(2024, 1, 1, 1, 2, 3, 456789, PARIS), 7),
        dt.datetime(2024, 1, 1, 1, 2, 3, 456789, PARIS),
    ),
    Case(
        "datetimeoffset west",
        SqlType("datetimeoffset", scale=0),
        offset(dt.datetime(2024, 1, 1, 23, tzinfo=HALF_WEST)),
        dt.datetime(2024, 1, 1, 23, tzinfo=HALF_WEST),
    ),
]
EMOJI = "日本 😀 e\u0301"
TEXTS = [
    Case("nvarchar", chars("nvarchar", 100), EMOJI, EMOJI),
    Case("nvarchar empty", chars("nvarchar", 100), "", ""),
    Case("nvarchar blanks", chars("nvarchar", 100), "  a \u0000 b  ", "  a \u0000 b  "),
    Case("nvarchar long", chars("nvarchar", 8000), EMOJI * 400, EMOJI * 400),
    Case("nvarchar(max)", chars("nvarchar", MAX), EMOJI, EMOJI),
    Case("nvarchar(max) empty", chars("nvarchar", MAX), "", ""),
    Case("nchar", chars("nchar", 10), "ab   ", "ab   "),
    Case("sysname", chars("sysname", 256), "orders", "orders"),
    Case("varchar empty", chars("varchar", 10), "", ""),
    Case("varchar blanks", chars("varchar", 10), " a\u0000b  ", " a\u0000b  "),
    Case("char", chars("char", 5), "a    ", "a    "),
    Case("varchar(max)", chars("varchar", MAX, "Cyrillic_General_CI_AS"), "Привет", "Привет"),
    Case("text", SqlType("text"), "café", "café"),
    Case("ntext", SqlType("ntext"), EMOJI, EMOJI),
    Case("xml", SqlType("xml"), f"<a>{EMOJI}</a>", f"<a>{EMOJI}</a>"),
]
CODE_PAGES = [
    Case(collation, chars("varchar", 40, collation), text, text)
    for collation, text in {
        "Latin1_General_CI_AS": "café €",
        "SQL_Latin1_General_CP1_CI_AS": "naïve Œ",
        "SQL_Latin1_General_CP1_CS_AS": "ÿ",
        "Latin1_General_100_BIN2": "Ünïcode",
        "SQL_Latin1_General_CP437_CI_AS": "é░",
        "SQL_Latin1_General_CP850_BIN2": "éÁ",
        "Polish_CI_AS": "łódź",
        "Cyrillic_General_CS_AS": "Привет",
        "SQL_Latin1_General_CP1251_CI_AS": "Ёж",
        "Greek_CI_AS": "Αβγ ώ",
        "Turkish_CI_AS": "ığş",
        "Hebrew_CI_AS": "שלום",
        "Arabic_CI_AS": "سلام",
        "Estonian_CI_AS": "õäš",
        "Thai_CI_AS": "ไทย",
        "Japanese_CI_AS": "日本ｱ a",
        "Japanese_XJIS_140_BIN2": "東京",
        "Chinese_PRC_CI_AS": "中文 a",
        "Chinese_Taiwan_Stroke_CI_AS": "臺灣",
        "Korean_Wansung_CI_AS": "한국",
        "Latin1_General_100_CI_AS_SC_UTF8": "При 😀",
        "Latin1_General_100_BIN2_UTF8": "日本",
    }.items()
]
GUID = "0e984725-c51c-4bf4-9960-e1c80e27aba0"
BYTES = [
    Case("uniqueidentifier", SqlType("uniqueidentifier"), guid(GUID), uuid.UUID(GUID), GUID.upper()),
    Case("binary", SqlType("binary", 4), b"\x00\x01\x00\x00", b"\x00\x01\x00\x00"),
    Case("varbinary", SqlType("varbinary", 8), b"\x00\xff\x27", b"\x00\xff\x27"),
    Case("varbinary empty", SqlType("varbinary", 8), b"", b""),
    Case("varbinary(max)", SqlType("varbinary", MAX), bytes(range(256)) * 40, bytes(range(256)) * 40),
    Case("varbinary(max) empty", SqlType("varbinary", MAX), b"", b""),
    Case("image", SqlType("image"), b"\x00\x01", b"\x00\x01"),
    Case("rowversion", SqlType("rowversion"), bytes(7) + b"\x07", bytes(7) + b"\x07"),
]
CASES = NUMBERS + TIMES + TEXTS + CODE_PAGES + BYTES
FEW, MANY = 1, 50
"""Values one by one, and a column at a time."""


@pytest.fixture(scope="module")
def both() -> Iterator[tuple[Any, Any]]:
    engine = ScriptedEngine()
    for case in CASES:
        for copies in (FEW, MANY):
            rows = [(case.stored,), (None,)] * copies
            engine.select(f"SELECT {copies} {case.name}", [("x", case.type)], rows)
    with Listener(engine) as listener, Clients(listener.port) as clients:
        yield clients.pymssql(), clients.mssql_python()


@pytest.mark.parametrize("copies", [FEW, MANY], ids=["one by one", "a column at a time"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_value_and_a_null_arrive_as_they_are_stored(case: Case, copies: int, both: tuple[Any, Any]) -> None:
    expected = [(case.expected,), (None,)] * copies
    for connection in both:
        rows = fetch(connection, f"SELECT {copies} {case.name}")
        assert rows == expected
        assert type(rows[0][0]) is type(case.expected)
        if isinstance(case.expected, dt.datetime):
            assert rows[0][0].utcoffset() == case.expected.utcoffset()


@pytest.mark.parametrize("copies", [FEW, MANY], ids=["one by one", "a column at a time"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_arrow_gives_the_same_value(case: Case, copies: int, both: tuple[Any, Any]) -> None:
    cursor = both[1].cursor()
    cursor.execute(f"SELECT {copies} {case.name}")
    expected = case.expected if case.arrow is None else case.arrow
    assert cursor.arrow().column(0).to_pylist() == [expected, None] * copies


def test_a_column_keeps_its_name_and_whether_it_may_be_null(both: tuple[Any, Any]) -> None:
    for connection in both:
        cursor = connection.cursor()
        cursor.execute("SELECT 1 int")
        assert cursor.description[0][0] == "x"

"""Values near the edge of every type: as they are inserted, and as the lake has to hold them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

D = Decimal
TEXTS = ["", "  ", "blank ", " blank", "two\tcells\r\n", "O''Neil's", "nul\0nul", "{{ 7*7 }} %(id)s %", None]
UNICODE = ["👩‍👩‍👧 𝔘", "a\u0308 ä", "\u200f\u05e9", "\ufffd\ufffe", *TEXTS]


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


def same(*values: Any) -> tuple[list[Any], list[Any]]:
    return list(values), list(values)


TYPE_VALUES: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {
    "bit": ([1, 0, None], [True, False, None]),
    "tinyint": same(0, 127, 128, 255, None),
    "smallint": same(-32768, -1, 32767),
    "int": same(-(2**31), 0, 2**31 - 1),
    "bigint": same(-(2**63), 2**53 + 1, 2**63 - 1, None),
    "decimal(5,0)": ([D(-99999), D(99999)], [D(-99999), D(99999)]),
    "decimal(9,9)": same(D("0.999999999"), D("-0.000000001")),
    "decimal(28,14)": same(D("99999999999999.99999999999999"), D("-1.00000000000001")),
    "decimal(38,1)": same(D("9" * 37 + ".9"), D("-" + "9" * 37 + ".9"), D("0.1"), None),
    "decimal(38,37)": same(D("9." + "9" * 37), D("-9." + "9" * 37)),
    "money": same(D("922337203685477.5807"), D("-922337203685477.5808"), D("0.0001"), None),
    "smallmoney": same(D("-214748.3648"), D("214748.3647"), D("-0.0001")),
    "real": same(3.4028234663852886e38, -1.1754943508222875e-38, 0.10000000149011612, -0.0),
    "float": same(1.7976931348623157e308, 5e-324, 0.1 + 0.2, -0.0, 1e22, None),
    "date": same(date(1, 1, 1), date(1582, 10, 10), date(9999, 12, 31), None),
    "datetime": (
        ["1753-01-01T00:00:00.003", "2019-07-14T23:59:59.993", "9999-12-31T23:59:59.997"],
        [
            datetime(1753, 1, 1, 0, 0, 0, 3000),
            datetime(2019, 7, 14, 23, 59, 59, 993000),
            datetime(9999, 12, 31, 23, 59, 59, 997000),
        ],
    ),
    "smalldatetime": (
        ["1900-01-01T00:01:00", "2079-06-06T23:59:00", None],
        [datetime(1900, 1, 1, 0, 1), datetime(2079, 6, 6, 23, 59), None],
    ),
    **{
        f"datetime2({scale})": (
            [f"1899-12-31 23:59:58{f'.{7654321:07d}'[: scale + 1] if scale else ''}"],
            [datetime(1899, 12, 31, 23, 59, 58, int(f"{'7654321'[:scale]:0<6}"[:6]))],
        )
        for scale in range(7)
    },
    "datetime2(7)": (
        ["0001-01-01 00:00:00.0000009", "9999-12-31 23:59:59.9999999", None],
        [datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59, 999999), None],
    ),
    **{
        f"datetimeoffset({scale})": (
            [f"2020-02-29 00:30:00{f'.{1234567:07d}'[: scale + 1] if scale else ''} +14:00"],
            [utc(2020, 2, 28, 10, 30, 0, int(f"{'1234567'[:scale]:0<6}"[:6]))],
        )
        for scale in range(8)
    },
    **{
        f"time({scale})": (
            [f"23:59:59{f'.{9876543:07d}'[: scale + 1] if scale else ''}", "00:00:00", None],
            [f"23:59:59.{'9876543'[:scale]:0<7}", "00:00:00.0000000", None],
        )
        for scale in range(8)
    },
    "char(3)": (["é", "", "xyz", None], ["é  ", "   ", "xyz", None]),
    "varchar(40)": same("“smart” — €", *TEXTS),
    "varchar(40) COLLATE Latin1_General_CS_AS": same("Ÿž", "\x81\x8d"),
    "varchar(40) COLLATE Cyrillic_General_CI_AS": same("Щёлкино №7"),
    "varchar(40) COLLATE Greek_CI_AS": same("Ωμέγα"),
    "varchar(40) COLLATE Hebrew_CI_AS": same("שלום"),
    "varchar(40) COLLATE Arabic_CI_AS": same("سلام"),
    "varchar(40) COLLATE Thai_CI_AS": same("ไทย"),
    "varchar(40) COLLATE Turkish_CI_AS": same("İıŞğ"),
    "varchar(40) COLLATE Japanese_CI_AS": same("日本語ｶﾅ"),
    "varchar(40) COLLATE Korean_Wansung_CI_AS": same("한국어"),
    "varchar(40) COLLATE Chinese_PRC_CI_AS": same("汉字"),
    "varchar(40) COLLATE Chinese_Taiwan_Stroke_CI_AS": same("漢字"),
    "varchar(40) COLLATE Polish_CI_AS": same("łódź"),
    "varchar(80) COLLATE Latin1_General_100_CI_AS_SC_UTF8": same("Zürich данные 🚀", ""),
    "nchar(3)": (["日", "", None], ["日  ", "   ", None]),
    "nvarchar(60)": same(*UNICODE),
    "varchar(max)": same("€" * 9001, *TEXTS),
    "nvarchar(max)": same("🚀" * 5001, *UNICODE),
    "binary(3)": ([b"\x27", b"", b"abc", None], [b"\x27\0\0", b"\0\0\0", b"abc", None]),
    "varbinary(12)": same(b"", b"\0\0", b"0x'%\xff\\\n", None),
    "varbinary(max)": same(b"\0" * 9001, b"", None),
    "uniqueidentifier": (
        ["ffffffff-0000-0000-0000-00000000000a", None],
        ["FFFFFFFF-0000-0000-0000-00000000000A", None],
    ),
    "xml": same('<r><c a="1">ß 🚀</c></r>', None),
    "text": same("old “text”", None),
    "ntext": same("старый", None),
    "image": same(b"\x89PNG\0", None),
}

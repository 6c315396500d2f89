"""Values for keys of every type that an index may have: their ends, and what is easily confused."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

START = datetime(2024, 2, 29, 23, 59, 0)


def _moments(pattern: str, digits: int, *, zones: Sequence[str] = ("",)) -> list[str]:
    """Bursts of moments, one step of the type apart, some of them in another zone."""
    texts = []
    for number in range(60):
        second = START + timedelta(seconds=number // 3)
        fraction = f".{(number % 3) * (10 ** (digits - 1)) + number % 3:0{digits}d}" if digits else ""
        texts.append(second.strftime(pattern) + fraction + zones[number % len(zones)])
    return list(dict.fromkeys(texts))


# texts that are apart under a case-insensitive collation, with long common prefixes, quotes, blanks in front
TEXTS = [
    *("", "a", " a", "ab", "a b", "it's", "50% %(lo0)s", "{{ 1/0 }}", "]x[", "-- x", "z" * 20),
    *(f"{'common-prefix-'}{number:03d}" for number in range(60)),
]
WIDE_TEXTS = [*TEXTS, "ключ", "日本", "Ωmega", "émile", "🌺", "tab\t", "line\\\nbreak"]

KEY_VALUES: dict[str, list[Any]] = {
    "tinyint": [*range(0, 256, 5)],
    "smallint": [-32768, 32767, *range(-40, 40)],
    "int": [-(2**31), 2**31 - 1, *range(0, 700, 9)],
    "bigint": [-(2**63), 2**63 - 1, *range(80)],
    "decimal(5,2)": [Decimal(cents) / 100 for cents in range(-99999, 99999, 2999)],
    "decimal(38,0)": [Decimal("-" + "9" * 38), Decimal("9" * 38), *map(Decimal, range(80))],
    "decimal(38,10)": [Decimal("1234567890123456789012345678.0123456789") + n for n in range(60)],
    "money": [
        Decimal("-922337203685477.5808"),
        Decimal("922337203685477.5807"),
        *(Decimal(n) / 10000 for n in range(-30, 30)),
    ],
    "smallmoney": [Decimal("-214748.3648"), Decimal("214748.3647"), *(Decimal(n) / 10000 for n in range(60))],
    "real": [-3.4028234663852886e38, 3.4028234663852886e38, 1.17549435e-38, *(n / 7 for n in range(60))],
    "float": [-1.7976931348623157e308, 1.7e308, 1e-308, 0.1, -0.1, *(n / 7 for n in range(60))],
    "date": [
        "0001-01-01",
        "9999-12-31",
        *(f"2024-{m:02d}-{d:02d}" for m in (1, 2, 12) for d in range(1, 29)),
    ],
    "datetime": [
        "1753-01-01T00:00:00.000",
        "9999-12-31T23:59:59.997",
        *(f"2024-01-01T00:00:{s:02d}.{ms}" for s in range(20) for ms in ("000", "003", "007", "997")),
    ],
    "smalldatetime": [f"2024-01-01T{h:02d}:{m:02d}:00" for h in range(24) for m in (0, 1, 59)],
    **{
        f"datetime2({n})": ["0001-01-01 00:00:00", "9999-12-31 23:59:59", *_moments("%Y-%m-%d %H:%M:%S", n)]
        for n in range(8)
    },
    **{
        f"datetimeoffset({n})": _moments("%Y-%m-%d %H:%M:%S", n, zones=(" +00:00", " +02:00", " -05:30"))
        for n in range(8)
    },
    **{f"time({n})": ["00:00:00", *_moments("%H:%M:%S", n)] for n in range(8)},
    "char(20)": TEXTS,
    "varchar(20)": TEXTS,
    "varchar(20) COLLATE Latin1_General_BIN2": [*TEXTS, "A", "B"],
    "varchar(20) COLLATE Latin1_General_CS_AS": [*TEXTS, "A", "B"],
    "varchar(20) COLLATE Cyrillic_General_CI_AS": [*TEXTS, "телевизор", "Яблоко"],
    "nchar(20)": WIDE_TEXTS,
    "nvarchar(20)": WIDE_TEXTS,
    "nvarchar(20) COLLATE Latin1_General_100_BIN2": WIDE_TEXTS,
    "binary(4)": [(n * 2654435761 % 2**32).to_bytes(4, "big") for n in range(80)],
    "varbinary(8)": [(n * 2654435761 % 2**32 | 1).to_bytes(4 + n % 5, "big") for n in range(80)],
    "uniqueidentifier": [f"{n * 2654435761 % 2**32:08X}-0000-4000-8000-{n:012X}" for n in range(80)],
}

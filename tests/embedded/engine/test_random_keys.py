"""Random keys of each type: rendered text reads back as the same key, predicates agree with the order."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from airflow_provider_mssql_cdc.embedded.engine import Session

Random = random.Random
_STRINGS = ("varchar(12)", "nvarchar(12)", "char(6)")
_COLLATIONS = (
    "SQL_Latin1_General_CP1_CI_AS",
    "Latin1_General_CS_AS",
    "Latin1_General_CI_AI",
    "Latin1_General_BIN2",
    "Greek_CI_AS",
    "Latin1_General_100_CI_AS_SC_UTF8",
)


def _moment(r: Random, first_year: int, fraction: str) -> str:
    day = f"{r.randint(first_year, 2078):04d}-{r.randint(1, 12):02d}-{r.randint(1, 28):02d}"
    return f"{day}T{r.randint(0, 23):02d}:{r.randint(0, 59):02d}:00{fraction}"


def _guid(r: Random) -> str:
    node = r.choice([0, 1, r.getrandbits(48)])
    return f"{r.getrandbits(32):08X}-0000-{r.getrandbits(16):04X}-0000-{node:012X}"


def _sign(r: Random) -> str:
    return r.choice(["", "-"])


Case = tuple[str, Callable[[Random], str], str, str]
CASES: list[Case] = [
    (
        "decimal(38,2)",
        lambda r: f"{_sign(r)}{r.randint(0, 10 ** r.randint(0, 35))}.25",
        "CONVERT(varchar(41), {})",
        "",
    ),
    ("decimal(9,2)", lambda r: f"{_sign(r)}{r.randint(0, 9_999_999)}.5", "CONVERT(varchar(41), {})", ""),
    ("money", lambda r: f"{_sign(r)}{r.randint(0, 10**14)}.0001", "CONVERT(varchar(41), {}, 2)", ""),
    (
        "float",
        lambda r: repr(r.choice([0.0, -0.0, 5e-324, r.uniform(-1e20, 1e20)])),
        "CONVERT(varchar(40), {}, 3)",
        "",
    ),
    (
        "datetime",
        lambda r: _moment(r, 1753, f".{r.randint(0, 999):03d}"),
        "CONVERT(varchar(23), {}, 126)",
        "",
    ),
    ("smalldatetime", lambda r: _moment(r, 1900, ""), "CONVERT(varchar(19), {}, 126)", ""),
    (
        "datetime2(7)",
        lambda r: _moment(r, 1, f".{r.randint(0, 9999999):07d}"),
        "CONVERT(varchar(27), {}, 121)",
        "",
    ),
    (
        "datetimeoffset(7)",
        lambda r: _moment(r, 2078, r.choice([".0000001+00:00", "-14:00", "+05:30"])),
        "CONVERT(varchar(34), {}, 121)",
        "",
    ),
    ("uniqueidentifier", _guid, "CONVERT(varchar(36), {})", ""),
    (
        "varbinary(8)",
        lambda r: "0x" + "".join(r.choice(["00", "01", "FF"]) for _ in range(r.randint(0, 8))),
        "CONVERT(varchar(18), {}, 1)",
        "CONVERT(varbinary(8), {}, 1)",
    ),
    *(
        (
            f"{base} COLLATE {name}",
            lambda r: "".join(r.choice("aAbBáÁ _-1 ") for _ in range(r.randint(0, 5))),
            "CAST({} AS nvarchar(12))",
            f"CAST({{}} COLLATE {name} AS {base})",
        )
        for base in _STRINGS
        for name in _COLLATIONS
    ),
]


@pytest.mark.parametrize(("declared", "make", "render", "bound"), CASES, ids=[c[0] for c in CASES])
def test_predicates_with_rendered_bounds_cut_the_order(
    session: Session, declared: str, make: Callable[[Random], str], render: str, bound: str
) -> None:
    seeded = random.Random(declared)
    typed = (bound or f"CAST({{}} AS {declared})").format("@p1")
    session.run(
        f"CREATE TABLE t (id int IDENTITY PRIMARY KEY, k {declared} NULL); CREATE INDEX by_k ON t (k)"
    )
    for _ in range(40):
        session.run(f"INSERT INTO t (k) VALUES ({typed})", make(seeded))
    session.run("INSERT INTO t (k) VALUES (NULL)")
    ordered = session.rows(f"SELECT id, {render.format('k')} FROM t ORDER BY k, id")
    ids = [number for number, _ in ordered]

    def found(condition: str, text: str) -> list[int]:
        return [number for (number,) in session.rows(f"SELECT id FROM t WHERE {condition}", text)]

    for number, text in ordered[1:]:
        below = found(f"(k < {typed} OR k IS NULL)", text)
        from_it = found(f"k >= {typed}", text)
        equal = found(f"k = {typed}", text)
        assert number in equal
        assert set(below) == set(ids[: len(below)])
        assert set(from_it) == set(ids[len(below) :])
        assert sorted(found(f"k > {typed}", text) + equal) == sorted(from_it)
    assert session.plan(f"SELECT id FROM t WHERE k >= {typed}", ordered[-1][1]).startswith("SEARCH")
    groups = session.rows("SELECT COUNT(*) FROM (SELECT k FROM t GROUP BY k) AS q")
    assert groups == session.rows("SELECT COUNT(DISTINCT k) + 1 FROM t")

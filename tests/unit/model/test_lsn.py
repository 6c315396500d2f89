"""LSNs: what can be built, how they are ordered, and how a Delta transaction carries them."""

from __future__ import annotations

import pytest

from airflow_provider_mssql_cdc.model.lsn import Lsn

SAMPLE = "0x00000025000005A80003"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0x",
        "00000025000005A80003",
        "0x25",
        SAMPLE + "00",
        "0x0000002500000XA80003",
        7,
        None,
        SAMPLE + "\n",
    ],
)
def test_only_0x_and_twenty_hex_digits_are_an_lsn(text: object) -> None:
    with pytest.raises(ValueError, match="20 hex digits"):
        Lsn.parse(text)  # type: ignore[arg-type]


def test_zero_is_no_position() -> None:
    with pytest.raises(ValueError, match="1 to 80 bits"):
        Lsn.parse("0x" + "0" * 20)
    with pytest.raises(ValueError, match="1 to 80 bits"):
        Lsn(1 << 80)


@pytest.mark.parametrize(
    ("answer", "position"),
    [
        (None, None),
        ("", None),
        ("0x" + "0" * 20, None),
        ("0x", None),
        (SAMPLE.lower().replace("0X", "0x"), SAMPLE),
    ],
)
def test_null_and_zero_from_the_server_mean_no_position(answer: str | None, position: str | None) -> None:
    found = Lsn.from_server(answer)
    assert (found.text if found else None) == position


def test_text_order_is_lsn_order() -> None:
    lsns = [Lsn(value) for value in (1, 9, 10, 0xFF, 1 << 40, (1 << 80) - 1)]
    assert sorted(lsns, key=lambda lsn: lsn.text) == sorted(lsns) == lsns


@pytest.mark.parametrize("value", [1, (1 << 40) - 1, 1 << 40, (1 << 80) - 1])
def test_two_halves_of_forty_bits_carry_an_lsn(value: int) -> None:
    lsn = Lsn(value)
    assert Lsn.from_halves(lsn.hi, lsn.lo) == lsn
    assert 0 <= lsn.hi < 1 << 40
    assert 0 <= lsn.lo < 1 << 40


def test_halves_beyond_forty_bits_are_refused() -> None:
    with pytest.raises(ValueError, match="40 bits"):
        Lsn.from_halves(1 << 40, 0)


def test_increment_and_decrement_cross_the_halves() -> None:
    lsn = Lsn((1 << 40) - 1)
    assert lsn.incremented() == Lsn(1 << 40)
    assert lsn.incremented().decremented() == lsn
    assert str(lsn) == lsn.text

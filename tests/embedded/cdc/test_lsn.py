import random

import pytest

from airflow_provider_mssql_cdc.embedded.cdc import lsn


@pytest.mark.parametrize("value", ["0x00", "", b"\x00" * 9, "0x" + "0" * 22])
def test_only_ten_bytes_are_an_lsn(value):
    with pytest.raises(ValueError, match="10 bytes"):
        lsn.parse(value)


def test_a_log_only_ever_moves_up_over_blocks_and_files():
    position = lsn.LogPosition(file=0x25, block=0x1FF00)
    dice = random.Random(7)
    written = []
    for _ in range(20_000):
        written.append(position.record())
        if dice.random() < 0.1:
            position.flush()
    assert written == sorted(set(written))
    assert int.from_bytes(written[-1][:4], "big") > 0x25
    assert all(int.from_bytes(value[8:], "big") >= 1 for value in written)


def test_a_position_is_found_again_from_its_lsn():
    position = lsn.LogPosition()
    for _ in range(5):
        position.record()
    assert lsn.LogPosition.at(position.lsn()) == position


@pytest.mark.parametrize("records", [0, 1, 638, 639, 640, 641, 1280, 5000])
def test_skipping_records_is_writing_that_many(records):
    written, skipped = lsn.LogPosition(slot=3), lsn.LogPosition(slot=3)
    for _ in range(records):
        written.record()
    skipped.skip(records)
    assert skipped == written

import pytest

from airflow_provider_mssql_cdc.embedded.cdc.images import RowChange, Shape, Storage, change_rows, update_mask

COMMIT = b"commit_lsn"
FULL = b"\x07"


def shape(*, storages=(Storage.PLAIN,) * 3, positions=(0, 1, 2), key=(0,)):
    return Shape(positions, storages, key)


def changes(*rows):
    """``(statement, operation, old, new)`` with seqvals s0a, s0b, s1a ..."""
    return [
        RowChange(statement, operation, old, new, b"s%da" % i, b"s%db" % i)
        for i, (statement, operation, old, new) in enumerate(rows)
    ]


def written(rows, shape=None, key_updates="pair"):
    """The change rows as (command id, seqval, operation, values)."""
    found = change_rows(
        rows, shape or Shape((0, 1, 2), (Storage.PLAIN,) * 3, (0,)), start_lsn=COMMIT, key_updates=key_updates
    )
    return [(row[-1], row[2], row[3], row[5:-1]) for row in found]


A, B, A2 = (1, "a", "x"), (2, "b", "y"), (1, "a2", "x")


def test_rows_of_a_commit_count_their_commands_and_keep_their_seqvals():
    assert written(changes((1, 2, None, A), (1, 2, None, B), (2, 1, B, None), (3, 4, A, A2))) == [
        (1, b"s0a", 2, A),
        (2, b"s1a", 2, B),
        (3, b"s2a", 1, B),
        (4, b"s3a", 3, A),
        (4, b"s3a", 4, A2),
    ]


def test_a_row_carries_commit_lsn_no_end_lsn_and_all_mask_bits_on_insert():
    (row,) = change_rows(changes((1, 2, None, A)), shape(), start_lsn=COMMIT)
    assert row == (COMMIT, None, b"s0a", 2, FULL, *A, 1)


def test_one_row_that_changes_its_key_is_a_delete_and_an_insert_of_one_seqval():
    moved = (9, "a", "x")
    assert written(changes((1, 4, A, moved))) == [(1, b"s0a", 1, A), (1, b"s0a", 2, moved)]


def test_a_key_update_is_written_as_images_when_asked():
    moved = (9, "a", "x")
    assert written(changes((1, 4, A, moved)), key_updates="images") == [
        (1, b"s0a", 3, A),
        (1, b"s0a", 4, moved),
    ]


@pytest.mark.parametrize("key_updates", ["pair", "images"])
def test_two_rows_that_swap_keys_collapse_into_two_updates(key_updates):
    swapped = changes((1, 4, (1, "a", "x"), (2, "a", "x")), (1, 4, (2, "b", "y"), (1, "b", "y")))
    assert written(swapped, key_updates=key_updates) == [
        (1, b"s0a", 3, (1, "a", "x")),
        (1, b"s0a", 4, (1, "b", "y")),
        (2, b"s0b", 3, (2, "b", "y")),
        (2, b"s0b", 4, (2, "a", "x")),
    ]


@pytest.mark.parametrize("key_updates", ["pair", "images"])
def test_keys_that_move_up_by_one_delete_the_first_and_insert_the_last(key_updates):
    shifted = changes(*((1, 4, (k, f"r{k}", "x"), (k + 1, f"r{k}", "x")) for k in (1, 2, 3)))
    assert [(op, values[:2]) for _, _, op, values in written(shifted, key_updates=key_updates)] == [
        (1, (1, "r1")),
        (3, (2, "r2")),
        (4, (2, "r1")),
        (3, (3, "r3")),
        (4, (3, "r2")),
        (2, (4, "r3")),
    ]


def test_seqvals_of_a_split_statement_rise_in_the_order_of_its_rows():
    shifted = changes(*((1, 4, (k, "r", "x"), (k + 10, "r", "x")) for k in range(5)))
    rows = written(shifted)
    assert [row[1] for row in rows] == sorted(row[1] for row in rows)
    assert [row[2] for row in rows] == [1] * 5 + [2] * 5


def test_an_update_that_changes_no_captured_column_writes_nothing():
    narrow = shape(storages=(Storage.PLAIN,) * 2, positions=(0, 1))
    assert written(changes((1, 4, A, (1, "a", "other"))), narrow) == []


def test_the_mask_names_the_columns_that_changed_from_the_last_byte_on():
    wide = Shape(tuple(range(9)), (Storage.PLAIN,) * 9, (0,))
    old = tuple(range(9))
    rows = list(change_rows(changes((1, 4, old, (0, 99, *old[2:8], 77))), wide, start_lsn=COMMIT))
    assert [row[4] for row in rows] == [b"\x01\x02", b"\x01\x02"]
    assert update_mask(range(9), 9) == b"\x01\xff"


@pytest.mark.parametrize(
    ("storage", "operation", "old", "new", "expected"),
    [
        (Storage.MAX, 4, "big", "big", [(3, None), (4, "big")]),
        (Storage.MAX, 4, "big", "new", [(3, "big"), (4, "new")]),
        (Storage.MAX, 1, "big", None, [(1, "big")]),
        (Storage.TEXT, 4, "big", "new", [(3, None), (4, "new")]),
        (Storage.TEXT, 1, "big", None, [(1, None)]),
        (Storage.TEXT, 2, None, "new", [(2, "new")]),
        (Storage.COMPUTED, 2, None, "new", [(2, None)]),
        (Storage.COMPUTED, 1, "old", None, [(1, None)]),
        (Storage.COMPUTED, 4, "old", "new", [(3, None), (4, None)]),
    ],
)
def test_large_and_computed_columns_are_null_where_the_log_does_not_hold_them(
    storage, operation, old, new, expected
):
    of = shape(storages=(Storage.PLAIN, Storage.PLAIN, storage))
    before = None if operation == 2 else (1, "was", old)
    after = None if operation == 1 else (1, "is", new)
    rows = written(changes((1, operation, before, after)), of)
    assert [(op, values[2]) for _, _, op, values in rows] == expected


def test_a_column_that_was_dropped_stays_null():
    dropped = shape(positions=(0, None, 2))
    assert written(changes((1, 2, None, A)), dropped) == [(1, b"s0a", 2, (1, None, "x"))]


def test_statements_known_not_to_move_keys_are_passed_on_without_being_collected():
    seen = []

    def endless():
        for i in range(1_000_000):
            seen.append(i)
            yield RowChange(1, 2, None, (i, "a", "x"), b"%07d" % i, b"")

    rows = change_rows(endless(), shape(), start_lsn=COMMIT, moving=())
    assert [next(rows)[5] for _ in range(3)] == [0, 1, 2]
    assert len(seen) <= 4

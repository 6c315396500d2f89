"""What the LSN functions answer: nothing yet, lagging, cleaned up, out of range."""

from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_mssql_cdc.embedded.cdc import lsn
from airflow_provider_mssql_cdc.embedded.seam import SqlError


def one(server, sql, *parameters):
    return server.execute(sql, *parameters)[0][0]


def max_lsn(server):
    return one(server, "SELECT sys.fn_cdc_get_max_lsn()")


def min_lsn(server, name="dbo_t"):
    return one(server, "SELECT sys.fn_cdc_get_min_lsn(?)", name)


def start_lsn(server, name="dbo_t"):
    rows = server.execute("EXEC sys.sp_cdc_help_change_data_capture")
    return next(row[5] for row in rows if row[2] == name)


def insert(server, key):
    server.execute("INSERT dbo.t VALUES (?, N'x', 1)", key)


def test_a_database_that_never_captured_has_no_max_lsn_and_its_instance_a_zero_min_lsn(tracked):
    assert max_lsn(tracked) is None
    assert min_lsn(tracked) == lsn.ZERO
    assert start_lsn(tracked) > lsn.ZERO


def test_a_database_without_cdc_has_no_max_lsn(server):
    assert max_lsn(server) is None
    assert min_lsn(server) == lsn.ZERO


def test_a_quiet_database_stays_below_a_new_instance_until_an_idle_entry_passes_it(tracked):
    insert(tracked, 1)
    tracked.execute("CREATE TABLE dbo.u (id int PRIMARY KEY)")
    tracked.enable_cdc("dbo.u")
    assert max_lsn(tracked) < start_lsn(tracked, "dbo_u")
    assert min_lsn(tracked, "dbo_u") == lsn.ZERO
    tracked.idle()
    assert max_lsn(tracked) > start_lsn(tracked, "dbo_u")
    assert min_lsn(tracked, "dbo_u") == start_lsn(tracked, "dbo_u")


@pytest.mark.parametrize("name", ["none", "", "dbo_t2"])
def test_an_unknown_instance_has_a_zero_min_lsn(tracked, name):
    insert(tracked, 1)
    assert min_lsn(tracked, name) == lsn.ZERO


def test_an_instance_is_found_under_the_databases_collation(tracked):
    insert(tracked, 1)
    assert min_lsn(tracked, "DBO_T") == min_lsn(tracked, "dbo_t") != lsn.ZERO
    tracked.create_database("exact", collation="Latin1_General_CS_AS")
    tracked.execute("CREATE TABLE dbo.t (id int PRIMARY KEY)", database="exact")
    tracked.enable_cdc("dbo.t", database="exact")
    tracked.idle(database="exact")
    answers = tracked.execute(
        "SELECT sys.fn_cdc_get_min_lsn('DBO_T'), sys.fn_cdc_get_min_lsn('dbo_t')", database="exact"
    )[0]
    assert answers[0] == lsn.ZERO != answers[1]


def test_rows_are_read_before_capture_has_them_in_manual_mode(tracked):
    insert(tracked, 1)
    before = max_lsn(tracked)
    tracked.capture_mode = "manual"
    insert(tracked, 2)
    insert(tracked, 3)
    assert tracked.execute("SELECT id FROM dbo.t ORDER BY id") == [(1,), (2,), (3,)]
    assert max_lsn(tracked) == before
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT") == [(1,)]
    assert tracked.capture(commits=1) == 1
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY id") == [(1,), (2,)]
    assert tracked.capture() == 1
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY id") == [(1,), (2,), (3,)]
    assert tracked.capture() == 0


def test_commit_times_are_those_of_the_commit_not_of_its_capture(tracked):
    tracked.capture_mode = "manual"
    tracked.clock.freeze(datetime(2026, 5, 1, 10, tzinfo=UTC))
    insert(tracked, 1)
    tracked.clock.shift(timedelta(hours=2))
    tracked.capture()
    times = tracked.execute("SELECT tran_end_time FROM cdc.lsn_time_mapping")
    assert times == [(datetime(2026, 5, 1, 10),)]


def test_a_stopped_job_captures_nothing_and_catches_up_when_it_starts(tracked):
    tracked.stop_capture()
    insert(tracked, 1)
    assert (tracked.capture(), tracked.idle(), max_lsn(tracked)) == (0, None, None)
    tracked.start_capture()
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT") == [(1,)]


def test_a_commit_between_two_waiting_ones_keeps_its_place(tracked):
    tracked.execute("CREATE TABLE dbo.u (id int PRIMARY KEY)")
    tracked.enable_cdc("dbo.u")
    tracked.capture_mode = "manual"
    for table in "tut":
        tracked.execute(
            f"INSERT dbo.{table} {'(id)' if table == 't' else ''} SELECT COUNT(*) FROM dbo.{table}"
        )
    assert tracked.capture(commits=2) == 2
    u = one(tracked, "SELECT [__$start_lsn] FROM cdc.dbo_u_CT")
    tracked.capture_mode = "auto"
    insert(tracked, 9)
    lsns = [row[0] for row in tracked.execute("SELECT [__$start_lsn] FROM cdc.dbo_t_CT ORDER BY 1")]
    assert lsns[0] < u < lsns[1] < lsns[2]


def test_an_idle_entry_has_a_time_and_no_transaction(tracked):
    tracked.clock.freeze(datetime(2026, 5, 1, 10, tzinfo=UTC))
    entry = tracked.idle()
    assert one(tracked, "SELECT CONVERT(varchar(22), sys.fn_cdc_get_max_lsn(), 1)") == entry
    assert tracked.execute("SELECT tran_end_time, tran_id FROM cdc.lsn_time_mapping") == [
        (datetime(2026, 5, 1, 10), b"\x00")
    ]


def test_a_time_is_known_for_commits_and_for_nothing_else(tracked):
    tracked.time_zone = "Europe/Berlin"
    tracked.clock.freeze(datetime(2026, 7, 1, 10, tzinfo=UTC))
    insert(tracked, 1)
    assert one(tracked, "SELECT sys.fn_cdc_map_lsn_to_time(sys.fn_cdc_get_max_lsn())") == datetime(
        2026, 7, 1, 12
    )
    between = "SELECT sys.fn_cdc_map_lsn_to_time(CONVERT(binary(10), '0x00000000000000000001', 1))"
    assert one(tracked, between) is None
    assert one(tracked, "SELECT sys.fn_cdc_map_lsn_to_time(NULL)") is None


@pytest.mark.parametrize(
    ("relation", "at", "expected"),
    [
        ("largest less than", 10, None),
        ("largest less than", 11, 0),
        ("largest less than or equal", 11, 1),
        ("largest less than or equal", 99, 2),
        ("smallest greater than", 11, 2),
        ("smallest greater than", 12, None),
        ("smallest greater than or equal", 11, 1),
        ("smallest greater than or equal", 9, 0),
        ("no such relation", 11, None),
    ],
)
def test_a_time_is_mapped_by_four_relations(tracked, relation, at, expected):
    for minute in (10, 11, 12):
        tracked.clock.freeze(datetime(2026, 5, 1, 8, minute, tzinfo=UTC))
        insert(tracked, minute)
    known = [
        row[0] for row in tracked.execute("SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn")
    ]
    moment = datetime(2026, 5, 1, 8, at) if at < 60 else datetime(2026, 5, 1, 9)
    found = one(tracked, "SELECT sys.fn_cdc_map_time_to_lsn(?, ?)", relation, moment)
    assert found == (None if expected is None else known[expected])


def test_cleanup_raises_the_low_watermark_before_it_deletes(tracked):
    for key in (1, 2, 3):
        insert(tracked, key)
    lsns = [
        row[0] for row in tracked.execute("SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn")
    ]
    seen = []

    def look():
        seen.append((min_lsn(tracked), tracked.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY id")))

    assert tracked.cleanup("dbo_t", up_to=lsn.text(lsns[1]), between=look) == lsn.text(lsns[1])
    assert seen == [(lsns[1], [(1,), (2,), (3,)])]
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY id") == [(2,), (3,)]
    assert start_lsn(tracked) == min_lsn(tracked) == lsns[1]
    assert [
        row[0] for row in tracked.execute("SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY 1")
    ] == lsns[1:]


def test_cleanup_by_time_keeps_the_last_of_it(tracked):
    tracked.clock.freeze(datetime(2026, 5, 1, tzinfo=UTC))
    for key in range(6):
        insert(tracked, key)
        tracked.clock.shift(timedelta(days=1))
    tracked.cleanup()
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY id") == [(3,), (4,), (5,)]
    tracked.cleanup(keep=timedelta(days=1))
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY id") == [(5,)]
    tracked.clock.shift(timedelta(days=30))
    tracked.cleanup()
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT ORDER BY id") == [(5,)]


def test_cleanup_of_one_instance_leaves_the_other_and_the_times_it_needs(tracked):
    tracked.enable_cdc("dbo.t", capture_instance="second")
    for key in (1, 2, 3):
        insert(tracked, key)
    before = min_lsn(tracked, "second")
    tracked.cleanup("dbo_t", up_to=max_lsn(tracked))
    assert tracked.execute("SELECT id FROM cdc.dbo_t_CT") == [(3,)]
    assert tracked.execute("SELECT id FROM cdc.second_CT ORDER BY id") == [(1,), (2,), (3,)]
    assert min_lsn(tracked, "second") == before
    assert one(tracked, "SELECT COUNT(*) FROM cdc.lsn_time_mapping") == 3


def test_cleanup_never_raises_a_low_watermark_above_what_was_captured(tracked):
    insert(tracked, 1)
    with pytest.raises(SqlError) as caught:
        tracked.cleanup(up_to=b"\xff" * 10)
    assert caught.value.number == 22957

"""A random history, replayed from the change table by rules of its own, is the table at every commit."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from airflow_provider_mssql_cdc.embedded import EmbeddedSqlServer

KEYS = st.integers(0, 6)
VALUES = st.one_of(st.none(), st.integers(0, 3))

STATEMENTS = st.one_of(
    st.tuples(st.just("insert"), KEYS, VALUES),
    st.tuples(st.just("insert two"), KEYS, KEYS),
    st.tuples(st.just("update"), KEYS, VALUES),
    st.tuples(st.just("update all"), st.integers(0, 3), VALUES),
    st.tuples(st.just("delete"), KEYS, st.just(None)),
    st.tuples(st.just("delete below"), KEYS, st.just(None)),
    st.tuples(st.just("move"), KEYS, KEYS),
    st.tuples(st.just("swap"), KEYS, KEYS),
    st.tuples(st.just("shift"), st.sampled_from([-1, 1, 3]), KEYS),
    st.tuples(st.just("move and set"), KEYS, KEYS),
)
TRANSACTIONS = st.lists(
    st.tuples(
        st.lists(STATEMENTS, min_size=1, max_size=4), st.sampled_from(["commit", "commit", "rollback"])
    ),
    max_size=12,
)


def sql(kind, a, b):
    """One statement over dbo.t (id, v, note); it touches nothing when it would break the key."""
    v = "NULL" if b is None else b
    free = "NOT EXISTS (SELECT 1 FROM dbo.t WHERE id = {})"
    return {
        "insert": f"INSERT dbo.t SELECT {a}, {v}, N'new' WHERE {free.format(a)}",
        "insert two": f"INSERT dbo.t SELECT n, {v}, N'two' FROM (VALUES ({a}), ({a} + 10)) AS x(n) "
        "WHERE NOT EXISTS (SELECT 1 FROM dbo.t AS o WHERE o.id = n)",
        "update": f"UPDATE dbo.t SET v = {v} WHERE id = {a}",
        "update all": f"UPDATE dbo.t SET v = {v} WHERE v >= {a}",
        "delete": f"DELETE dbo.t WHERE id = {a}",
        "delete below": f"DELETE dbo.t WHERE id < {a} - 2",
        "move": f"UPDATE dbo.t SET id = {v} WHERE id = {a} AND {free.format(v)}",
        "swap": f"UPDATE dbo.t SET id = CASE id WHEN {a} THEN {v} ELSE {a} END WHERE id IN ({a}, {v}) "
        f"AND {a} <> {v} AND EXISTS (SELECT 1 FROM dbo.t WHERE id = {a}) "
        f"AND EXISTS (SELECT 1 FROM dbo.t WHERE id = {v})",
        "shift": f"UPDATE dbo.t SET id = id + {a}",
        "move and set": f"UPDATE dbo.t SET id = {v}, v = 9 WHERE id = {a} AND {free.format(v)}",
    }[kind]


def replay(rows, until):
    """Apply change rows one by one; raises when one does not fit the state it meets."""
    state = {}
    for lsn, _, _, operation, key, *values in rows:
        if lsn > until:
            break
        if operation in (1, 3):
            assert state.pop(key) == values
        else:
            assert key not in state
            state[key] = values
    return state


def latest(rows, until):
    """The latest row of each key; a delete or a before-image drops it."""
    last = {row[4]: row for row in rows if row[0] <= until}
    return {key: row[5:] for key, row in last.items() if row[3] in (2, 4)}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    history=TRANSACTIONS,
    key_updates=st.sampled_from(["pair", "images"]),
    lag=st.booleans(),
    second_at=st.integers(0, 12),
)
def test_replaying_the_change_table_gives_the_table_as_of_every_commit(history, key_updates, lag, second_at):
    with EmbeddedSqlServer() as server:
        server.execute("CREATE TABLE dbo.t (id int PRIMARY KEY, v int NULL, note nvarchar(10) NOT NULL)")
        server.enable_cdc("dbo.t")
        server.key_updates = key_updates
        server.capture_mode = "manual" if lag else "auto"
        states = []
        born = None
        with server.session() as session:
            for number, (statements, ending) in enumerate(history):
                if number == second_at:
                    server.enable_cdc("dbo.t", capture_instance="second")
                    born = dict(table(server))
                session.run("BEGIN TRAN")
                for statement in statements:
                    session.run(sql(*statement))
                session.run(ending)
                states.append(table(server))
        server.capture()
        check(server, states, "dbo_t")
        if born is not None:
            rows = changes(server, "second")
            assert latest_over(born, rows) == table(server)


def latest_over(base, rows):
    state = dict(base)
    for _, _, _, operation, key, *values in rows:
        if operation in (1, 3):
            del state[key]
        else:
            state[key] = values
    return state


def table(server):
    return {key: values for key, *values in server.execute("SELECT id, v, note FROM dbo.t")}


def changes(server, instance):
    return server.execute(
        "SELECT [__$start_lsn], [__$command_id], [__$seqval], [__$operation], id, v, note "
        f"FROM cdc.[{instance}_CT] "
        "ORDER BY [__$start_lsn], [__$command_id], [__$seqval], [__$operation]"
    )


def check(server, states, instance):
    """Every state that was seen is reached, in order, and the last one is the table."""
    rows = changes(server, instance)
    lsns = [row[0] for row in server.execute("SELECT start_lsn FROM cdc.lsn_time_mapping ORDER BY start_lsn")]
    reached = [replay(rows, lsn) for lsn in lsns]
    assert reached == [latest_as_lists(rows, lsn) for lsn in lsns]
    seen = [state for state, before in zip(states, [{}, *states], strict=False) if state != before]
    assert [state for state, before in zip(reached, [{}, *reached], strict=False) if state != before] == seen
    assert (reached[-1] if reached else {}) == table(server)


def latest_as_lists(rows, lsn):
    return {key: list(values) for key, values in latest(rows, lsn).items()}

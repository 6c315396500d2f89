"""The T-SQL engine of the embedded server: databases, statements, transactions; no protocol, no CDC.

One SQLite file (WAL) per database. A hand-written T-SQL parser gives a tree, a typed compiler turns
it into SQLite SQL and result types. Stored values are those of ``embedded.seam``; SQLite's own
comparison, with collations that this package registers, is SQL Server's order.

What extends the engine (change data capture does) finds it here.

**Ways in**::

    engine = Engine(directory)                      # databases master, tempdb, model and msdb exist
    session = engine.login("sa", password, "shop")  # SqlError 18456, 4060
    session.execute("SELECT 1")                     # yields ResultSet | RowCount | Message
    session.rows("SELECT ...")                      # all rows of the last result, Python values
    session.run("INSERT ...")                       # runs everything, returns rows touched
    session.executemany("INSERT INTO t VALUES (?, ?)", rows)
    engine.system_session("shop")                   # sysadmin, no password; not counted as a client
    session.plan("SELECT ...")                      # SQLite's query plan
    engine.utc_units = clock; engine.time_zone = "Europe/Berlin"    # GETDATE and its like

**The catalog** (``catalog.Catalog``) of a database is one pickled value inside its SQLite file, so it is
as transactional as the rows are: ``session.catalog()`` is the current, shared and never changed in
place. ``Catalog.table("dbo", "t")`` gives a ``Table``: ``object_id``, ``schema``, ``name``,
``columns`` (``Column``: ``name``, ``type``, ``column_id``, ``nullable``, ``computed``, ...),
``indexes`` (``Index``: ``name``, ``columns`` of (name, descending), ``unique``, ``primary_key``),
``tracked_by_cdc`` (yours to set; it makes TRUNCATE fail with 4711 and shows in ``sys.tables``).
``Table.storage`` and ``Column.storage`` are the names in the SQLite file: quote them with
``names.quote``; never assume that they equal the T-SQL names (two names may differ by case only).
``Catalog.cdc_enabled`` is the database's flag. ``Catalog.extra`` is a dict of yours, pickled along.

**Writing from Python**: inside a procedure, or anywhere with a session::

    with session.write() as write:          # takes the writer lock (1222), joins an open transaction
        write.connection.execute(...)       # sqlite3.Connection, stored values
        catalog = write.edit_catalog()      # a private copy to change ...
        catalog.add_table(...)              # (creates no SQLite table)
        write.save_catalog(catalog)
        create_system_table(write, "cdc", "lsn_time_mapping", columns, primary_key=("start_lsn",))
    # leaving commits when no transaction was open, else leaves that to the session

    session.read_connection()               # where a SELECT of this session would read now

``create_system_table`` (in ``ddl``) makes table and catalog entry in one go; ``drop_table`` removes both.

**Registries** (names are matched ignoring case, with or without ``sys.``)::

    engine.register_procedure("sys.sp_cdc_enable_db", function, parameters=())
        # function(session, arguments: dict[str, Parameter]) -> Iterable[Outcome] | None
        # Outcome: ResultSet | RowCount | Message; arguments by lower-case name without "@";
        # positional ones are named by ``parameters``
    engine.register_scalar("sys.fn_cdc_get_max_lsn", function, returns=SqlType("binary", length=10),
                           parameters=(SqlType(...), ...))
        # function(session, *stored_values) -> stored value; arguments are converted to the parameters'
        # types first; may read through ``session.active_connection`` (the statement's own snapshot);
        # called once per statement when its arguments are constant and ``constant=True`` (the default)
    results.result_set(columns, rows) makes a ResultSet from Python lists of stored values

**Hooks**, lists of functions on ``engine.hooks``::

    commit(session, write)               inside the SQLite transaction, before COMMIT, if it wrote
    committed(session, database)         after COMMIT, writer lock released
    ddl(session, write, kind, table, text)  after "create table", "alter table", "drop table",
                                         "create index", ... in the same transaction; after "alter table"
                                         the SQLite table may have been rebuilt: triggers are gone
    before_statement(session, text)      before each statement and RPC; may raise SqlError or
                                         DropConnection, sleep, run SQL on another session
    after_statement(session, text)
    wrap_batches(session, text, batches) -> batches    around the rows of each result
    drop_database(name)

**Order of changes**: AFTER triggers on ``table.storage`` may call these SQL functions, which every
connection of the engine knows: ``session_transaction()``, the number of the writing transaction, rising in
commit order within a database, and ``session_statement()``, the number of the DML statement in it,
from 1. Both are also ``session.transaction_number`` and ``session.statement_number``. An ``executemany``
of a plain INSERT counts as one statement.

**Replicas**: ``engine.add_replica("secondary")`` makes a second, read-only set of files;
``engine.redo("secondary")`` brings them to the primary's last commit (SQLite's backup API). Nothing else
moves them, so a replica is behind until the next redo. ``engine.login(..., replica="secondary")`` reads
there. ``session.replica`` is its name or None.

**Counting**: ``with engine.count_reads() as reads: ...`` then ``reads.statements``: a list of
``StatementReads(sql, tables: {"dbo.t": rows visited})``.
"""

from __future__ import annotations

from airflow_provider_mssql_cdc.embedded.engine.run.engine import Engine
from airflow_provider_mssql_cdc.embedded.engine.run.session import Session
from airflow_provider_mssql_cdc.embedded.engine.run.transactions import WriteTransaction
from airflow_provider_mssql_cdc.embedded.engine.schema.objects import Catalog, Column, Index, Table
from airflow_provider_mssql_cdc.embedded.engine.schema.tables import create_system_table, drop_table

__all__ = [
    "Catalog",
    "Column",
    "Engine",
    "Index",
    "Session",
    "Table",
    "WriteTransaction",
    "create_system_table",
    "drop_table",
]

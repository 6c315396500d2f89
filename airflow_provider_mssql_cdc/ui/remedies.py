"""What to do about each error: the table "What each error means" of docs/operations.md, as plain text."""

from __future__ import annotations

HELP = "https://github.com/airflow-provider-mssql-cdc/airflow-provider-mssql-cdc/blob/main/docs/operations.md"
"""Address of the document that has the table."""

RETRYABLE = {
    "DeadlockVictim": "nothing; if it comes back, see the system_health session for who else is in it",
    "LockTimeout": (
        "nothing; if it comes back, raise lock_timeout_seconds in the connection, or read with "
        'isolation="snapshot"'
    ),
    "ServerUnreachable": (
        "read the message: a restarting server comes back, a typo in host or port does not; the "
        'connection\'s "Test" says the same at once'
    ),
    "ConnectionBroken": "nothing; if it comes back, look at the network, and at query_timeout_seconds",
    "ServerBusy": "nothing, or wait and clear the task",
    "ReplicaBehind": "nothing; if it comes back, read from the primary, or look at the replica's redo",
    "NotReadyYet": (
        "on a quiet database commit something in a tracked table, or wait for the idle entry that "
        "capture writes about every five minutes; if it does not come, look at the capture job"
    ),
    "CountsDiffer": (
        'nothing; on a table that is written to, use isolation="snapshot" or leave verify_counts out'
    ),
    "StorageFailed": "read what the message says of the store; look at delta_conn_id or storage_options",
    "CommitConflict": "clear the task; fewer writers at a time, by a pool",
}
PERMANENT = {
    "ConfigurationError": (
        "correct what the message names, clear the task; a plan of an older DAG file: clear plan"
    ),
    "PreflightFailed": "settle every problem that the message lists, clear plan",
    "LoginFailed": "correct the Airflow connection, clear the task",
    "PermissionDenied": "run the GRANT of the message, clear the task",
    "SourceObjectMissing": "look at the names; if the instance was made again, see RetentionGap",
    "StatementFailed": (
        "look the number up in SQL Server's documentation; report it if the statement is ours"
    ),
    "UnsupportedKey": "name key or split_by; without either the table is read as one range",
    "ValueDoesNotFit": "name a wider type, or text, in casts; clear plan",
    "IsolationRefused": "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON, or leave isolation out",
    "RetentionGap": (
        'a snapshot that took too long: a new run, a longer retention, or mode="chunked"; changes '
        "that fell behind: a new run with resnapshot"
    ),
    "SchemaDrift": "read schema-changes.md; a plan older than the change: clear plan",
    "Superseded": "nothing: use the later one; a new run returns it",
    "ForeignTable": (
        'name another path; if the database moved, or a table was replaced, read "Moving a database" '
        'or "Another table has the name"'
    ),
    "StateDamaged": (
        "do what the message says: undo the RESTORE of bronze, take a new snapshot, or load into a "
        "new bronze path"
    ),
    "SilverDiffers": (
        "the row in <silver>_reconcile has the counts, columns and keys; find out what else writes "
        "silver or the source's change tables, take a new snapshot "
        "(mssql_cdc_bootstrap(resnapshot=True)), merge"
    ),
    "IncompletePlan": "clear the ranges that are named, or plan, with downstream",
}


def remedy_of(error: str) -> tuple[str, str] | None:
    """Return what to do about an error class, and the address that says more; None for an unknown class."""
    if error in RETRYABLE:
        return RETRYABLE[error], f"{HELP}#tried-again-by-airflow"
    return (PERMANENT[error], f"{HELP}#fail-at-once") if error in PERMANENT else None

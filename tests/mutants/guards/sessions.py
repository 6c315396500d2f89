"""Guards of sessions: what the reads rest on, stated after the user's own settings; errors that pass."""

from __future__ import annotations

from tests.mutants.mutant import MODULE, Mutant

SETTINGS = "tests/unit/source/test_session_settings.py"
WHOLE = f"{SETTINGS}::test_rows_are_whole_and_committed_whatever_the_connection_sets"
NOTHING = '"SET NOCOUNT OFF"'

MUTANTS = (
    Mutant("P1 ROWCOUNT of the connection cuts no range", MODULE, '"SET ROWCOUNT 0"', NOTHING, WHOLE),
    Mutant("P1 no session reads uncommitted rows", MODULE, "SET_READ_COMMITTED.text", NOTHING, WHOLE),
    Mutant(
        "TEXTSIZE of the connection cuts nothing", MODULE, 'f"SET TEXTSIZE {LONGEST_TEXT}"', NOTHING, WHOLE
    ),
    Mutant(
        "a session opens no transaction by itself", MODULE, '"SET IMPLICIT_TRANSACTIONS OFF"', NOTHING, WHOLE
    ),
    Mutant("a transaction of the connection is ended", MODULE, "ROLLBACK.text", NOTHING, WHOLE),
    Mutant(
        "a setting that is not in effect is an error",
        "_judge",
        "state.wrong()",
        "()",
        f"{SETTINGS}::test_a_server_that_keeps_its_own_setting_is_not_read",
    ),
    Mutant(
        "errors that pass by themselves are told by the server's own words",
        "rule_for",
        '_PASSES.search(_QUOTED.sub("", reported.text))',
        "None",
        "tests/unit/source/test_errors.py::"
        "test_where_the_number_is_unknown_the_server_s_own_words_tell_what_passes",
    ),
    Mutant(
        "what a failed job left of a kept session is lent to no other",
        "KeptSession.__call__",
        "self.close()",
        "pass",
        "tests/unit/source/test_kept.py::test_a_job_that_failed_ends_it_and_the_next_one_gets_a_new_session",
    ),
    Mutant(
        "a task that was told to stop is lent no kept session",
        "KeptSession._usable",
        "self._cancelled",
        "False",
        "tests/unit/source/test_kept.py::test_after_cancel_nothing_connects",
    ),
    Mutant(
        "what was asked by name is of the instance's own table",
        "_answers_of",
        "about.are_of(instance)",
        "True",
        "tests/unit/source/test_catalog.py::"
        "test_a_table_that_is_renamed_while_it_is_described_is_asked_for_by_its_object_id",
    ),
    Mutant(
        "what was asked ahead is good for a while only",
        "gathered",
        "time.monotonic() - asked < AHEAD_SECONDS",
        "True",
        "tests/unit/source/test_catalog.py::test_what_was_asked_ahead_too_long_ago_is_asked_again",
    ),
)

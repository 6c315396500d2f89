"""Guards of the first contact with a server: which connection it is, whether it can be reached, messages."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

SETTINGS = "tests/unit/source/test_settings.py"
REACHABLE = "tests/unit/source/test_reachable.py"
TYPE = "tests/unit/hooks/test_connection_type.py"

MUTANTS = (
    Mutant(
        "contact: a connection of another type is refused",
        "refuse_other_types",
        "connection.conn_type not in CONNECTION_TYPES",
        "False",
        f"{SETTINGS}::test_a_connection_of_another_type_is_refused_by_its_type",
    ),
    Mutant(
        "contact: two spellings of one setting may not differ",
        "_fields",
        "fields[setting] != value",
        "False",
        f"{SETTINGS}::test_an_extra_that_cannot_be_used_is_refused_by_name",
    ),
    Mutant(
        "contact: a server that refuses is told before a driver tries",
        "GuardedConnection._connect",
        "refuse_unreachable(self._settings)",
        "pass",
        f"{REACHABLE}::test_a_port_that_refuses_is_named_and_tried_again_without_waiting_for_the_login_timeout",
    ),
    Mutant(
        "contact: what was never connected was not being read",
        "GuardedConnection._translated",
        "connected=self._connection is not None",
        "connected=True",
        f"{REACHABLE}::test_something_else_that_listens_there_is_not_a_broken_read",
    ),
    Mutant(
        "contact: SQL operators take the certificate that a read takes",
        "plain_connection",
        "trusted_by_freetds(settings)",
        "contextlib.nullcontext()",
        f"{TYPE}::test_an_sql_operator_takes_the_certificate_that_the_connection_trusts",
    ),
    Mutant(
        "contact: a relative path is refused",
        "canonical_uri",
        'not text.startswith("/")',
        "False",
        "tests/unit/lake/test_location.py::test_a_relative_path_is_refused",
    ),
    Mutant(
        "contact: a login that sees nothing gets its GRANTs",
        "_facts_without_instance",
        "likely_table=name.likely",
        "likely_table=None",
        "tests/unit/source/test_catalog.py::test_a_login_that_sees_nothing_is_told_what_it_needs",
    ),
    Mutant(
        "contact: a name in the set-up script does not end its literal",
        "_literal",
        """"N'" + text.replace("'", "''") + "'\"""",
        """"N'" + text + "'\"""",
        "tests/unit/tsql/test_setup.py::test_no_name_leaves_its_quotes",
    ),
    Mutant(
        "contact: a login that may not see what CDC tracks is told so by the connection's test",
        "connection_facts",
        "hidden=tuple(_hidden(session, found))",
        "hidden=()",
        f"{TYPE}::test_the_test_names_every_grant_that_is_missing",
    ),
)

"""The guards that the guarantees rest on, and the test that turns red without each.

``text`` stands exactly once in ``file``; ``test`` is a pytest node id, without a case's brackets.
"""

from __future__ import annotations

from dataclasses import dataclass

PACKAGE = "airflow_provider_mssql_cdc"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One guard taken out.

    :param name: what is broken, in the words of docs/guarantees.md.
    """

    name: str
    file: str
    text: str
    replacement: str
    test: str


MUTANTS: tuple[Mutant, ...] = ()

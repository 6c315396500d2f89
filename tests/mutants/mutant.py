"""What an entry of the table of mutants is."""

from __future__ import annotations

from dataclasses import dataclass

MODULE = "<module>"


@dataclass(frozen=True, slots=True)
class Mutant:
    """One guard removed.

    :param name: what is broken, in the words of docs/guarantees.md.
    :param function: the qualified name of the function or class that holds the guard, without its
        module: ``Bronze.commit``, ``commit_window.once``; `MODULE` for code outside of both.
    :param code: an expression, a statement, or an argument as ``name=value``, in any layout. It stands
        once in all functions of that name.
    :param replacement: takes its place: an expression for an expression, or any number of statements
        for a statement (``pass`` for none).
    :param test: the pytest node id of the test that turns red, without a case's brackets.
    """

    name: str
    function: str
    code: str
    replacement: str
    test: str

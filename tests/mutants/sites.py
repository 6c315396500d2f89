"""Finds the code that a mutant names, by function and syntax tree, and takes it out.

Neither the module that a function stands in nor the layout of its code matters, so code can be moved
and formatted without touching the table.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.mutants.mutant import MODULE, Mutant

SEARCHED = ("airflow_provider_mssql_cdc", "tests/support")

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class Site:
    """A node that a mutant replaces: ``parent.field``, or one element of that list."""

    file: Path
    module: ast.Module
    parent: ast.AST
    field: str
    index: int | None


def sites(mutant: Mutant, root: Path) -> list[Site]:
    """Every place below ``root`` that the mutant names: exactly one, or the table is wrong."""
    kind, code = _pattern(mutant)
    return [
        site
        for file, module, scope in _scopes(root).get(mutant.function, ())
        for site, node in _fields(file, module, scope)
        if isinstance(node, kind) and ast.unparse(node) == code
    ]


def mutated(mutant: Mutant, site: Site) -> str:
    """The source of the site's module without the guard."""
    before = getattr(site.parent, site.field)
    setattr(site.parent, site.field, _replaced(mutant, before, site.index))
    try:
        return ast.unparse(site.module)
    finally:
        setattr(site.parent, site.field, before)


def _pattern(mutant: Mutant) -> tuple[type[ast.AST], str]:
    """What kind of node the mutant's code is, and the code as `ast.unparse` writes it.

    An expression is replaced by an expression, ``name=value`` by another value of that argument,
    and a statement by any number of statements.
    """
    if _is_expression(mutant.code) and _is_expression(mutant.replacement):
        return ast.expr, ast.unparse(ast.parse(mutant.code, mode="eval"))
    if (keyword := _keyword(mutant.code)) and _keyword(mutant.replacement):
        return ast.keyword, ast.unparse(keyword)
    (statement,) = ast.parse(mutant.code).body
    return ast.stmt, ast.unparse(statement)


def _replaced(mutant: Mutant, before: object, index: int | None) -> object:
    kind, _ = _pattern(mutant)
    if kind is ast.expr:
        new: list[ast.AST] = [ast.parse(mutant.replacement, mode="eval").body]
    elif kind is ast.keyword:
        new = [_keyword(mutant.replacement) or ast.keyword()]
    else:
        new = [*ast.parse(mutant.replacement).body]
    if index is None:
        return new[0]
    assert isinstance(before, list)
    return [*before[:index], *new, *before[index + 1 :]]


def _is_expression(code: str) -> bool:
    try:
        ast.parse(code, mode="eval")
    except SyntaxError:
        return False
    return True


def _keyword(code: str) -> ast.keyword | None:
    """``name=value`` without a blank on either side, as the argument that it is."""
    name, equals, value = code.partition("=")
    if not (equals and name.isidentifier() and _is_expression(value) and not value.startswith(" ")):
        return None
    return ast.keyword(name, ast.parse(value, mode="eval").body)


@cache
def _scopes(root: Path) -> dict[str, list[tuple[Path, ast.Module, ast.AST]]]:
    """Every function and class by its qualified name, and the modules themselves."""
    found: dict[str, list[tuple[Path, ast.Module, ast.AST]]] = defaultdict(list)
    for folder in SEARCHED:
        for file in sorted((root / folder).rglob("*.py")):
            module = ast.parse(file.read_text())
            found[MODULE].append((file, module, module))
            for name, node in _qualified(module, ""):
                found[name].append((file, module, node))
    return found


def _qualified(parent: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.iter_child_nodes(parent):
        if isinstance(node, _SCOPES):
            yield prefix + node.name, node
            yield from _qualified(node, f"{prefix}{node.name}.")
        else:
            yield from _qualified(node, prefix)


def _fields(file: Path, module: ast.Module, parent: ast.AST) -> Iterator[tuple[Site, ast.AST]]:
    """Every node below ``parent``; of a module, those outside of functions and classes."""
    for field, value in ast.iter_fields(parent):
        for index, node in enumerate(value) if isinstance(value, list) else [(None, value)]:
            if isinstance(node, ast.AST) and not (parent is module and isinstance(node, _SCOPES)):
                yield Site(file, module, parent, field, index), node
                yield from _fields(file, module, node)

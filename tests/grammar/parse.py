"""Microsoft's own T-SQL grammar, from packages of the ordinary index; runs in a separate environment.

A JSON list of texts comes on standard input; a JSON object goes to standard output: for each grammar, by
its name, the errors as ``[number of the text, error number, line, column, message]``. The grammar is that
of ScriptDom, which SQL Server's own tools parse with; ``.ci/grammar`` says where it comes from.
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

os.environ["DOTNET_SYSTEM_GLOBALIZATION_INVARIANT"] = "1"  # before the runtime starts: no ICU is needed then

OLDEST = "TSql130Parser"
"""SQL Server 2016, the oldest that is supported."""
NEWEST_FIRST = tuple(f"TSql{version}Parser" for version in (180, 170, 160, 150))
ASSEMBLY = "mssqlcli/mssqltoolsservice/bin/Microsoft.SqlServer.TransactSql.ScriptDom"


def grammars() -> Iterator[Any]:
    """Parsers of the oldest server and of the newest that the assembly knows, quoted identifiers on."""
    import dotnetcore2
    import pythonnet
    from clr_loader import get_coreclr

    root = pathlib.Path(dotnetcore2.__file__).parent / "bin"
    version = next((root / "shared/Microsoft.NETCore.App").iterdir()).name
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "runtime.json"
        framework = {"name": "Microsoft.NETCore.App", "version": version}
        properties = {"System.Globalization.Invariant": True}
        options = {"tfm": "netcoreapp3.1", "framework": framework, "configProperties": properties}
        config.write_text(json.dumps({"runtimeOptions": options}))
        pythonnet.set_runtime(get_coreclr(dotnet_root=str(root), runtime_config=str(config)))
        import clr

    found = next(f for f in map(pathlib.Path, sys.path) if (f / f"{ASSEMBLY}.dll").is_file())
    clr.AddReference(str(found / ASSEMBLY))
    import Microsoft.SqlServer.TransactSql.ScriptDom as dom

    newest = next(name for name in NEWEST_FIRST if hasattr(dom, name))
    for name in (OLDEST, newest):
        yield getattr(dom, name)(True)


def main() -> None:
    texts: list[str] = json.load(sys.stdin)
    answers: dict[str, list[list[Any]]] = {}
    for parser in grammars():
        from System.IO import StringReader

        errors = answers.setdefault(type(parser).__name__, [])
        for number, text in enumerate(texts):
            _, found = parser.Parse(StringReader(text), None)
            errors += [[number, e.Number, e.Line, e.Column, e.Message] for e in found]
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()

"""The documentation's site: `make docs`.

Sphinx and not MkDocs: the docstrings are written in its fields, as Airflow's own are, and autodoc renders
them without a plugin; a wrong reference is a warning, and every warning ends the build.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
REPOSITORY = "https://github.com/airflow-provider-mssql-cdc/airflow-provider-mssql-cdc/"

project = "airflow-provider-mssql-cdc"
author = "the authors of airflow-provider-mssql-cdc"
found = re.search(r'__version__ = "(.+)"', (ROOT / "airflow_provider_mssql_cdc/__init__.py").read_text())
assert found is not None
release = version = found[1]

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # the signature has them; the fields say what they mean
autodoc_preserve_defaults = True
# Airflow's BaseOperator documents forty arguments of its own: its page has them.
autodoc_default_options = {"exclude-members": "execute, run_job, template_fields, field_checks, connect"}

html_theme = "furo"  # its style sheets and scripts are its own: a page loads nothing from elsewhere
html_title = f"{project} {release}"
html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": "docs/"}
html_copy_source = False

nitpicky = True
# What signatures and docstrings name of other packages has its page there, not here.
nitpick_ignore_regex = [("py:.*", r"(?!airflow_provider_mssql_cdc\.).*")]


def _lead_to_the_repository(app, docname, source):  # type: ignore[no-untyped-def]
    """A link to a file beside docs/ works in the repository; on the site it leads there."""
    source[0] = (
        re.sub(r"\]\((?:\.\./)+(?!adr/)([\w./-]+)\)", rf"]({REPOSITORY}\1)", source[0])
        if (not docname.startswith("adr/"))
        else source[0]
    )


def setup(app):  # type: ignore[no-untyped-def]
    app.connect("source-read", _lead_to_the_repository)

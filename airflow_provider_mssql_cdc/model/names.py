"""What SQL Server allows a name to be."""

from __future__ import annotations

LONGEST_NAME = 128
"""UTF-16 units of an identifier (Microsoft Learn, "Database identifiers")."""
LONGEST_INSTANCE = 100
"""Characters of a capture instance's name, whose change table has three more (the page on
sys.sp_cdc_enable_table, ``@capture_instance``)."""


def is_name(name: str, *, longest: int = LONGEST_NAME) -> bool:
    """Whether SQL Server can have an object of this name."""
    units = len(name.encode("utf-16-le", "surrogatepass")) // 2
    return 0 < units <= longest and "\0" not in name

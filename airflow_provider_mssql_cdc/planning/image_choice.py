"""Which of a key's rows is its state, and what silver's own columns are.

The latest by :data:`ORDER`, NULLs first. A snapshot row has neither command id nor sequence, so a change at
its stamp comes after it. A key whose latest row is a delete, or the image before an update, is not there:
a delete, a key update recorded as delete and insert (1, 2) and one recorded as two images (3, 4) each leave
such a row under the key that goes, in the spelling that it had.
"""

from __future__ import annotations

ORDER = ("_start_lsn", "_command_id", "_seqval", "_operation")
"""Bronze's columns that put the rows of a key in order."""

SNAPSHOT_ROW, DELETE, INSERT, BEFORE, AFTER = range(5)

GONE = (DELETE, BEFORE)
"""Operations of a latest row under which the key has gone."""

OWN_COLUMNS = ("_start_lsn", "_commit_ts")
"""What silver holds beside the captured columns: of the row that is the key's state."""

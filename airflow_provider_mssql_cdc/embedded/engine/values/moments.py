"""Dates and times: stored values, text and arithmetic."""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from airflow_provider_mssql_cdc.embedded.seam import SqlError, SqlType

if TYPE_CHECKING:
    from collections.abc import Callable


SECOND = 10_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
DAY_1753 = (date(1753, 1, 1) - date(1, 1, 1)).days
DAY_1900 = (date(1900, 1, 1) - date(1, 1, 1)).days
DAY_2079 = (date(2079, 6, 6) - date(1, 1, 1)).days
LAST_DAY = (date(9999, 12, 31) - date(1, 1, 1)).days

_DATE = r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})|(?P<y2>\d{4})(?P<m2>\d{2})(?P<d2>\d{2})"
_TIME = r"(?P<h>\d{1,2}):(?P<min>\d{2})(?::(?P<s>\d{2})(?:[.:](?P<f>\d{1,9}))?)?"
_ZONE = r"(?P<z>[Zz]|[+-]\d{2}:\d{2})"
_TEXT = re.compile(
    rf"\s*(?:(?:{_DATE})(?:[T\s]\s*(?:{_TIME}))?|{_TIME.replace('?P<', '?P<t_')})?\s*{_ZONE}?\s*", re.ASCII
)


class Moment(NamedTuple):
    units: int
    offset: int | None = None

    @property
    def utc(self) -> int:
        return self.units - (self.offset or 0) * MINUTE


def conversion_failed() -> SqlError:
    return SqlError(241, "Conversion failed when converting date and/or time from character string.")


def out_of_range(target: str) -> SqlError:
    return SqlError(
        242, f"The conversion of a data type to a {target} data type resulted in an out-of-range value."
    )


def _days(match: re.Match[str]) -> int | None:
    groups = match.groupdict()
    for suffix in ("", "2"):
        if groups["y" + suffix]:
            parts = [int(groups[name + suffix]) for name in "ymd"]
            return _day_number(*parts)
    return None


def _day_number(year: int, month: int, day: int) -> int:
    try:
        return date(year, month, day).toordinal() - 1
    except ValueError:
        raise conversion_failed() from None


def _clock(match: re.Match[str], digits: int, prefix: str) -> int:
    hour, minute, second, fraction = (match[prefix + name] for name in ("h", "min", "s", "f"))
    if hour is None:
        return 0
    hours = int(hour)
    if hours > 23 or int(minute) > 59 or int(second or 0) > 59 or len(fraction or "") > digits:
        raise conversion_failed()
    ticks = int((fraction or "0").ljust(9, "0"))
    return hours * HOUR + int(minute) * MINUTE + int(second or 0) * SECOND + (ticks + 50) // 100


def parse(text: str, target: str) -> Moment:
    """Text to a moment, as converting it to the type ``target`` does. Error 241."""
    match = _TEXT.fullmatch(text)
    if match is None:
        raise conversion_failed()
    digits = 3 if target in ("datetime", "smalldatetime") else 9
    days = _days(match)
    clock = _clock(match, digits, "" if days is not None else "t_")
    zone = match["z"]
    if zone is None:
        return Moment((DAY_1900 if days is None else days) * DAY + clock)
    if target in ("datetime", "smalldatetime") and zone.upper() != "Z":
        raise conversion_failed()
    offset = (
        0 if zone.upper() == "Z" else (1 if zone[0] == "+" else -1) * (int(zone[1:3]) * 60 + int(zone[4:6]))
    )
    return Moment((DAY_1900 if days is None else days) * DAY + clock, offset)


def _rounded(units: int, scale: int) -> int:
    step = 10 ** (7 - scale)
    return units if step == 1 else (units + step // 2) // step * step


def _load_offset(value: str) -> Moment:
    offset = int(value[20:])
    return Moment(int(value[:20]) + offset * MINUTE, offset)


LOADERS: dict[str, Callable[[Any], Moment]] = {
    "date": lambda v: Moment(v * DAY),
    "time": lambda v: Moment(DAY_1900 * DAY + v),
    "datetime": lambda v: Moment(DAY_1900 * DAY + (v * 200_000 + 3) // 6),
    "smalldatetime": lambda v: Moment(DAY_1900 * DAY + v * MINUTE),
    "datetime2": Moment,
    "datetimeoffset": _load_offset,
}


def store(moment: Moment, type_: SqlType) -> Any:
    """The stored value of a moment in a type. Errors: 242."""
    name, scale = type_.name, 7 if type_.scale is None else type_.scale
    units = moment.units
    if name == "date":
        return units // DAY
    if name == "time":
        rounded = _rounded(units % DAY, scale)
        return rounded if rounded < DAY else DAY - 10 ** (7 - scale)
    if name == "datetime":
        return _datetime_ticks(units)
    if name == "smalldatetime":
        return _minutes(units)
    if name == "datetime2":
        return min(_rounded(units, scale), (LAST_DAY + 1) * DAY - 10 ** (7 - scale))
    offset = moment.offset or 0
    utc = _rounded(units, scale) - offset * MINUTE
    if not 0 <= utc < (LAST_DAY + 1) * DAY:
        raise out_of_range("datetimeoffset")
    return f"{utc:020d}{offset:+05d}"


def _datetime_ticks(units: int) -> int:
    ticks = ((units - DAY_1900 * DAY) * 3 + 50_000) // 100_000
    if units < DAY_1753 * DAY or ticks >= (LAST_DAY + 1 - DAY_1900) * 86400 * 300:
        raise out_of_range("datetime")
    return ticks


def _minutes(units: int) -> int:
    minutes = (units - DAY_1900 * DAY + 30 * SECOND) // MINUTE
    if not 0 <= minutes < (DAY_2079 + 1 - DAY_1900) * 1440:
        raise out_of_range("smalldatetime")
    return minutes


def _fraction(units: int, scale: int) -> str:
    return f".{units % SECOND // 10 ** (7 - scale):0{scale}d}" if scale else ""


def _parts(moment: Moment, type_: SqlType) -> tuple[date, str, int]:
    """Day, ``hh:mm:ss``, and the units that the type prints (datetime: whole milliseconds)."""
    units = moment.units
    if type_.name == "datetime":
        units = (units + 5_000) // 10_000 * 10_000
    clock = units % DAY
    text = f"{clock // HOUR:02d}:{clock // MINUTE % 60:02d}:{clock // SECOND % 60:02d}"
    return date.min + timedelta(days=units // DAY), text, units


_STYLES = (20, 21, 23, 25, 120, 121, 126, 127)


def render(moment: Moment, type_: SqlType, style: int | None) -> str:
    """Text of a moment. Styles 20, 21, 23, 25, 120, 121, 126, 127. Error 281."""
    day, clock, units = _parts(moment, type_)
    scale = {"datetime": 3, "smalldatetime": 0, "date": 0}.get(
        type_.name, 7 if type_.scale is None else type_.scale
    )
    zone = "" if moment.offset is None else _zone(moment.offset)
    if style is None:
        style = 0 if type_.name in ("datetime", "smalldatetime") else 121
    if type_.name == "date" and style in _STYLES:
        return day.isoformat()
    if type_.name == "time" and style in _STYLES:
        return clock + _fraction(units, scale)
    if style in (126, 127):
        return _iso(
            day, clock + _fraction(units, scale), moment, plain=type_.name == "datetime", utc=style == 127
        )
    if style in (20, 120):
        return f"{day.isoformat()} {clock}{zone}"
    if style in (21, 25, 121):
        text = _fraction(units, 3 if type_.name in ("datetime", "smalldatetime") else scale)
        return f"{day.isoformat()} {clock}{text}{zone}"
    raise SqlError(281, f"{style} is not a valid style number of the embedded server for a date or time.")


def _iso(day: date, clock: str, moment: Moment, *, plain: bool, utc: bool) -> str:
    if plain and clock.endswith(".000"):
        clock = clock[:-4]
    if moment.offset is None:
        return f"{day.isoformat()}T{clock}" + ("Z" if utc else "")
    if not utc:
        return f"{day.isoformat()}T{clock}{_zone(moment.offset).strip()}"
    shifted, text, _ = _parts(Moment(moment.utc), SqlType("datetime2", scale=7))
    return f"{shifted.isoformat()}T{text}{clock[8:]}Z"


def _zone(offset: int) -> str:
    sign = "-" if offset < 0 else "+"
    return f" {sign}{abs(offset) // 60:02d}:{abs(offset) % 60:02d}"


_UNIT_SIZES = {
    "day": DAY,
    "hour": HOUR,
    "minute": MINUTE,
    "second": SECOND,
    "millisecond": 10_000,
    "microsecond": 10,
}


def part_name(name: str) -> str:
    """A date part by its full name. Error 155."""
    full = name.lower()
    if full not in _UNIT_SIZES and full != "tzoffset":
        raise SqlError(155, f"'{name}' is not a recognized datepart option of the embedded server.", 15)
    return full


def add(part: str, amount: int, moment: Moment) -> Moment:
    """DATEADD. Error 517 past the calendar's ends."""
    units = moment.units + amount * _UNIT_SIZES[part]
    if not 0 <= units < (LAST_DAY + 1) * DAY:
        raise SqlError(517, "Adding a value to a 'datetime' column caused an overflow.")
    return Moment(units, moment.offset)


def difference(name: str, start: Moment, end: Moment) -> int:
    """DATEDIFF: boundaries crossed."""
    return end.utc // _UNIT_SIZES[name] - start.utc // _UNIT_SIZES[name]

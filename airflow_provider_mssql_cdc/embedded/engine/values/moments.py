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
_MONTHS = "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split()

_DATE = r"(?P<y>\d{4})-(?P<m>\d{1,2})-(?P<d>\d{1,2})|(?P<y2>\d{4})(?P<m2>\d{2})(?P<d2>\d{2})"
_DATE += r"|(?P<y3>\d{4})/(?P<m3>\d{1,2})/(?P<d3>\d{1,2})|(?P<m4>\d{1,2})/(?P<d4>\d{1,2})/(?P<y4>\d{4})"
_DATE += r"|(?P<mon>[A-Za-z]{3})\s+(?P<d5>\d{1,2}),?\s+(?P<y5>\d{4})"
_TIME = r"(?P<h>\d{1,2}):(?P<min>\d{2})(?::(?P<s>\d{2})(?:[.:](?P<f>\d{1,9}))?)?\s*(?P<half>[AaPp][Mm])?"
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
    for suffix in ("", "2", "3", "4"):
        if groups["y" + suffix]:
            parts = [int(groups[name + suffix]) for name in "ymd"]
            return _day_number(*parts)
    if groups["mon"]:
        month = groups["mon"].title()
        if month not in _MONTHS:
            raise conversion_failed()
        return _day_number(int(groups["y5"]), _MONTHS.index(month) + 1, int(groups["d5"]))
    return None


def _day_number(year: int, month: int, day: int) -> int:
    try:
        return date(year, month, day).toordinal() - 1
    except ValueError:
        raise conversion_failed() from None


def _clock(match: re.Match[str], digits: int, prefix: str) -> int:
    hour, minute, second, fraction, half = (match[prefix + name] for name in ("h", "min", "s", "f", "half"))
    if hour is None:
        return 0
    hours = int(hour)
    if half:
        hours = hours % 12 + (12 if half.lower() == "pm" else 0)
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


def render(moment: Moment, type_: SqlType, style: int | None) -> str:
    """Text of a moment. Styles 0, 100, 101, 103, 108, 112, 114, 20, 21, 23, 25, 120, 121, 126, 127."""
    day, clock, units = _parts(moment, type_)
    scale = {"datetime": 3, "smalldatetime": 0, "date": 0}.get(
        type_.name, 7 if type_.scale is None else type_.scale
    )
    zone = "" if moment.offset is None else _zone(moment.offset)
    if style is None:
        style = 0 if type_.name in ("datetime", "smalldatetime") else 121
    if type_.name == "date" and style not in (0, 100, 101, 103, 112):
        return day.isoformat()
    if type_.name == "time" and style in (20, 21, 23, 25, 120, 121, 126, 127, 108):
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
    return _other_style(day, clock, units, style=style)


def _iso(day: date, clock: str, moment: Moment, *, plain: bool, utc: bool) -> str:
    if plain and clock.endswith(".000"):
        clock = clock[:-4]
    if moment.offset is None:
        return f"{day.isoformat()}T{clock}" + ("Z" if utc else "")
    if not utc:
        return f"{day.isoformat()}T{clock}{_zone(moment.offset).strip()}"
    shifted, text, _ = _parts(Moment(moment.utc), SqlType("datetime2", scale=7))
    return f"{shifted.isoformat()}T{text}{clock[8:]}Z"


def _other_style(day: date, clock: str, units: int, *, style: int) -> str:
    if style in (0, 100):
        hour = units % DAY // HOUR
        half = f"{hour % 12 or 12:2d}:{clock[3:5]}{'AM' if hour < 12 else 'PM'}"
        return f"{_MONTHS[day.month - 1]} {day.day:2d} {day.year:04d} {half}"
    patterns = {
        23: day.isoformat(),
        101: f"{day.month:02d}/{day.day:02d}/{day.year:04d}",
        103: f"{day.day:02d}/{day.month:02d}/{day.year:04d}",
        108: clock,
        112: f"{day.year:04d}{day.month:02d}{day.day:02d}",
        114: f"{clock}:{units % SECOND // 10_000:03d}",
    }
    if style not in patterns:
        raise SqlError(
            281, f"{style} is not a valid style number when converting from datetime to a character string."
        )
    return patterns[style]


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
    "week": 7 * DAY,
}
_OTHER_PARTS = frozenset({"month", "year", "quarter", "nanosecond", "weekday", "tzoffset"})
_NAMES = {
    "tz": "tzoffset",
    "dw": "weekday",
    "dd": "day",
    "d": "day",
    "dy": "day",
    "dayofyear": "day",
    "hh": "hour",
    "mi": "minute",
    "n": "minute",
    "ss": "second",
    "s": "second",
    "ms": "millisecond",
    "mcs": "microsecond",
    "ns": "nanosecond",
    "wk": "week",
    "ww": "week",
    "mm": "month",
    "m": "month",
    "yy": "year",
    "yyyy": "year",
    "qq": "quarter",
    "q": "quarter",
}


def part_name(name: str) -> str:
    """The full name of a date part. Error 155."""
    lower = name.lower()
    full = _NAMES.get(lower, lower)
    if full not in _UNIT_SIZES and full not in _OTHER_PARTS:
        raise SqlError(155, f"'{name}' is not a recognized datepart option.", 15)
    return full


def add(part: str, amount: int, moment: Moment) -> Moment:
    """DATEADD. Error 517 past the calendar's ends."""
    if part in ("month", "quarter", "year"):
        months = amount * {"month": 1, "quarter": 3, "year": 12}[part]
        units = _add_months(months, moment.units)
    else:
        units = moment.units + (amount // 100 if part == "nanosecond" else amount * _UNIT_SIZES[part])
    if not 0 <= units < (LAST_DAY + 1) * DAY:
        raise SqlError(517, "Adding a value to a 'datetime' column caused an overflow.")
    return Moment(units, moment.offset)


def _add_months(months: int, units: int) -> int:
    day = date.min + timedelta(days=units // DAY)
    index = day.year * 12 + day.month - 1 + months
    year, month = divmod(index, 12)
    if not 1 <= year <= 9999:
        return -1
    last = 31
    while True:
        try:
            return (date(year, month + 1, min(day.day, last)).toordinal() - 1) * DAY + units % DAY
        except ValueError:
            last -= 1


def part(name: str, moment: Moment) -> int:
    """DATEPART."""
    day = date.min + timedelta(days=moment.units // DAY)
    clock = moment.units % DAY
    calendar = {
        "year": day.year,
        "month": day.month,
        "day": day.day,
        "quarter": (day.month + 2) // 3,
        "weekday": day.isoweekday() % 7 + 1,
    }
    if name in calendar:
        return calendar[name]
    if name == "tzoffset":
        return moment.offset or 0
    sizes = {
        "hour": (HOUR, 24),
        "minute": (MINUTE, 60),
        "second": (SECOND, 60),
        "millisecond": (10_000, 1000),
        "microsecond": (10, 1_000_000),
    }
    if name == "nanosecond":
        return clock % SECOND * 100
    size, modulus = sizes[name]
    return clock // size % modulus


def difference(name: str, start: Moment, end: Moment) -> int:
    """DATEDIFF: boundaries crossed."""
    a, b = start.utc, end.utc
    if name in ("month", "quarter", "year"):
        first, last = (date.min + timedelta(days=u // DAY) for u in (a, b))
        months = [d.year * 12 + d.month - 1 for d in (first, last)]
        size = {"month": 1, "quarter": 3, "year": 12}[name]
        return months[1] // size - months[0] // size
    if name == "nanosecond":
        return (b - a) * 100
    if name == "week":
        return (b // DAY + 1) // 7 - (a // DAY + 1) // 7
    return b // _UNIT_SIZES[name] - a // _UNIT_SIZES[name]

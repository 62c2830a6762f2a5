"""Wording: numbers as people read them."""

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_EXACT = 10_000
_UNITS = (("k", 1e3), ("M", 1e6), ("G", 1e9))


def count(number: int) -> str:
    """Return *number* in at most four digits: ``999``, ``12.3k``, ``4.56M``."""
    if number < _EXACT:
        return f"{number:,}"
    unit, size = next(
        ((unit, size) for unit, size in _UNITS if number / size < 999.5),  # noqa: PLR2004 - rounds to three digits
        _UNITS[-1],
    )
    value = number / size
    digits = max(0, 3 - len(str(int(value))))
    return f"{value:.{digits}f}{unit}"


def of_many(number: int, noun: str) -> str:
    """Return *number* with *noun*, in the plural where it is not one."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def rate(per_second: float) -> str:
    """Return rows per second, minute or hour, the first that is at least one."""
    units = (("s", 1), ("min", _MINUTE), ("h", _HOUR))
    unit, seconds = next(
        ((unit, seconds) for unit, seconds in units if per_second * seconds >= 1),
        units[-1],
    )
    number = per_second * seconds
    return f"{number:,.0f}/{unit}" if number >= 100 else f"{number:.1f}/{unit}"  # noqa: PLR2004 - three digits


def duration(seconds: float) -> str:
    """Return *seconds* as ``0.8 s``, ``1:05``, ``2:00:09`` or ``3 d 4 h``."""
    if seconds < 10:  # noqa: PLR2004 - below, tenths matter
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE}:{whole % _MINUTE:02}"
    if whole < _DAY:
        return f"{whole // _HOUR}:{whole % _HOUR // _MINUTE:02}:{whole % _MINUTE:02}"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def latency(seconds: float) -> str:
    """Return *seconds* in three digits: ``84 ms``, ``0.84 s``, ``12.3 s``, ``1:05``."""
    if seconds < 0.0995:  # noqa: PLR2004 - rounds to two digits of a millisecond
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.995:  # noqa: PLR2004 - rounds to three digits
        return f"{seconds:.2f} s"
    return f"{seconds:.1f} s" if seconds < 59.95 else duration(seconds)  # noqa: PLR2004


def share(part: int, whole: int) -> str:
    """Return *part* of *whole* in percent; 100% and 0% only where it is exact."""
    if not whole:
        return "0%"
    percent = 100 * part / whole
    if 0 < percent < 1:
        return "<1%"
    return f"{int(percent)}%"

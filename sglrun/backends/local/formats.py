"""The formats that JSON Schema defines (2020-12, Validation, 7.3), as patterns."""

from collections.abc import Mapping

_HEX = "[0-9A-Fa-f]"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]*"


def _reference(other: str) -> tuple[str, str]:
    """Return the pattern of a full and of a relative reference.

    By RFC 3986, appendix A, without IPv6 hosts; *other* are the characters beyond
    ASCII that RFC 3987 adds.
    """
    unit = f"[A-Za-z0-9._~!$&'()*+,;=:@{other}-]|%{_HEX}{{2}}"
    name = f"([A-Za-z0-9._~!$&'()*+,;={other}-]|%{_HEX}{{2}})"
    plain = f"([A-Za-z0-9._~!$&'()*+,;=@{other}-]|%{_HEX}{{2}})"  # no colon
    path = f"(/({unit})*)*"
    authority = f"//(({name}|:)*@)?{name}*(:[0-9]*)?{path}"
    absolute = f"/(({unit})+{path})?"
    tail = f"(\\?({unit}|[/?])*)?(#({unit}|[/?])*)?"
    full = f"{_SCHEME}:({authority}|{absolute}|({unit})+{path}|){tail}"
    relative = f"({authority}|{absolute}|{plain}+{path}|){tail}"
    return f"^{full}$", f"^({full}|{relative})$"


_URI, _URI_REFERENCE = _reference("")
_IRI, _IRI_REFERENCE = _reference("\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef")

# A date that is not the 29th of February, or is in a leap year; the year 0 is in no
# calendar that programs keep.
_YEAR = "(000[1-9]|00[1-9].|0[1-9]..|[1-9]...)"
_LEAP_YEAR = "(..(0[48]|[2468][048]|[13579][26])|(0[48]|[2468][048]|[13579][26])00)"
_DATE = f"({_YEAR}-([^0].-..|0[^2]-..|02-([^2].|2[^9]))|{_LEAP_YEAR}-02-29)"

_POINTER = "(/([^/~]|~[01])*)*"

# What the engine does not know of a format. A time is written in capitals and without
# leap seconds, which few readers take (RFC 3339, 5.6 and 5.7, leaves both open).
PATTERNS: Mapping[str, str] = {
    "date": f"^{_DATE}$",
    "date-time": f"^{_DATE}T.{{6}}[0-5][^z]*$",
    "time": "^.{6}[0-5][^z]*$",
    "hostname": "^.{1,253}$",  # RFC 1034, 3.1, without the root's dot
    "uri": _URI,
    "uri-reference": _URI_REFERENCE,
    "iri": _IRI,
    "iri-reference": _IRI_REFERENCE,
    "json-pointer": f"^{_POINTER}$",
    "relative-json-pointer": f"^(0|[1-9][0-9]*)(#|{_POINTER})$",
}

# Formats that the engine follows, or refuses by name.
KNOWN = frozenset(
    {
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "idn-email",
        "hostname",
        "idn-hostname",
        "ipv4",
        "ipv6",
        "uuid",
        "uri-template",
        "regex",
    }
)

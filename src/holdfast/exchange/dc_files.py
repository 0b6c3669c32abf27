"""Import of denial constraints in the formats of other programs, one per line.

t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)                        HoloClean and its descendants
[DC: t0.zip(String) == t1.zip(String)  t0.city(String) <> t1.city(String)  ]       Hydra, DCFinder, ECP
not(t.zip == s.zip and t.city != s.city)    ¬{ t.zip == s.zip ∧ t.city != s.city }   FastADC, Desbordante, ours
"""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.errors import HoldfastError, ReadError, shown
from holdfast.rules.grammar import parse
from holdfast.rules.names import quoted
from holdfast.rules.rule import Dc, Rule

_NAMED = {"EQ": "=", "IQ": "!=", "LT": "<", "GT": ">", "LTE": "<=", "GTE": ">="}
_SIGNS = {"==": "=", "=": "=", "<>": "!=", "!=": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
_CALL = re.compile(r"(EQ|IQ|LTE|GTE|LT|GT)\((.+)\)")
_TYPED = re.compile(
    r"t([01])\.(.+?)\((?:String|Integer|Long|Double|Float|Date|Boolean|Numeric)\)\s*(==|<>|!=|<=|>=|<|>|=)\s*"
    r"t([01])\.(.+?)\((?:String|Integer|Long|Double|Float|Date|Boolean|Numeric)\)"
)
_SIDE = re.compile(r"t([12])\.(.+)")


def read_dcs(path: str | Path) -> list[Rule]:
    """The rules of a file in any of these formats. Skips empty lines and lines that begin with #."""
    place = Path(path)
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from error
    rules = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                rules.append(parse_dc(line))
            except HoldfastError as error:
                raise ReadError(f"{path}, line {number}: {error}") from None
    return list(dict.fromkeys(rules))


def parse_dc(line: str) -> Rule:
    """A rule in any of these formats. In the format of Holdfast, it may be of any kind.

    >>> print(parse_dc("t1&t2&EQ(t1.zip,t2.zip)&IQ(t1.city,t2.city)"))
    not(t.city != s.city and t.zip = s.zip)
    >>> print(parse_dc("[DC: t0.a(String) <> t1.a(String)  t0.b(Integer) <= t1.b(Integer)  ]"))
    not(t.a != s.a and t.b <= s.b)
    >>> print(parse_dc("¬{ t.a == s.a ∧ t.b != s.b }"))
    not(t.a = s.a and t.b != s.b)
    """
    text = line.strip()
    if text.startswith("[DC:"):
        return _typed(text)
    if re.match(r"t1\s*&", text):
        return _called(text)
    if text.startswith(("¬", "!(", "not(", "not (")) and ("==" in text or "∧" in text or "¬" in text or "≠" in text):
        return _signed(text)
    return parse(text)


def _typed(text: str) -> Dc:
    """Parses `[DC: t0.a(String) == t1.a(String) ]`."""
    body = text.removeprefix("[DC:").rstrip().removesuffix("]")
    comparisons = _TYPED.findall(body)
    if not comparisons or _TYPED.sub("", body).strip():
        raise ReadError(
            f"{shown(_TYPED.sub('', body).strip() or body)} is not a comparison such as t0.a(String) == t1.a(String)"
        )
    rows = {"0": "t", "1": "s"}
    parts = [f"{rows[i]}.{quoted(a)} {_SIGNS.get(op, op)} {rows[j]}.{quoted(b)}" for i, a, op, j, b in comparisons]
    return _dc(parts)


def _called(text: str) -> Dc:
    """Parses `t1&t2&EQ(t1.a,t2.a)&GT(t1.b,5)`. Text constants are in quotation marks."""
    parts = []
    for item in re.split(r"&(?=(?:EQ|IQ|LTE|GTE|LT|GT)\()", text)[1:]:
        call = _CALL.fullmatch(item.strip())
        if call is None:
            raise ReadError(f"{shown(item)} is not a comparison such as EQ(t1.a,t2.a)")
        left, right = _arguments(call[2])
        parts.append(f"{_side(left)} {_NAMED[call[1]]} {_side(right)}")
    if not parts:
        raise ReadError("the line has no comparison such as EQ(t1.a,t2.a)")
    return _dc(parts)


def _arguments(text: str) -> tuple[str, str]:
    """Splits two arguments at the comma before a cell or constant. Names may contain commas."""
    match = re.fullmatch(r"(.+?),\s*(t[12]\..+|[\"'].*[\"']|-?[0-9.]+)", text)
    if match is None:
        raise ReadError(f"{shown(text)} are not two values that can be compared")
    return match[1], match[2]


def _side(text: str) -> str:
    cell = _SIDE.fullmatch(text.strip())
    if cell is not None:
        return f"{'t' if cell[1] == '1' else 's'}.{quoted(cell[2])}"
    bare = text.strip()
    if bare[0] in "\"'" and bare[-1] == bare[0]:
        return "'" + bare[1:-1].replace("'", "''") + "'"
    return bare


def _signed(text: str) -> Rule:
    """Parses `¬{ t.a == s.a ∧ t.b != s.b }`."""
    body = re.sub(r"^(¬|!|not)\s*[({]\s*", "", text)
    body = re.sub(r"\s*[)}]$", "", body)
    parts = re.split(r"\s+(?:and|∧|&&)\s+|\s*∧\s*", body)
    return _dc([re.sub(r"==|<>|≠|≤|≥", lambda sign: _SIGNS[sign[0]], part) for part in parts])


def _dc(parts: list[str]) -> Dc:
    rule = parse(f"not({' and '.join(parts)})")
    assert isinstance(rule, Dc)
    return rule

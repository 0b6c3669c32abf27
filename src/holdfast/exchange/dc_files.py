"""Denial constraints as other programs write them, a line each.

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
    """The rules of a file, in any of these forms; empty lines and those that begin with # are passed over."""
    place = Path(path)
    try:
        lines = place.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ReadError(f"{path}: cannot be read: {error}") from error
    made = []
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            try:
                made.append(parse_dc(line))
            except HoldfastError as error:
                raise ReadError(f"{path}, line {number}: {error}") from None
    return list(dict.fromkeys(made))


def parse_dc(line: str) -> Rule:
    """One rule in any of these forms; ours of any kind.

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
    body = text.removeprefix("[DC:").rstrip().removesuffix("]")
    found = _TYPED.findall(body)
    if not found or _TYPED.sub("", body).strip():
        raise ReadError(
            f"{shown(_TYPED.sub('', body).strip() or body)} is not a comparison such as t0.a(String) == t1.a(String)"
        )
    rows = {"0": "t", "1": "s"}
    parts = [f"{rows[i]}.{quoted(a)} {_SIGNS.get(op, op)} {rows[j]}.{quoted(b)}" for i, a, op, j, b in found]
    return _dc(parts)


def _called(text: str) -> Dc:
    """`t1&t2&EQ(t1.a,t2.a)&GT(t1.b,5)`; a text constant stands in quotation marks."""
    parts = []
    for item in re.split(r"&(?=(?:EQ|IQ|LTE|GTE|LT|GT)\()", text)[1:]:
        call = _CALL.fullmatch(item.strip())
        if call is None:
            raise ReadError(f"{shown(item)} is not a comparison such as EQ(t1.a,t2.a)")
        left, right = _arguments(call[2])
        parts.append(f"{_side(left)} {_NAMED[call[1]]} {_side(right)}")
    if not parts:
        raise ReadError("there is no comparison such as EQ(t1.a,t2.a)")
    return _dc(parts)


def _arguments(text: str) -> tuple[str, str]:
    """Two arguments; a name may have commas, so the one before another row or a constant parts them."""
    found = re.fullmatch(r"(.+?),\s*(t[12]\..+|[\"'].*[\"']|-?[0-9.]+)", text)
    if found is None:
        raise ReadError(f"{shown(text)} are not two values that can be compared")
    return found[1], found[2]


def _side(text: str) -> str:
    cell = _SIDE.fullmatch(text.strip())
    if cell is not None:
        return f"{'t' if cell[1] == '1' else 's'}.{quoted(cell[2])}"
    bare = text.strip()
    if bare[0] in "\"'" and bare[-1] == bare[0]:
        return "'" + bare[1:-1].replace("'", "''") + "'"
    return bare


def _signed(text: str) -> Rule:
    body = re.sub(r"^(¬|!|not)\s*[({]\s*", "", text)
    body = re.sub(r"\s*[)}]$", "", body)
    parts = re.split(r"\s+(?:and|∧|&&)\s+|\s*∧\s*", body)
    return _dc([re.sub(r"==|<>|≠|≤|≥", lambda sign: _SIGNS[sign[0]], part) for part in parts])


def _dc(parts: list[str]) -> Dc:
    made = parse(f"not({' and '.join(parts)})")
    assert isinstance(made, Dc)
    return made

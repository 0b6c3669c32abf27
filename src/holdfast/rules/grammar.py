"""Parses rule text: a recursive-descent parser whose errors say what was expected, and where.

The grammar does not nest, so the depth of recursion is fixed. Texts, numbers and conjunctions are bounded, and each
token is read once, so the cost is linear in the length of any text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from typing import TypeVar

from holdfast.errors import ParseError, RuleError, shown
from holdfast.rules.names import IDENTIFIER, RESERVED
from holdfast.rules.operator import Op
from holdfast.rules.predicate import NUMBER_BOUNDS, Cell, Compare, Constant, Formula, IsNull, Predicate
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Marked, Order, Rule

Part = TypeVar("Part")

MAX_CHARACTERS = 100_000  # of a rule's text
MAX_PREDICATES = 1_000  # of one conjunction
_MAX_NUMBER_CHARACTERS = 1_000  # more than any number within NUMBER_BOUNDS needs when it is printed
_MAX_CACHED_CHARACTERS = 1_000  # longer texts are parsed each time

# Possessive quantifiers (`++`, `*+`) do not backtrack, so an unclosed quote costs one pass.
_TOKEN = re.compile(
    rf"""\s*+(?:
      (?P<name>{IDENTIFIER})
    | (?P<quoted>`(?:[^`]++|``)++`)
    | (?P<number>-?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][-+]?\d++)?)
    | (?P<string>'(?:[^']++|'')*+')
    | (?P<sign>->|<=|>=|!=|<>|==|[=<>(){{}},.:+*-])
    | (?P<end>\Z)
    | (?P<other>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_OPS = {str(op): op for op in Op}


@dataclass(frozen=True)
class Token:
    """A token with its kind (a group of `_TOKEN`) and its position in the text."""

    kind: str
    text: str
    start: int


def parse(text: str) -> Rule:
    """Parses a rule; raises ParseError or RuleError.

    >>> str(parse("not(s.zip = t.zip and t.city != s.city)"))
    'not(t.city != s.city and t.zip = s.zip)'
    """
    if isinstance(text, str) and len(text) <= _MAX_CACHED_CHARACTERS:
        return _parse_cached(str(text))
    return _Parser(text).rule()


@lru_cache(maxsize=10_000)
def _parse_cached(text: str) -> Rule:
    """Rules are immutable values, so a cached rule can be shared."""
    return _Parser(text).rule()


def parse_filter(text: str) -> frozenset[Predicate]:
    """Parses a filter of rows: predicates on t, joined by `and`.

    >>> len(parse_filter("t.country = 'DE' and t.zip is not null"))
    2
    """
    parser = _Parser(text)
    predicates = parser.conjunction()
    parser.end()
    constraint = Dc(frozenset(predicates))
    if not constraint.is_one_row or any(cell.row == "s" for p in predicates for cell in p.cells):
        raise ParseError("predicates on the one row t", text, 0)
    return constraint.predicates


class _Parser:
    """Parses one text. `at` is the position of the current token."""

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise RuleError(f"a rule is written as text, not {shown(text)}")
        self.text = text
        self.tokens = _tokens(text)
        self.at = 0

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def fail(self, expected: str) -> ParseError:
        return ParseError(expected, self.text, self.token.start)

    def sees(self, text: str, ahead: int = 0) -> bool:
        token = self.tokens[min(self.at + ahead, len(self.tokens) - 1)]
        return token.text == text and token.kind in ("sign", "name")

    def accept(self, text: str) -> bool:
        if self.sees(text):
            self.at += 1
            return True
        return False

    def expect(self, text: str, why: str = "") -> None:
        if not self.accept(text):
            raise self.fail(f"`{text}`{why}")

    def end(self) -> None:
        if self.token.kind != "end":
            raise self.fail("the end of the rule")

    def name(self, what: str) -> str:
        token = self.token
        if token.kind == "name" and token.text not in RESERVED:
            self.at += 1
            return token.text
        if token.kind == "quoted":
            self.at += 1
            return token.text[1:-1].replace("``", "`")
        hint = f" (`{token.text}` is a reserved word: write it in backticks)" if token.text in RESERVED else ""
        raise self.fail(f"{what}{hint}")

    def listed(self, part: Callable[[], Part]) -> list[Part]:
        parts = [part()]
        while self.accept(","):
            parts.append(part())
        return parts

    def columns(self) -> list[str]:
        return self.listed(lambda: self.name("a column"))

    def rule(self) -> Rule:
        rule = self.rule_body(self.table_prefix())
        self.end()
        return rule

    def rule_body(self, table: str | None) -> Rule:
        if self.accept("key"):
            return self.key(table)
        if self.accept("not"):
            return self.denial(table)
        if self.sees("{"):
            return self.order(table)
        if table is None and self.is_inclusion():
            return self.inclusion()
        if self.token.kind in ("name", "quoted") and self.sees("=", ahead=1):
            return self.calculation(table)
        return self.dependency(table)

    def table_prefix(self) -> str | None:
        if self.token.kind in ("name", "quoted") and self.sees(":", ahead=1):
            name = self.name("a table")
            self.expect(":")
            return name
        return None

    def key(self, table: str | None) -> Key:
        self.expect("(", " and the columns of the key")
        columns = self.columns()
        self.expect(")", " or `,`")
        return Key(frozenset(columns), table)

    def dependency(self, table: str | None) -> Fd:
        left: list[str] = []
        if self.accept("("):
            self.expect(")", ": an empty left side is written ()")
        else:
            what = "a rule: key(..), not(..), a -> b, {a <} -> b <, t.a in s.b, or a = b + c"
            left = self.listed(lambda: self.name(what if self.at == 0 else "a column"))
        self.expect("->", " or `,`" if left else "")
        right = self.name("the column on the right")
        if self.sees(","):
            raise self.fail("one column on the right (write one rule for each)")
        return Fd(frozenset(left), right, table)

    def calculation(self, table: str | None) -> Calculation:
        result = self.name("a column")
        self.expect("=")
        left, op = self.name("a column"), self.token.text
        if not any(map(self.accept, "+-*")):
            raise self.fail("one of + - *")
        right = self.name("a column")
        if op == "-":  # a = b - c
            return Calculation(left, Formula("+", result, right), table)
        return Calculation(result, Formula(op, left, right), table)

    def order(self, table: str | None) -> Order:
        self.expect("{")
        left = [] if self.sees("}") else self.listed(lambda: self.marked("a column with <, <=, =, >= or >"))
        self.expect("}", " or `,`")
        self.expect("->")
        return Order(frozenset(left), self.marked("the column on the right with <, <= or ="), table)

    def marked(self, what: str) -> Marked:
        return Marked(self.name(what), self.operator())

    def is_inclusion(self) -> bool:
        return self.token.kind in ("name", "quoted") and (self.sees(".", ahead=1) or self.sees("(", ahead=1))

    def inclusion(self) -> Ind:
        left_table, left = self.side()
        self.expect("in")
        right_table, right = self.side()
        return Ind(left_table, tuple(left), right_table, tuple(right))

    def side(self) -> tuple[str, list[str]]:
        table = self.name("a table")
        if self.accept("("):
            columns = self.columns()
            self.expect(")", " or `,`")
            return table, columns
        self.expect(".", " or `(` and the columns")
        return table, [self.name("a column")]

    def denial(self, table: str | None) -> Dc:
        self.expect("(", " and predicates joined by `and`")
        predicates = self.conjunction()
        self.expect(")", " or `and`")
        return Dc(frozenset(predicates), table)

    def conjunction(self) -> list[Predicate]:
        predicates = [self.predicate()]
        while self.accept("and"):
            if len(predicates) == MAX_PREDICATES:
                raise self.fail(f"at most {MAX_PREDICATES:,} predicates")
            predicates.append(self.predicate())
        return predicates

    def predicate(self) -> Predicate:
        left = self.operand()
        if isinstance(left, Cell) and self.accept("is"):
            negated = self.accept("not")
            self.expect("null", "" if negated else " or `not null`")
            return IsNull(left, negated)
        op = self.operator(" or `is`" if isinstance(left, Cell) else "")
        start = self.token.start
        right = self.operand()
        if isinstance(left, Cell):
            return Compare(left, op, right).canonical()
        if isinstance(right, Cell):
            return Compare(right, op.mirror, left)
        raise ParseError("a cell such as t.zip on one side", self.text, start)

    def operator(self, also: str = "") -> Op:
        op = _OPS.get(self.token.text)
        if op is None:
            hint = {"==": " (equality is written =)", "<>": " (inequality is written !=)"}.get(self.token.text, "")
            raise self.fail(f"one of = != < <= > >={also}{hint}")
        self.at += 1
        return op

    def operand(self) -> Cell | Constant:
        token = self.token
        if token.kind == "name" and token.text in ("t", "s") and self.sees(".", ahead=1):
            self.at += 2
            return Cell(token.text, self.name("a column"))
        if token.kind in ("number", "string") or token.text in ("true", "false", "date", "timestamp"):
            return self.constant()
        raise self.fail("t.column, s.column or a literal")

    def constant(self) -> Constant:
        token = self.token
        self.at += 1
        if token.kind == "number":
            return self.number(token)
        if token.kind == "string":
            return Constant.of(_unquoted(token))
        if token.text in ("true", "false"):
            return Constant.of(token.text == "true")
        return self.moment(token.text)

    def number(self, token: Token) -> Constant:
        out_of_bounds = ParseError(NUMBER_BOUNDS, self.text, token.start)
        if len(token.text) > _MAX_NUMBER_CHARACTERS:
            raise out_of_bounds
        try:
            return Constant.of(Decimal(token.text))
        except (InvalidOperation, RuleError):  # the exponent or the number is out of range
            raise out_of_bounds from None

    def moment(self, word: str) -> Constant:
        token = self.token
        if token.kind != "string":
            raise self.fail(f"a quoted {word} such as {word} '2026-01-31{'T10:00:00Z' if word == 'timestamp' else ''}'")
        read = date.fromisoformat if word == "date" else datetime.fromisoformat
        try:
            constant = Constant.of(read(_unquoted(token)))
        except (ValueError, OverflowError):
            raise self.fail(f"an ISO {word}") from None
        if re.search(r"[.,]\d{7}", token.text):
            raise self.fail("at most microseconds")
        self.at += 1
        return constant


def _unquoted(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _tokens(text: str) -> list[Token]:
    """The tokens of a text, ending with `end`. O(characters): each match starts where the previous one ended."""
    if len(text) > MAX_CHARACTERS:
        raise ParseError(f"at most {MAX_CHARACTERS:,} characters", text, MAX_CHARACTERS)
    _require_encodable(text)
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup
        assert kind is not None
        token = Token(kind, match.group(kind), match.start(kind))
        if kind == "other":
            raise ParseError(_UNCLOSED.get(token.text, "a name, a literal or an operator"), text, token.start)
        tokens.append(token)
        if kind == "end":
            break
    return tokens


def _require_encodable(text: str) -> None:
    """Raises an error for a lone surrogate, which cannot be written to a file."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ParseError("a character that UTF-8 can write", text, error.start) from None


_UNCLOSED = {"'": "a closing quote", "`": "a closing backtick"}

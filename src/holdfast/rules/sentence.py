"""Rules and violations as English sentences, with the user's column names."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from holdfast.rules.names import Rank, by_name
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, IsNull, Miscalculated, Predicate
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Marked, Order, Rule, as_dc
from holdfast.rules.wording import counted, listed, percent

_THAN_OTHER = {
    Op.EQ: "the same {}",
    Op.NE: "a different {}",
    Op.LT: "a smaller {}",
    Op.LE: "a smaller or equal {}",
    Op.GT: "a larger {}",
    Op.GE: "a larger or equal {}",
}
_IS = {
    Op.EQ: "equal to",
    Op.NE: "different from",
    Op.LT: "smaller than",
    Op.LE: "smaller than or equal to",
    Op.GT: "larger than",
    Op.GE: "larger than or equal to",
}


def sentence(rule: Rule, rank: Rank = by_name, error: float = 0.0, where: str | None = None) -> str:
    """A rule as a sentence. It mentions the error of an approximate rule and the filter `where`.

    >>> from holdfast.rules.grammar import parse
    >>> sentence(parse("key(area, phone)"))
    'No two rows have the same area and phone.'
    >>> sentence(parse("zip -> city"), error=0.004)
    'Rows with the same zip have the same city, nearly always (error 0.4 %).'
    >>> sentence(parse("not(t.state = s.state and t.salary > s.salary and t.rate < s.rate)"))
    'Of two rows with the same state, the one with a larger rate never has a smaller salary.'
    >>> sentence(parse("{salary >} -> tax >="))
    'A row with a smaller salary than another has a smaller or equal tax.'
    >>> sentence(parse("not(t.low > t.high)"))
    'high is never smaller than low.'
    >>> sentence(parse("total = other + repair"))
    'total = other + repair.'
    >>> sentence(parse("orders: zip -> city"))
    'In orders, rows with the same zip have the same city.'
    """
    qualification = f", nearly always (error {percent(error)})" if error else ""
    return f"{_claim_with_scope(rule, rank, where)}{qualification}."


def standing(rule: Rule, count: int, rank: Rank = by_name, where: str | None = None) -> str:
    """A rule as a sentence, with the number of its violations.

    >>> from holdfast.rules.grammar import parse
    >>> standing(parse("zip -> city"), 6)
    'Rows with the same zip have the same city; 3 pairs of rows disagree.'
    >>> standing(parse("key(id)"), 0, where="t.id > 5")
    'No two rows have the same id (only rows with t.id > 5); this holds.'
    """
    claim = _claim_with_scope(rule, rank, where)
    if not count:
        return f"{claim}; this holds."
    violations = violations_in_words(rule, count)
    is_single = violations.startswith("1 ")
    if isinstance(rule, Ind):
        return f"{claim}; {violations} {'has' if is_single else 'have'} no partner."
    if rule.is_one_row:
        return f"{claim}; {violations} {'does' if is_single else 'do'} not comply."
    return f"{claim}; {violations} {'disagrees' if is_single else 'disagree'}."


def violations_in_words(rule: Rule, count: int) -> str:
    """`3 rows` or `2 pairs of rows`."""
    if isinstance(rule, Ind) or rule.is_one_row:
        return counted(count, "row")
    return f"{counted(unordered(rule, count), 'pair')} of rows"


def unordered(rule: Rule, count: int) -> int:
    """How many pairs, or rows, so many violations are. The two ordered pairs of a symmetric rule are one pair."""
    if isinstance(rule, Ind):
        return count
    dc = as_dc(rule)
    return count if dc.is_one_row or dc.predicates != dc.mirrored() else count // 2


def clash(
    rule: Rule,
    t: object,
    s: object | None,
    values: Mapping[str, tuple[object, object | None]],
    same: Collection[str] | None = None,
) -> str:
    """One violation as a sentence, with the values of its rows in the columns of the rule.

    `same` names the columns in which the rows agree, if the shown values do not tell.

    >>> from holdfast.rules.grammar import parse
    >>> clash(parse("zip -> city"), 3, 7, {"zip": ("10115", "10115"), "city": ("Berlin", "Bonn")})
    "Rows 3 and 7 have the same zip ('10115'), but city 'Berlin' and 'Bonn'."
    """
    if isinstance(rule, Ind):
        cells = listed([f"{column} {value!r}" for column, (value, _) in values.items()])
        return f"Row {t} has {cells}, which {rule.right_table} does not have."
    if s is None:
        return f"Row {t} has {listed([f'{column} {value!r}' for column, (value, _) in values.items()])}."
    equal_columns = {column for column, (a, b) in values.items() if a == b} if same is None else set(same)
    equal = [f"{column} ({a!r})" for column, (a, _) in values.items() if column in equal_columns]
    different = [f"{column} {a!r} and {b!r}" for column, (a, b) in values.items() if column not in equal_columns]
    parts = [f"the same {listed(equal)}"] if equal else []
    return f"Rows {t} and {s} have {', but '.join([*parts, listed(different)] if different else parts)}."


def _claim_with_scope(rule: Rule, rank: Rank, where: str | None = None) -> str:
    """The claim of a rule, with its table, if the rule names it, and its filter."""
    claim = _claim(rule, rank) + (f" (only rows with {where})" if where else "")
    if rule.table is None or isinstance(rule, Ind):
        return claim
    starts_with_column = any(claim.startswith(f"{cell.column} ") for p in as_dc(rule).predicates for cell in p.cells)
    return f"In {rule.table}, {claim if starts_with_column else claim[0].lower() + claim[1:]}"


def _claim(rule: Rule, rank: Rank) -> str:
    if isinstance(rule, Ind):
        left, right = listed(rule.left), listed(rule.right)
        return f"Every {left} of {rule.left_table} occurs as {right} of {rule.right_table}"
    if isinstance(rule, Order):
        return _order(rule, rank)
    if isinstance(rule, Key | Fd):
        return _pairwise(as_dc(rule).predicates, rank)
    if isinstance(rule, Calculation):
        return rule.body(rank)
    return _one_row(rule, rank) if rule.is_one_row else _pairwise(_toward_larger(rule), rank)


def _order(rule: Order, rank: Rank) -> str:
    if not rule.left:
        return f"No row has a larger {rule.right.column} than another"
    right, marks = rule.right, sorted(rule.left, key=lambda mark: rank(mark.column))
    if right.op is Op.EQ and all(mark.op is Op.EQ for mark in marks):
        return f"Rows with the same {listed([mark.column for mark in marks])} have the same {right.column}"
    same = [mark.column for mark in marks if mark.op is Op.EQ]
    others = [_comparison(mark) for mark in marks if mark.op is not Op.EQ]
    if not others and right.op is Op.LT:
        return f"No two rows with the same {listed(same)} have values of {right.column} that can be compared"
    if not others:
        return f"Of two rows with the same {listed(same)}, none has a larger {right.column}"
    start = f"Of two rows with the same {listed(same)}, one" if same else "A row"
    return f"{start} with {listed(others)} than {'the other' if same else 'another'} has {_comparison(right)}"


def _comparison(mark: Marked) -> str:
    return _THAN_OTHER[mark.op].format(mark.column)


def _toward_larger(rule: Dc) -> frozenset[Predicate]:
    """The mirror image whose first ordered comparison says "larger"."""
    comparisons = [p for p in sorted(rule.predicates, key=lambda p: p.sort_key(by_name)) if isinstance(p, Compare)]
    ordered = [p.op for p in comparisons if p.is_pair and p.op not in (Op.EQ, Op.NE)]
    return rule.mirrored() if ordered and ordered[0] in (Op.LT, Op.LE) else rule.predicates


def _pairwise(predicates: Iterable[Predicate], rank: Rank) -> str:
    """The claim of a rule about two rows."""
    parts = sorted(predicates, key=lambda p: p.sort_key(rank))
    pairs = [p for p in parts if isinstance(p, Compare) and p.is_pair and len({c.column for c in p.cells}) == 1]
    if len(pairs) < len(parts):
        return _with_two_names(parts)
    same, differ = ([p.left.column for p in pairs if p.op is op] for op in (Op.EQ, Op.NE))
    ordered = [_THAN_OTHER[p.op].format(p.left.column) for p in pairs if p.op not in (Op.EQ, Op.NE)]
    if not ordered and not differ:
        return f"No two rows have the same {listed(same)}"
    if not ordered:
        *differ, last = differ
        if not same and not differ:
            return f"{last} is the same in every row"
        return f"Rows{_with_columns(same, differ)} have the same {last}"
    *first, last = ordered
    start = f"Of two rows{_with_columns(same, differ)}"
    return f"{start}, the one with {listed(first)} never has {last}" if first else f"{start}, none has {last}"


def _with_columns(same: Sequence[str], differ: Sequence[str]) -> str:
    parts = [f" with the same {listed(same)}"] if same else []
    parts += [f" that differ in {listed(differ)}"] if differ else []
    return "".join(parts)


def _with_two_names(parts: Sequence[Predicate]) -> str:
    """The claim of a rule that compares different columns of two rows, as "one's" and "the other's"."""
    return f"There are no two rows of which {listed([_of_two(p) for p in parts])}"


def _of_two(predicate: Predicate) -> str:
    if isinstance(predicate, IsNull):
        return f"{_whose(predicate.cell)} is {'not ' if predicate.negated else ''}empty"
    if isinstance(predicate, Miscalculated):
        return f"{_whose(predicate.result)} is not {predicate.formula.text()}"
    if not isinstance(predicate.right, Cell):
        return f"{_whose(predicate.left)} is {_IS[predicate.op]} {predicate.right}"
    a, b = predicate.left, predicate.right
    if a.column == b.column and predicate.op in (Op.EQ, Op.NE):
        return f"{a.column} is {'the same' if predicate.op is Op.EQ else 'different'}"
    return f"{_whose(a)} is {_IS[predicate.op]} {_whose(b)}"


def _whose(cell: Cell) -> str:
    return f"{'one' if cell.row == 't' else 'the other'}'s {cell.column}"


def _one_row(rule: Dc, rank: Rank) -> str:
    *others, last = sorted(rule.predicates, key=lambda p: p.sort_key(rank))
    never = _of_one(last, " never")
    return f"Where {listed([_of_one(p) for p in others])}, {never}" if others else never


def _of_one(predicate: Predicate, adverb: str = "") -> str:
    if isinstance(predicate, IsNull):
        return f"{predicate.cell.column} is{adverb} {'filled' if predicate.negated else 'empty'}"
    if isinstance(predicate, Miscalculated):
        return f"{predicate.result.column} is {'always' if adverb else 'not'} {predicate.formula.text()}"
    right = predicate.right.column if isinstance(predicate.right, Cell) else str(predicate.right)
    if predicate.op is Op.NE and adverb:
        return f"{predicate.left.column} is always equal to {right}"
    return f"{predicate.left.column} is{adverb} {_IS[predicate.op]} {right}"

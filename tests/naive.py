"""The definitions, in the fewest lines, on plain Python rows. They decide; nothing here is meant to be fast, but who
only asks whether there are violations looks for no more of them than it takes.

A row is a dict of column to int, Decimal, float, date, datetime, bool, str or None; a database is {table: rows}.
Pairs are ordered pairs of positions.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from itertools import chain, combinations, islice, permutations, product

from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, IsNull, Miscalculated
from holdfast.rules.rule import Calculation, Dc, Fd, Ind, Key, Marked, Order


def below(a, b):
    """a < b for values; NaN is above everything."""
    if isinstance(a, float) and math.isnan(a):
        return False
    if isinstance(b, float) and math.isnan(b):
        return True
    return _moment(a, b) < _moment(b, a)


def same(a, b):
    """a = b for values; NaN equals itself."""
    if isinstance(a, float) and math.isnan(a):
        return isinstance(b, float) and math.isnan(b)
    return _moment(a, b) == _moment(b, a)


def _moment(a, b):
    """A date meets a timestamp as its midnight."""
    is_date = isinstance(b, datetime) and isinstance(a, date) and not isinstance(a, datetime)
    return datetime(a.year, a.month, a.day, tzinfo=UTC) if is_date else a


OPERATORS = {
    Op.EQ: same,
    Op.NE: lambda a, b: not same(a, b),
    Op.LT: below,
    Op.LE: lambda a, b: below(a, b) or same(a, b),
    Op.GT: lambda a, b: below(b, a),
    Op.GE: lambda a, b: below(b, a) or same(a, b),
}


def holds(op, a, b, nulls):
    """a op b under a null policy."""
    if a is None or b is None:
        if nulls == "sql":
            return False
        if nulls == "equal" and a is None and b is None:
            return op in (Op.EQ, Op.LE, Op.GE)
        return op is Op.NE
    return OPERATORS[op](a, b)


def is_miscalculated(row, result, formula):
    """Whether a number is not what a formula gives, of a row that has all three."""
    if None in (row[result], row[formula.left], row[formula.right]):
        return False
    left, right = Fraction(row[formula.left]), Fraction(row[formula.right])
    return Fraction(row[result]) != (left + right if formula.op == "+" else left * right)


def satisfies(predicate, t, s, nulls):
    def value(operand, other):
        if isinstance(operand, Cell):
            return {"t": t, "s": s}[operand.row][operand.column]
        return float(operand.value) if isinstance(other, float) and operand.kind == "number" else operand.value

    if isinstance(predicate, Miscalculated):
        return is_miscalculated({"t": t, "s": s}[predicate.result.row], predicate.result.column, predicate.formula)
    if isinstance(predicate, IsNull):
        return (value(predicate.cell, None) is None) != predicate.negated
    left = value(predicate.left, None)
    return holds(predicate.op, left, value(predicate.right, left), nulls)


def violates(rule, t, s, nulls):
    """Whether the ordered pair (t, s) violates a key, FD, order dependency or DC, each by its own definition."""

    def is_so(op, column):
        return holds(op, t[column], s[column], nulls)

    if isinstance(rule, Key):
        return all(is_so(Op.EQ, c) for c in rule.columns)
    if isinstance(rule, Fd):
        return all(is_so(Op.EQ, c) for c in rule.left) and is_so(Op.NE, rule.right)
    if isinstance(rule, Order):
        t, s = (s, t) if rule.flipped else (t, s)
        return all(is_so(m.op, m.column) for m in rule.left) and is_so(rule.right.op.inverse, rule.right.column)
    if isinstance(rule, Calculation):
        return is_miscalculated(t, rule.result, rule.formula)
    return all(satisfies(p, t, s, nulls) for p in rule.written)


def violations(rule, rows, nulls, where=frozenset(), most=None):
    """The violating ordered pairs (i, j), or the violating rows i of a one-row rule; at `most` the first ones.

    `rows` of an IND: a database.
    """
    return list(islice(_violations(rule, rows, nulls, where), most))


def _violations(rule, rows, nulls, where):
    if isinstance(rule, Ind):
        right = [[s[c] for c in rule.right] for s in rows[rule.right_table]]
        left = [(i, [t[c] for c in rule.left]) for i, t in enumerate(rows[rule.left_table])
                if all(satisfies(p, t, t, "sql") for p in where)]  # fmt: skip
        return (i for i, a in left if None not in a and not any(equal_tuples(a, b) for b in right))
    kept = [(i, row) for i, row in enumerate(rows) if all(satisfies(p, row, row, "sql") for p in where)]
    if rule.is_one_row:
        return (i for i, t in kept if violates(rule, t, t, nulls))
    return ((i, j) for (i, t), (j, s) in permutations(kept, 2) if violates(rule, t, s, nulls))


def equal_tuples(a, b):
    return all(y is not None and same(x, y) for x, y in zip(a, b, strict=True))


def round_trips(text):
    """Whether a number's text is its double's: the shortest, or at least 17 digits of the double itself."""
    value, digits = float(text), re.sub("[eE].*|[-.]", "", text).lstrip("0")
    full = len(digits) > 16 and Fraction(format(value, f".{len(digits) - 1}e")) == Fraction(text)
    return full or Fraction(repr(value)) == Fraction(text)


def text_of(value):
    """A value as plain text. A float that is no integer or decimal of 64 bits is its shortest digits."""
    if isinstance(value, bool | str) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value) if isinstance(value, str) else str(value).lower()
    if isinstance(value, date):
        text = value.astimezone(UTC).isoformat()[:-6] if isinstance(value, datetime) else value.isoformat()
        return (text.rstrip("0") if "." in text else text) + "Z" * isinstance(value, datetime)
    if isinstance(value, float):
        scaled = [Fraction(value) * 10**places for places in range(19)]
        exact = any(number.denominator == 1 and abs(number) < 2**63 for number in scaled)
        value = Decimal(value) if exact else Decimal(repr(value))
    text = f"{value:f}" if isinstance(value, Decimal) else str(value)
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text


# --- error ---------------------------------------------------------------------------------------------------


def g1(rule, rows, nulls):
    """Violating ordered pairs / n(n-1); rows / n for one-row rules."""
    n, found = len(rows), len(violations(rule, rows, nulls))
    total = n if isinstance(rule, Dc) and rule.is_one_row else n * (n - 1)
    return found / total if n >= 2 else 0.0


def rows_to_remove(rule, rows, nulls):
    """The fewest rows to remove so that the rule holds. For keys and FDs, by trying all subsets."""
    n = len(rows)
    for removed in range(n + 1):
        for kept in combinations(rows, n - removed):
            if not violations(rule, kept, nulls, most=1):
                return removed
    raise AssertionError


def g3(rule, rows, nulls):
    """Fewest rows to remove so that the rule holds, / n."""
    return rows_to_remove(rule, rows, nulls) / len(rows) if len(rows) >= 2 else 0.0


def missing(rule, database):
    """(distinct left tuples that are missing on the right, distinct left tuples)."""
    left = [tuple(t[c] for c in rule.left) for t in database[rule.left_table]]
    right = [tuple(s[c] for c in rule.right) for s in database[rule.right_table]]
    distinct = []
    for a in left:
        if None not in a and not any(equal_tuples(a, b) for b in distinct):
            distinct.append(a)
    lost = [a for a in distinct if not any(equal_tuples(a, b) for b in right)]
    return len(lost), len(distinct)


def missing_share(rule, database):
    """The share of distinct left tuples that are missing on the right; None where there is no left tuple."""
    lost, distinct = missing(rule, database)
    return lost / distinct if distinct else None


def most_within(max_error, total):
    """The most errors, of so many, that a share allows; the share is the decimal that was written."""
    return math.floor(Fraction(str(max_error)) * total)


def within(rule, rows, nulls, max_error=0.0, error="g1"):
    """Whether the rule holds up to max_error."""
    n = len(rows)
    if error == "g3":
        return rows_to_remove(rule, rows, nulls) <= most_within(max_error, n)
    most = most_within(max_error, n * (n - 1))
    return len(violations(rule, rows, nulls, most=most + 1)) <= most


# --- all minimal rules ---------------------------------------------------------------------------------------


def subsets(items, most=None):
    items = list(items)
    sizes = range(len(items) + 1 if most is None else min(most, len(items)) + 1)
    return chain.from_iterable(combinations(items, k) for k in sizes)


def op_implies(strong, weak):
    """By trying the three ways in which two values can compare."""
    ways = ((0, 0), (0, 1), (1, 0))
    return all(holds(weak, a, b, "sql") for a, b in ways if holds(strong, a, b, "sql"))


def implies(strong, weak):
    """Whether `strong`, being valid, makes `weak` superfluous (design section 2)."""
    if isinstance(strong, Key):
        return strong.columns <= weak.columns
    if isinstance(strong, Fd):
        return strong.right == weak.right and strong.left <= weak.left
    if isinstance(strong, Order):
        images = [(weak.left, weak.right), ([m.mirrored() for m in weak.left], weak.right.mirrored())]
        return any(
            strong.right.column == right.column and op_implies(strong.right.op, right.op)
            and all(any(m.column == x.column and op_implies(x.op, m.op) for x in left) for m in strong.left)
            for left, right in images
        )  # fmt: skip
    return any(
        all(any(p.operands == q.operands and op_implies(q.op, p.op) for q in side) for p in strong.predicates)
        for side in (weak.predicates, weak.mirrored())
    )


def trivial(rule):
    """Whether no values satisfy a DC of column comparisons, by trying as many values as there are cells."""
    cells = sorted({cell for p in rule.predicates for cell in p.cells}, key=str)
    for values in product(range(len(cells)), repeat=len(cells)):
        row = dict(zip(cells, values, strict=True))
        if all(holds(p.op, row[p.left], row[p.right], "sql") for p in rule.predicates):
            return False
    return True


def minimal(candidates, valid):
    """The valid candidates that no other valid one implies. Fewer than two rows: the caller reports none."""
    found = [rule for rule in dict.fromkeys(candidates) if valid(rule)]
    return {rule for rule in found if not any(other != rule and implies(other, rule) for other in found)}


def keys(rows, columns, nulls, most=None, **error):
    candidates = [Key(frozenset(x)) for x in subsets(columns, most) if x]
    return minimal(candidates, lambda rule: within(rule, rows, nulls, **error)) if len(rows) > 1 else set()


def fds(rows, columns, nulls, most=None, **error):
    candidates = [Fd(frozenset(x), a) for a in columns for x in subsets([c for c in columns if c != a], most)]
    return minimal(candidates, lambda rule: within(rule, rows, nulls, **error)) if len(rows) > 1 else set()


def orders(rows, columns, nulls, most=None, max_error=0.0):
    """`columns`: name to whether it is ordered; unordered ones take only `=`."""

    def marks(column, ops):
        return [Marked(column, op) for op in ops if columns[column] or op is Op.EQ]

    left_ops = (Op.LT, Op.LE, Op.EQ, Op.GE, Op.GT)
    candidates = [
        Order(frozenset(left), right)
        for a in columns
        for right in marks(a, (Op.LT, Op.LE, Op.EQ))
        for x in subsets([c for c in columns if c != a], most)
        for left in product(*(marks(c, left_ops) for c in x))
    ]
    return minimal(candidates, lambda rule: within(rule, rows, nulls, max_error)) if len(rows) > 1 else set()


def dcs(rows, comparisons, nulls, most=None, max_error=0.0):
    """`comparisons`: (column of t, column of s, whether ordered); `most` counts compared column pairs."""
    candidates = _dc_candidates(comparisons, most)
    return minimal(candidates, lambda rule: within(rule, rows, nulls, max_error)) if len(rows) > 1 else set()


def _dc_candidates(comparisons, most):
    def predicates(a, b, ordered):
        ops = tuple(Op) if ordered else (Op.EQ, Op.NE)
        return [Compare(Cell("t", a), op, Cell("s", b)) for op in ops]

    candidates = [
        Dc(frozenset(chosen))
        for x in subsets(comparisons, most)
        if x
        for chosen in product(*(predicates(*c) for c in x))
    ]
    return [rule for rule in dict.fromkeys(candidates) if not trivial(rule)]


def plain_dcs(rows, comparisons, nulls, most=None):
    """The valid DCs of which no predicate can be left out; those that nothing satisfies are none."""
    valid = [rule for rule in _dc_candidates(comparisons, most) if within(rule, rows, nulls)] if len(rows) > 1 else []
    sides = {rule: (rule.predicates, rule.mirrored()) for rule in valid}
    return {r for r in valid if not any(o.predicates < side for o in valid for side in sides[r])}


def row_rules(rows, columns, pairs, nulls, max_error=0.0):
    """Never null; and how ordered columns of one group stand to each other in every row with both values."""
    most = most_within(max_error, len(rows))

    def good(rule):
        return len(violations(rule, rows, nulls)) <= most

    found = {rule for c in columns if good(rule := Dc(frozenset({IsNull(Cell("t", c))})))}
    for a, b in pairs:
        if any(t[a] is not None and t[b] is not None for t in rows):
            made = {
                op: Dc(frozenset({Compare(Cell("t", a), op.inverse, Cell("t", b))})) for op in Op if op is not Op.NE
            }
            ops = [op for op, rule in made.items() if good(rule)]
            found |= {made[op] for op in ops if not any(op != o and op_implies(o, op) for o in ops)}
    return found if rows else set()


def inds(database, groups, max_error=0.0):
    """All non-trivial unary INDs; `groups`: {(table, column): kind group}. Vacuous ones are left out."""
    found = set()
    for (lt, lc), (rt, rc) in permutations(groups, 2):
        if groups[lt, lc] == groups[rt, rc]:
            rule = Ind(lt, (lc,), rt, (rc,))
            lost, distinct = missing(rule, database)
            if distinct and lost <= most_within(max_error, distinct):
                found.add(rule)
    return found


def wide_inds(database, groups, most=None):
    """The maximal INDs of two columns and more whose parts all hold, and each of whose left sides has a tuple."""

    def holds_on_some(rule):
        left = [tuple(t[c] for c in rule.left) for t in database[rule.left_table]]
        return any(None not in a for a in left) and not violations(rule, database, "sql")

    unary, found = inds(database, groups), set()
    for lt, rt in {(rule.left_table, rule.right_table) for rule in unary}:
        pairs = [(r.left[0], r.right[0]) for r in unary if (r.left_table, r.right_table) == (lt, rt)]
        for chosen in subsets(pairs, most):
            if len(chosen) > 1 and all(len({p[side] for p in chosen}) == len(chosen) for side in (0, 1)):
                parts = [Ind(lt, tuple(a for a, _ in p), rt, tuple(b for _, b in p)) for p in subsets(chosen) if p]
                if all(holds_on_some(part) for part in parts):
                    found.add(parts[-1])
    return {r for r in found if not any(r != o and _is_part(r, o) for o in found)}


def _is_part(rule, other):
    pairs, others = (set(zip(r.left, r.right, strict=True)) for r in (rule, other))
    return (rule.left_table, rule.right_table) == (other.left_table, other.right_table) and pairs < others


# --- tables under change -------------------------------------------------------------------------------------


def apply_by_key(rows, key, deletes, inserts):
    """`rows`: {key value: row}. Deletes by key, then inserts; None where the change contradicts the table."""
    after = dict(rows)
    for k in deletes:
        if after.pop(k, None) is None:
            return None
    for row in inserts:
        k = tuple(row[c] for c in key)
        if None in k or k in after:
            return None
        after[k] = row
    return after


def apply_by_value(rows, deletes, inserts):
    """`rows`: a list of tuples, oldest first. Equal deletes and inserts cancel; a delete takes the youngest."""
    both = Counter(deletes) & Counter(inserts)
    deletes, inserts = list((Counter(deletes) - both).elements()), _without_last(inserts, both)
    after = list(rows)
    for row in deletes:
        if row not in after:
            return None
        del after[len(after) - 1 - after[::-1].index(row)]
    return after + inserts


def _without_last(rows, counts):
    counts, kept = Counter(counts), []
    for row in reversed(rows):
        if counts[row]:
            counts[row] -= 1
        else:
            kept.append(row)
    return kept[::-1]

"""Checks that a rule fits the tables: its columns exist, and the columns it compares are comparable."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from copy import copy
from decimal import Decimal

from holdfast.errors import RuleError, SchemaError, shown
from holdfast.rules.nulls import Nulls
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Cell, Compare, Miscalculated, Predicate
from holdfast.rules.rule import Dc, Ind, Rule, as_dc
from holdfast.table.compare import comparable, mark
from holdfast.table.kind import Kind
from holdfast.table.schema import Column, Schema, unknown_name

Schemas = Mapping[str, Schema]


def require_policy(nulls: str) -> Nulls:
    """The null policy with this name; RuleError if there is none."""
    try:
        return Nulls(nulls)
    except ValueError:
        raise RuleError(f"{shown(nulls)} is not one of the null policies {', '.join(Nulls)}") from None


def table_of(rule: Rule, schemas: Schemas) -> str:
    """The table of a rule: the one it names, or the only one. For an inclusion, the left table."""
    name = rule.left_table if isinstance(rule, Ind) else rule.table
    if name is None:
        if len(schemas) > 1:
            raise RuleError(f"`{rule}`: say which table it is for, as in `{next(iter(schemas))}: {rule}`")
        return next(iter(schemas))
    if name not in schemas:
        raise RuleError(f"`{rule}`: {unknown_name('table', name, list(schemas))}")
    return name


def resolved(rule: Rule, tables: Collection[str]) -> Rule:
    """The rule in the form used for look-up: without the table's name if there is only one table.

    So `zip -> city` and `people: zip -> city` are the same rule. With several tables, every rule names its table.

    >>> from holdfast.rules.grammar import parse
    >>> [str(resolved(parse("people: zip -> city"), tables)) for tables in (["people"], ["people", "orders"])]
    ['zip -> city', 'people: zip -> city']
    """
    return _with_table(rule, None) if len(tables) == 1 and rule.table in tables else rule


def forms(rule: Rule, tables: Collection[str]) -> tuple[Rule, ...]:
    """The equivalent forms of a rule: with one table, both without and with its name."""
    bare = resolved(rule, tables)
    if isinstance(bare, Ind) or bare.table is not None or len(tables) != 1:
        return (rule,)
    return bare, _with_table(bare, next(iter(tables)))


def _with_table(rule: Rule, table: str | None) -> Rule:
    """The rule with another table; unlike `replace`, this keeps `flipped`."""
    moved = copy(rule)
    object.__setattr__(moved, "table", table)
    return moved


def require_fits(rule: Rule, schemas: Schemas) -> None:
    """Raises a RuleError with rule, column and reason if the rule does not fit the tables."""
    try:
        if isinstance(rule, Ind):
            _require_inclusion(rule, schemas)
        else:
            schema = schemas[table_of(rule, schemas)]
            require_predicates_fit(as_dc(rule).predicates, schema)
    except SchemaError as error:
        raise RuleError(f"`{rule}`: {error}") from None
    except RuleError as error:
        raise RuleError(str(error) if str(error).startswith("`") else f"`{rule}`: {error}") from None


def require_predicates_fit(predicates: frozenset[Predicate], schema: Schema) -> None:
    """Raises an error if a predicate does not fit the schema."""
    for predicate in sorted(predicates, key=str):
        for cell in predicate.cells:
            schema.position(cell.column)
        if isinstance(predicate, Compare):
            _require_comparison(predicate, schema)
        elif isinstance(predicate, Miscalculated):
            _require_exact_numbers(predicate, schema)


def _require_exact_numbers(predicate: Miscalculated, schema: Schema) -> None:
    for column in (schema.column(cell.column) for cell in predicate.cells):
        if column.kind not in (Kind.INTEGER, Kind.DECIMAL):
            raise RuleError(f"column {column.name!r} is {column.type_text}; a formula has integers and decimals only")


def _require_comparison(predicate: Compare, schema: Schema) -> None:
    left = schema.column(predicate.left.column)
    if predicate.op.is_order and not left.kind.ordered:
        raise _unordered(predicate.op, left)
    if isinstance(predicate.right, Cell):
        _require_comparable(left, schema.column(predicate.right.column))
    else:
        mark(left, predicate.right.value)
        if isinstance(predicate.right.value, Decimal) and left.kind is Kind.FLOAT:
            _require_float(left, predicate.right.value)


def _require_float(column: Column, number: Decimal) -> None:
    """Raises an error if a number, compared as the nearest float, would become infinity or 0."""
    nearest = float(number)
    if math.isinf(nearest) or (nearest == 0 and number != 0):
        size = "large" if nearest else "small"
        raise RuleError(
            f"column {column.name!r} is float: {number:.3e} is too {size} for it (floats are from 5e-324 to 1.8e308)"
        )


def _unordered(op: Op, column: Column) -> RuleError:
    return RuleError(f"column {column.name!r} is {column.type_text}, which has no order: {op} cannot be used on it")


def _require_comparable(left: Column, right: Column) -> None:
    if not comparable(left, right):
        raise RuleError(
            f"column {left.name!r} ({left.type_text}) cannot be compared with {right.name!r} ({right.type_text})"
        )


def _require_inclusion(rule: Ind, schemas: Schemas) -> None:
    left_schema = schemas[table_of(rule, schemas)]
    if rule.right_table not in schemas:
        raise RuleError(unknown_name("table", rule.right_table, list(schemas)))
    for left, right in zip(rule.left, rule.right, strict=True):
        _require_comparable(left_schema.column(left), schemas[rule.right_table].column(right))


def is_symmetric(rule: Dc) -> bool:
    """Whether exchanging t and s gives the same predicates, so that each violation (t, s) has its mirror (s, t)."""
    return rule.mirrored() == rule.predicates

"""How each checked rule is checked on Spark: as groups, as values, row by row, or by a search of pairs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.errors import NotAvailable
from holdfast.rules.bind import Schemas, table_of
from holdfast.rules.rule import Ind
from holdfast.spark.agreement import Agreement, agreement_of
from holdfast.spark.inclusion import Inclusion
from holdfast.spark.pair_tasks import PairSearch
from holdfast.spark.predicates import are_exact
from holdfast.violations.detect import CheckedRule

Way = Agreement | Inclusion | PairSearch | None  # None: a test of each row


@dataclass(frozen=True)
class PlannedRule:
    """A checked rule, its table, and how it is checked."""

    number: int
    item: CheckedRule
    table: str
    way: Way


def planned(checked: Sequence[CheckedRule], schemas: Schemas) -> list[PlannedRule]:
    """The rules with the way in which each is checked."""
    return [
        PlannedRule(number, item, table_of(item.rule, schemas), _way(item, schemas))
        for number, item in enumerate(checked)
    ]


def _way(item: CheckedRule, schemas: Schemas) -> Way:
    table = table_of(item.rule, schemas)
    schema = schemas[table]
    if isinstance(item.rule, Ind):
        if not are_exact(item.where, schema):
            raise NotAvailable(f"`{item.rule}`: Spark cannot compare a decimal with a float exactly; cast one of them")
        return Inclusion(item.rule, schemas, item.where)
    if item.is_single:
        return None
    return agreement_of(item, table, schema) or PairSearch(item.rule, schema, item.nulls, item.where)

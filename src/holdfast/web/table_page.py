"""What the page of a table shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.ranking.in_words import TableSections
from holdfast.ranking.rank import Ranked
from holdfast.report.columns import ColumnFacts, column_facts
from holdfast.report.facts import FOUND, Line
from holdfast.rulebook import Rulebook
from holdfast.rules.grammar import parse
from holdfast.rules.rule import Ind, Rule, as_dc
from holdfast.workflow.masking import Mask

_MAX_TOUCHING = 3  # rules that are named for each column


@dataclass(frozen=True)
class TablePage:
    """A table: what is worth reading about it, the rules that somebody decided about, its columns. `touching`: for each
    column, the rules that mention it, those with a decision first; only the first are named."""

    table: str
    key: tuple[str, ...]
    said: TableSections
    decided: tuple[Line, ...]
    columns: tuple[ColumnFacts, ...]
    touching: dict[str, list[Line]]

    @classmethod
    def of(
        cls, book: Rulebook, said: TableSections, mask: Mask, lines: Sequence[Line], best: Sequence[Ranked]
    ) -> TablePage:
        """`lines`: all rules; those with a decision, and the `best` others, are named."""
        table = said.table
        worth = {one.id for one in best}
        of_table = [
            (line, columns)
            for line in lines
            if (line.status != FOUND or line.id in worth) and (columns := columns_of(parse(line.rule), table, book))
        ]
        schema = book.schemas[table]
        return cls(
            table,
            tuple(book.tables[table].key),
            said,
            tuple(line for line, _ in of_table if line.status != FOUND),
            tuple(column_facts(book, table, mask)),
            {name: [line for line, columns in of_table if name in columns][:_MAX_TOUCHING] for name in schema.names},
        )


def columns_of(rule: Rule, table: str, book: Rulebook) -> frozenset[str]:
    """The columns of a table that a rule mentions."""
    if isinstance(rule, Ind):
        sides = ((rule.left_table, rule.left), (rule.right_table, rule.right))
        return frozenset(name for side, names in sides if side == table for name in names)
    if rule.table != table and not (rule.table is None and len(book.schemas) == 1):
        return frozenset()
    return frozenset(cell.column for predicate in as_dc(rule).predicates for cell in predicate.cells)

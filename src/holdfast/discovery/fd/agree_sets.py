"""The agree-set multiset of a table under inserts and deletes (DynASt, sections 3 to 5).

The agree-set of a pair of rows is the set of columns in which they are equal. The multiset counts the unordered pairs
of each agree-set. A change adds the pairs of inserted rows and subtracts those of deleted rows (Property 1). Differs
from the paper, which drops the empty agree-set: constant columns and the error of keys need it. Under `sql` an entry is
two sets, the columns in which the pair agrees and those in which it differs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.discovery.pair_sets import FEW_PAIRS, PairSets
from holdfast.discovery.pair_tiles import PAIRS_PER_TILE, Compared
from holdfast.executors.executor import Executor
from holdfast.executors.threads import ThreadExecutor
from holdfast.rules.masks import Masks, full, words_for
from holdfast.table.dictionary import Codes


@dataclass
class AgreeSets(PairSets):
    """The agree-sets of one table.

    >>> import numpy as np
    >>> from holdfast.table.row_change import RowChange
    >>> table = AgreeSets(columns=2)
    >>> ids, codes = np.arange(3), np.array([[1, 1, 2], [5, 6, 5]])
    >>> no_rows = np.arange(0), codes[:, :0]
    >>> delta = table.delta(RowChange(*no_rows, ids, codes, *no_rows))
    >>> _ = table.merge(delta)
    >>> sorted(zip(table.sets[:, 0].tolist(), table.counts.tolist()))  # bit 0: the first column
    [(0, 1), (1, 1), (2, 1)]
    """

    columns: int
    nulls: str = "equal"
    executor: Executor = field(default_factory=ThreadExecutor)
    few_pairs: int = FEW_PAIRS
    pairs_per_tile: int = PAIRS_PER_TILE

    def __post_init__(self) -> None:
        super().__post_init__()
        self.two_sided = self.nulls == "sql"

    @property
    def width(self) -> int:
        """Words of an entry."""
        return words_for(self.columns) * (2 if self.nulls == "sql" else 1)

    def compared(self, codes: Codes, pairs: int) -> Compared:
        return Compared.of(codes, self.nulls, pairs)

    def split(self, entries: Masks) -> tuple[Masks, Masks]:
        """The columns in which the pairs of each entry agree, and those in which they differ."""
        words = words_for(self.columns)
        agree = entries[:, :words]
        return agree, entries[:, words:] if self.nulls == "sql" else ~agree & full(self.columns)

"""Weever's own structures (its sections 4 and 5): an inverted index for every column, intersected as compressed sets.

Equalities use a hash map from values to sets of row ids, inequalities the LT-tree: a search tree over the values, whose
nodes keep, beside the ids that have their value, the ids in their left subtree. Differs from the paper: the tree is
a treap, not a red-black tree (the same rotations keep the LT-sets right, and the code is a quarter); nulls stand beside
the values, in a set of their own; violations are not stored, a row that leaves asks what it takes along.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence

from pyroaring import BitMap64

from holdfast.indexes.plan import Side
from holdfast.rules.operator import Op
from holdfast.table.dictionary import NULL
from tests.peers.row_by_row import Entry, Ops, Partners, RowByRow, Values

_MASK = (1 << 64) - 1


def _priority(value: int) -> int:
    """A number that looks random and is always the same for a value: it keeps the tree flat, whatever comes."""
    word = ((value & _MASK) ^ 0x9E3779B97F4A7C15) * 0xBF58476D1CE4E5B9 & _MASK
    return (word ^ (word >> 29)) * 0x94D049BB133111EB & _MASK


class _Node:
    __slots__ = ("left", "priority", "right", "rows", "smaller", "value")

    def __init__(self, value: int) -> None:
        self.value, self.priority = value, _priority(value)
        self.rows, self.smaller = BitMap64(), BitMap64()  # the tuple set and the LT-set
        self.left: _Node | None = None
        self.right: _Node | None = None


class LtTree:
    """Values with their rows, and fast answers to "whose value is smaller?". O(log^2) to add and remove, expected.

    >>> tree = LtTree()
    >>> for row, value in enumerate([50, 25, 10, 25]):
    ...     tree.add(value, row)
    >>> sorted(tree.smaller(50)), sorted(tree.equal(25)), len(tree)
    ([1, 2, 3], [1, 3], 3)
    """

    def __init__(self) -> None:
        self._root: _Node | None = None
        self._nodes: dict[int, _Node] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def equal(self, value: int) -> BitMap64:
        node = self._nodes.get(value)
        return node.rows if node is not None else _NONE

    def smaller(self, value: int) -> BitMap64:
        """Alg. 1: one LT-set for each step to the right. O(log) sets."""
        found, node = BitMap64(), self._root
        while node is not None:
            if value <= node.value:
                if value == node.value:
                    found |= node.smaller
                    break
                node = node.left
            else:
                found |= node.rows
                found |= node.smaller
                node = node.right
        return found

    def add(self, value: int, row: int) -> None:
        """A new row; where its value is new, a new leaf, rotated up by its priority."""
        self._root = self._added(self._root, value, row)

    def _added(self, node: _Node | None, value: int, row: int) -> _Node:
        if node is None:
            node = self._nodes[value] = _Node(value)
        if value == node.value:
            node.rows.add(row)
        elif value < node.value:
            node.smaller.add(row)
            node.left = self._added(node.left, value, row)
            if node.left.priority > node.priority:
                return _turn_right(node)
        else:
            node.right = self._added(node.right, value, row)
            if node.right.priority > node.priority:
                return _turn_left(node)
        return node

    def remove(self, value: int, row: int) -> None:
        """A row goes; a node without rows is rotated down and cut off."""
        self._root = self._removed(self._root, value, row)

    def _removed(self, node: _Node | None, value: int, row: int) -> _Node | None:
        assert node is not None, "only rows that were added are removed"
        if value < node.value:
            node.smaller.remove(row)
            node.left = self._removed(node.left, value, row)
        elif value > node.value:
            node.right = self._removed(node.right, value, row)
        else:
            node.rows.remove(row)
            if not node.rows:
                del self._nodes[value]
                return _cut_off(node)
        return node

    def _check(self) -> None:
        """The invariants, for tests: a search tree, a heap, and LT-sets that are the left subtrees."""

        def walk(node: _Node | None, low: int, high: int) -> BitMap64:
            if node is None:
                return BitMap64()
            assert low < node.value < high
            assert node.rows
            assert self._nodes[node.value] is node
            assert all(child is None or child.priority <= node.priority for child in (node.left, node.right))
            left = walk(node.left, low, node.value)
            assert left == node.smaller
            return left | node.rows | walk(node.right, node.value, high)

        walk(self._root, -(1 << 70), 1 << 70)


def _turn_right(node: _Node) -> _Node:
    """The left child becomes the parent, and takes what is in and below it out of the node's LT-set (section 4.3)."""
    child = node.left
    assert child is not None
    node.left, child.right = child.right, node
    node.smaller -= child.rows
    node.smaller -= child.smaller
    return child


def _turn_left(node: _Node) -> _Node:
    """The right child becomes the parent, with the node and what is below it in its LT-set."""
    child = node.right
    assert child is not None
    node.right, child.left = child.left, node
    child.smaller |= node.rows
    child.smaller |= node.smaller
    return child


def _cut_off(node: _Node) -> _Node | None:
    if node.left is None or node.right is None:
        return node.left or node.right
    if node.left.priority > node.right.priority:
        child = _turn_right(node)
        child.right = _cut_off(node)
    else:
        child = _turn_left(node)
        child.left = _cut_off(node)
    return child


_NONE = BitMap64()


class _HashMap:
    """Values with their rows, for equality only."""

    def __init__(self) -> None:
        self._rows: dict[int, BitMap64] = defaultdict(BitMap64)

    def __len__(self) -> int:
        return len(self._rows)

    def equal(self, value: int) -> BitMap64:
        return self._rows.get(value, _NONE)

    def add(self, value: int, row: int) -> None:
        self._rows[value].add(row)

    def remove(self, value: int, row: int) -> None:
        self._rows[value].remove(row)
        if not self._rows[value]:
            del self._rows[value]


class _Column:
    """The inverted index of one column: an LT-tree where a rule asks for order, a hash map otherwise; and its nulls."""

    def __init__(self, ordered: bool) -> None:
        self._index: LtTree | _HashMap = LtTree() if ordered else _HashMap()
        self.nulls = BitMap64()

    def __len__(self) -> int:
        return len(self._index)

    def add(self, value: int, row: int) -> None:
        if value == NULL:
            self.nulls.add(row)
        else:
            self._index.add(value, row)

    def remove(self, value: int, row: int) -> None:
        if value == NULL:
            self.nulls.remove(row)
        else:
            self._index.remove(value, row)

    def refine(self, found: BitMap64, op: Op, value: int, policy: str) -> BitMap64:
        """Those of `found` whose value x satisfies `value op x` (section 5.1): intersected with the rows that do, or
        without the rows that do not, whichever set the index gives."""
        if value == NULL:
            return self._refine_for_null(found, op, policy)
        if op is Op.EQ:
            return found & self._index.equal(value)
        if op is Op.NE:
            found = found - self._index.equal(value)
            return found - self.nulls if policy == "sql" else found
        assert isinstance(self._index, LtTree)
        smaller = self._index.smaller(value)
        if op in (Op.GE, Op.LT):
            smaller |= self._index.equal(value)
        return found & smaller if op in (Op.GT, Op.GE) else found - smaller - self.nulls

    def _refine_for_null(self, found: BitMap64, op: Op, policy: str) -> BitMap64:
        if op is Op.NE:
            return {"equal": found - self.nulls, "distinct": found, "sql": _NONE}[policy]
        return found & self.nulls if policy == "equal" and op in (Op.EQ, Op.LE, Op.GE) else _NONE


class LessThanPartners:
    """One inverted index for each column of a role; a search is a pipeline that refines a set of candidates."""

    def __init__(self, side: Side, ordered: Sequence[bool]) -> None:
        self._keys = [_Column(False) for _ in side.key]
        self._dims = [_Column(is_ordered) for is_ordered in ordered]
        self._all = BitMap64()

    @property
    def nbytes(self) -> int:
        nodes = [node for column in (*self._keys, *self._dims) for node in _sets(column)]
        return sum(len(rows.serialize()) for rows in (*nodes, self._all))

    def load(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.add(entry)

    def add(self, entry: Entry) -> None:
        row, key, values = entry
        for column, value in zip((*self._keys, *self._dims), (*key, *values), strict=True):
            column.add(value, row)
        self._all.add(row)

    def remove(self, entry: Entry) -> None:
        row, key, values = entry
        for column, value in zip((*self._keys, *self._dims), (*key, *values), strict=True):
            column.remove(value, row)
        self._all.remove(row)

    def find(self, key: Values, values: Values, ops: Ops, nulls: str) -> Collection[int]:
        """As `Partners.find`, one predicate after the other (section 5.2) until nothing is left."""
        found = self._all
        for _, op, column, value in sorted(self._schedule(key, values, ops), key=lambda step: step[0]):
            found = column.refine(found, op, value, nulls)
            if not found:
                return ()
        return list(found)

    def _schedule(self, key: Values, values: Values, ops: Ops) -> Iterable[tuple[tuple[int, int], Op, _Column, int]]:
        """Equalities before non-equalities before inequalities; among equalities the column with most values first,
        among the others the one with fewest. Cardinalities are those of the moment."""
        for column, value in zip(self._keys, key, strict=True):
            yield (0, -len(column)), Op.EQ, column, value
        for column, value, op in zip(self._dims, values, ops, strict=True):
            if op is not None:
                yield (2 if op.is_order else 0 if op is Op.EQ else 1, len(column)), op, column, value


def _sets(column: _Column) -> Iterable[BitMap64]:
    index = column._index
    if isinstance(index, LtTree):
        for node in index._nodes.values():
            yield from (node.rows, node.smaller)
    else:
        yield from index._rows.values()
    yield column.nulls


class LessThanIndex(RowByRow):
    """The index `less_than`: O(log^2) for each column of a row that comes or goes, O(rows) set operations to ask."""

    def make_partners(self, side: Side, ops: Sequence[Ops]) -> Partners:
        return LessThanPartners(side, [any(op and op.is_order for op in of_dim) for of_dim in zip(*ops, strict=True)])

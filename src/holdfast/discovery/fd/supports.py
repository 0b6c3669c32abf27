"""The support of keys and FDs: the number of rows that each says something about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from holdfast.discovery.budget import Budget
from holdfast.discovery.search_options import OF_ONE_TABLE
from holdfast.discovery.witness.partitions import Partitions
from holdfast.executors.executor import Cancelled
from holdfast.rules.rule import Fd
from holdfast.rules.rule_block import RuleBlock
from holdfast.rules.ruleset import RuleSet
from holdfast.table.rows import Rows

_SUPPORTED = 32  # rules between budget checks
_MAX_SUPPORTS = 1000


def with_supports(rules: RuleSet, rows: Mapping[str, Rows], nulls: str, budget: Budget | None = None) -> RuleSet:
    """The rules with their supports: for an FD the rows that share their left values with another row, for a key all
    rows. More than a thousand rules get none; nor do the rules of a table and kind for which there is no time."""
    if len(rules) > _MAX_SUPPORTS:
        return rules
    budget = budget or Budget()
    partitions: dict[str, Partitions] = {}
    blocks = []
    for block in rules.blocks:
        name = block.table
        if block.kind in OF_ONE_TABLE and name is not None:
            try:
                budget.check()
                partitions[name] = partitions.get(name) or Partitions.of_codes(rows[name].codes(), nulls)
                block = _supported(block, partitions[name], budget)
            except Cancelled:
                budget.skip(f"the support of {block.kind} rules was not counted")
        blocks.append(block)
    return replace(rules, blocks=tuple(blocks))


def _supported(block: RuleBlock, partitions: Partitions, budget: Budget) -> RuleBlock:
    places = {name: i for i, name in enumerate(block.names)}
    counts = []
    for done, rule in enumerate(block):
        if done % _SUPPORTED == 0:
            budget.check()
        left = rule.left if isinstance(rule, Fd) else None
        counts.append(partitions.rows if left is None else len(partitions.of([places[c] for c in sorted(left)]).rows))
    return replace(block, supports=np.array(counts, np.int64))

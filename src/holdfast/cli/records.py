"""Rules that were found, for people."""

from __future__ import annotations

from holdfast.cli.output import Record
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import sentence


def every_record(rules: RuleSet, most: int | None = None) -> list[Record]:
    """The rules for people, of each kind and table the shortest first; at most so many of each."""
    made: list[Record] = []
    for block in rules.blocks:
        chosen = block if most is None else block.shortest(most)
        records: list[Record] = [
            {
                "id": rule.id,
                "kind": block.kind,
                "table": block.table,
                "text": text,
                "error": error,
                "support": support,
                "sentence": sentence(rule, block.rank, error),
            }
            for rule, text, error, support in chosen.with_details()
        ]
        sizes = {rule.id: size for rule, size in zip(chosen, chosen.sizes().tolist(), strict=True)}
        made += sorted(records, key=lambda record: (sizes[record["id"]], record["text"]))
    return made

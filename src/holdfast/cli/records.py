"""Found rules as records to print."""

from __future__ import annotations

from holdfast.cli.output import Record
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import sentence


def every_record(rules: RuleSet) -> list[Record]:
    """All rules, of each kind and table the shortest first."""
    sorted_records: list[Record] = []
    for block in rules.blocks:
        records: list[Record] = [
            {
                "id": rule.id,
                "kind": block.kind,
                "table": block.label,
                "text": text,
                "error": error,
                "support": support,
                "sentence": sentence(rule, block.rank, error),
            }
            for rule, text, error, support in block.with_details()
        ]
        sizes = {rule.id: size for rule, size in zip(block, block.sizes().tolist(), strict=True)}
        sorted_records += sorted(records, key=lambda record: (sizes[record["id"]], record["text"]))
    return sorted_records

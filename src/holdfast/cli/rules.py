"""Rules that were found, for people, and the options that say which."""

from __future__ import annotations

from typing import Annotated

import typer

from holdfast.cli.output import Record
from holdfast.rules.ruleset import RuleSet
from holdfast.rules.sentence import sentence

SHOWN = 10  # of each kind and table, without --all
MaxError = Annotated[
    float, typer.Option(min=0.0, max=1.0, help="Also rules that are wrong up to this share (0.01: one percent).")
]
Measure = Annotated[
    str | None, typer.Option("--error", help="How error is measured: g3 (rows to remove) or g1 (pairs).")
]
MaxSize = Annotated[
    str, typer.Option(help="Most columns of a key, a left side or an inclusion; none: no limit. Default: 5, 5 and 1.")
]

CrossColumns = Annotated[
    bool, typer.Option(help="Whether denial constraints compare different columns, where these share values.")
]
EvidenceOf = Annotated[
    str, typer.Option(help="For order and dc: all pairs of rows counted, some of them (lean), or auto.")
]
Compare = Annotated[str, typer.Option(help="How inclusions compare values: typed (by kind), or all as text.")]


def records_of(rules: RuleSet, most: int | None) -> list[list[Record]]:
    """The rules of each block for people, the shortest first."""
    made = []
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
        made.append(sorted(records, key=lambda record: (sizes[record["id"]], record["text"])))
    return made

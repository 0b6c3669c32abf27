"""Precision and golden recall of the rules that are shown first: `python -m benchmarks.worth_reading [table ...]`.

`labels/` says for each real table which rules a person who knows the domain would write down (golden) and which are
right but not necessary (fine). The labels were made from the data alone. A rule that is shown and not labelled counts
as noise. A golden comparison is also met by its strict form, and an FD of a key that is shown counts as shown.
`--noise` lists what is noise, `--missed` the golden rules that are not shown. `--simpler` also judges simpler rankings
(`simpler.py`), which takes two minutes.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import holdfast as hf
from benchmarks import peers
from benchmarks.inclusion import generated
from benchmarks.measure import DATA, machine
from benchmarks.worth_reading.simpler import SIMPLER
from holdfast.cli.discover import for_screen
from holdfast.discovery.search_options import SearchOptions
from holdfast.errors import HoldfastError
from holdfast.ranking.rank import Ranked
from holdfast.rules.implication import implies
from holdfast.rules.operator import Op
from holdfast.rules.predicate import Compare
from holdfast.rules.rule import Dc, Fd, Ind, Key, Rule

LABELS = Path(__file__).parent / "labels"
SECONDS = 60.0
TPCH = (
    "lineitem.l_orderkey in orders.o_orderkey",
    "lineitem.l_partkey in part.p_partkey",
    "lineitem.l_suppkey in supplier.s_suppkey",
    "lineitem(l_partkey, l_suppkey) in partsupp(ps_partkey, ps_suppkey)",
    "orders.o_custkey in customer.c_custkey",
    "customer.c_nationkey in nation.n_nationkey",
    "supplier.s_nationkey in nation.n_nationkey",
    "nation.n_regionkey in region.r_regionkey",
    "partsupp.ps_partkey in part.p_partkey",
    "partsupp.ps_suppkey in supplier.s_suppkey",
)


@dataclass
class Labels:
    """The labels of one data set."""

    name: str
    paths: dict[str, Path]
    golden: dict[Rule | str, str]  # texts by rule
    fine: dict[Rule | str, str]

    @classmethod
    def read(cls, file: Path) -> Labels:
        document: dict[str, Any] = YAML(typ="safe").load(file)
        paths = [DATA / path for path in document["tables"]]
        entries = ({_parsed(e["text"]): e["text"] for e in document.get(which) or []} for which in ("golden", "fine"))
        return cls(file.stem, {path.stem: path for path in paths}, *entries)

    def data(self) -> Path | dict[str, Path]:
        return next(iter(self.paths.values())) if len(self.paths) == 1 else self.paths


def _parsed(text: str) -> Rule | str:
    """The rule; its text where it is of a kind that this version does not know."""
    try:
        return hf.parse(text)
    except HoldfastError:
        return text


@dataclass
class Score:
    """What was shown of some data sets. By kind: counts of golden, fine and noise; golden rules, and those met."""

    shown: Counter[tuple[str, str]] = field(default_factory=Counter)
    golden: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    noise: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)

    def add(self, other: Score) -> None:
        self.shown += other.shown
        self.golden += other.golden
        self.met += other.met

    def line(self, kind: str | None = None) -> str:
        """Precision and recall of one kind, or of all."""
        counts = Counter[str]()
        for (of, verdict), count in self.shown.items():
            counts[verdict] += count * (kind in (None, of))
        total = sum(counts.values())
        golden, met = (sum(n for of, n in c.items() if kind in (None, of)) for c in (self.golden, self.met))
        precision = f"{1 - counts['noise'] / total:.2f}" if total else "   -"
        recall = f"{met / golden:.2f}" if golden else "   -"
        return f"precision {precision} ({total:3} shown, {counts['noise']:3} noise)  golden recall {recall} of {golden}"


def judged(labels: Labels, shown: list[Ranked]) -> Score:
    """The verdicts on the rules that are shown."""
    score, rules = Score(), {ranked.rule for ranked in shown}
    for ranked in shown:
        verdict = (
            "golden"
            if _is_met(ranked.rule, labels.golden)
            else "fine"
            if _is_met(ranked.rule, labels.fine)
            else "noise"
        )
        score.shown[ranked.kind, verdict] += 1
        if verdict == "noise":
            score.noise.append(ranked.text)
    for rule, text in labels.golden.items():
        kind = "row" if isinstance(rule, str) else rule.kind
        score.golden[kind] += 1
        if not isinstance(rule, str) and any(_says(one, rule) for one in rules):
            score.met[kind] += 1
        else:
            score.missed.append(text)
    return score


def _is_met(rule: Rule, labelled: dict[Rule | str, str]) -> bool:
    others = (one for one in labelled if not isinstance(one, str))
    return rule in labelled or (isinstance(rule, Dc) and any(_says(rule, one) for one in others))


def _says(shown: Rule, wanted: Rule) -> bool:
    """Whether a rule that is shown tells a reader what a labelled rule says."""
    if shown == wanted:
        return True
    if isinstance(shown, Key) and isinstance(wanted, Fd):
        return shown.columns == wanted.left and shown.table == wanted.table
    if not isinstance(shown, Dc) or not shown.is_one_row:
        return False
    if isinstance(wanted, Fd):  # columns that are equal in each row determine each other
        ops = {p.op for p in shown.predicates if isinstance(p, Compare)}
        return ops == {Op.NE} and {c.column for p in shown.predicates for c in p.cells} == {*wanted.left, wanted.right}
    return isinstance(wanted, Dc) and wanted.is_one_row and implies(shown, wanted)


def on_the_screen(data: Any) -> list[Ranked]:
    """What `holdfast discover` shows."""
    every = SearchOptions()
    return replace(hf.discover(data, search=for_screen(every), time_budget=SECONDS), options=every).best()


def tpch() -> tuple[set[str], set[str]]:
    """The foreign keys of TPC-H that are declared, and those that are shown."""
    with tempfile.TemporaryDirectory() as home:
        files = {file.stem: file for file in generated("0.01", Path(home))}
        return set(TPCH), {ranked.text for ranked in on_the_screen(files) if ranked.kind == "ind"}


def f1(wanted: set[str], shown: set[str]) -> float:
    """The harmonic mean of precision and recall; 1 if there is nothing to find and nothing shown."""
    return 2 * len(wanted & shown) / (len(wanted) + len(shown)) if wanted or shown else 1.0


def foreign_keys() -> None:
    """Prints F1 of the foreign keys of each database, and the mean."""
    found: dict[str, float] = {}
    for file in sorted(LABELS.glob("multi__*.yml")):
        labels = Labels.read(file)
        wanted = {str(rule) for rule in labels.golden if isinstance(rule, Ind)}
        fine = {str(rule) for rule in labels.fine if isinstance(rule, Ind)}
        shown = {str(ranked.rule) for ranked in on_the_screen(labels.data()) if ranked.kind == "ind"}
        found[labels.name] = f1(wanted, shown - fine)
    if peers.available():
        found["TPC-H 0.01, declared keys"] = f1(*tpch())
    for name, score in found.items():
        print(f"  foreign keys of {name:<34} F1 {score:.2f}")
    print(f"{'foreign keys, mean F1':<50} {sum(found.values()) / len(found):.2f} (>= 0.95)")


def main() -> None:
    options, names = ({a for a in sys.argv[1:] if a.startswith("--")}, [a for a in sys.argv[1:] if a[:2] != "--"])
    print(machine())
    total, started = Score(), time.process_time()
    for file in sorted(LABELS.glob("*.yml")):
        labels = Labels.read(file)
        if names and not any(name in labels.name for name in names):
            continue
        before = time.process_time()
        shown = on_the_screen(labels.data())
        score = judged(labels, shown)
        total.add(score)
        print(f"{labels.name:<42} {score.line()}  {time.process_time() - before:5.1f} s", flush=True)
        for text in score.noise if "--noise" in options else []:
            print(f"    noise   {text}")
        for text in score.missed if "--missed" in options else []:
            print(f"    missed  {text}")
    for kind in dict.fromkeys([*total.golden, *(kind for kind, _ in total.shown)]):
        print(f"  {kind:<40} {total.line(kind)}")
    print(f"{'all':<42} {total.line()}  {time.process_time() - started:5.1f} s CPU")
    for name, ranking in SIMPLER.items() if "--simpler" in options else ():
        print(f"{name:<42} {judged_alone(ranking, names).line()}", flush=True)
    if not names:
        foreign_keys()


def judged_alone(ranking: Callable[[Any], list[Ranked]], names: list[str]) -> Score:
    """The verdicts on what another ranking shows of all data sets."""
    total = Score()
    for file in sorted(LABELS.glob("*.yml")):
        labels = Labels.read(file)
        if not names or any(name in labels.name for name in names):
            total.add(judged(labels, ranking(labels.data())))
    return total


if __name__ == "__main__":
    main()

"""`python -m tests.mutants`: small mutations of the code, each of which some test must notice.

A mutant is (file, text before, text after, the tests that should fail). Each one is made in a copy of the project, so
an interrupted run leaves nothing behind. The list is short on purpose: kernels, durability and null semantics, where a
wrong line is hard to see, and a few others. `tests/test_mutants.py` keeps it true to the code.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ON_SPARK = (
    "test_pipeline.py",
    "test_full_check.py",
    "test_spark.py",
    "test_spark_discover.py",
    "test_spark_found_rules.py",
)
NO_TESTS = 5


class Mutant(NamedTuple):
    file: str
    before: str
    after: str
    tests: str


MUTANTS = [
    # null policies and SQL
    Mutant("rules/sql_values.py", 'if nulls is Nulls.DISTINCT:\n        return', 'if nulls is Nulls.EQUAL:\n        return', "test_sql.py -k duckdb_finds"),
    Mutant("rules/sql_values.py", "safe = e.NullSafeEQ if op is Op.EQ else e.NullSafeNEQ", "safe = e.NullSafeEQ", "test_sql.py -k duckdb_finds"),
    Mutant("rules/sql.py", "(p.op is Op.NE and nulls is not Nulls.DISTINCT)", "p.op is Op.NE", "test_exchange.py"),
    # codes
    Mutant("table/floats.py", "bits = (values + 0.0)", "bits = values", "test_encode.py"),
    Mutant("table/floats.py", "np.where(bits < 0, bits ^ _BELOW_SIGN, bits)", "bits", "test_encode.py"),
    Mutant("kernels/text_dictionary.py", "slots[at] = tag | np.uint64(size + 1)\n", "slots[at] = tag | np.uint64(size + 2)\n", "test_encode.py"),
    # rows, keys, changes
    Mutant("kernels/key_map.py", "while older[before] - 1 > slot:", "while older[before] - 1 > slot + 1000:", "test_laws.py test_rulebook.py"),
    Mutant("kernels/key_map.py", "cursor[first] = older[slot]", "pass", "test_rulebook.py"),
    Mutant("kernels/key_map.py", "if same_row(wanted, i, wanted, j, columns):", "if False:", "test_rulebook.py -k list"),
    # the store
    Mutant("store/disk.py", "self.link(temporary, path)", "temporary.replace(path)", "test_store.py"),
    Mutant("store/store.py", "or hashlib.sha256(buffer).hexdigest() != ref.sha256", "", "test_store.py"),
    Mutant("rulebook/state.py", "self.dictionary.to_arrays(start[WORDS], texts)", "self.dictionary.to_arrays(start[WORDS])", "test_laws.py"),
    Mutant("rulebook/book.py", "            self._lifecycle = Lifecycle.STALE\n", "            pass\n", "test_store.py"),
    Mutant("rulebook/book.py", "            self._engine.state.dictionary.truncate(texts)\n", "            pass\n", "test_rulebook.py"),
    # indexes and violations
    Mutant("kernels/box_query.py", "return (LEAST + 1 if policy == NULL_SQL else LEAST), MOST, value", "return LEAST, MOST, value", "test_violations.py"),
    Mutant("kernels/box_query.py", "return value, MOST, np.int64(0), np.int64(0), True", "return value + 1, MOST, np.int64(0), np.int64(0), True", "test_violations.py"),
    Mutant("kernels/box_query.py", "if most < query[d, 0] or least > query[d, 1]:", "if most <= query[d, 0] or least > query[d, 1]:", "test_indexes.py -k box"),
    Mutant("kernels/box_runs.py", "totals_of(box)[directory, 1] -= total - count", "pass", "test_indexes.py -k box"),
    Mutant("kernels/box_runs.py", "if some_dead and b < stop and dead[versions[b]] != 0:", "if False:", "test_indexes.py -k dead"),
    Mutant("kernels/box_batch.py", "state[USED] = used\n", "pass\n", "test_indexes.py -k box"),
    Mutant("kernels/box_batch.py", "counts[AS_S, rule] = count", "pass", "test_violations.py -k 'every_change or adds'"),
    Mutant("kernels/box_batch.py", "+= 2 * count if ask.both else count", "+= count", "test_violations.py"),
    Mutant("rulebook/engine.py", "        except BaseException:\n            self.forget()\n", "        except BaseException:\n", "test_violations.py -k interrupted"),
    Mutant("store/interrupt.py", "            raise_signal(SIGINT)", "            raise KeyboardInterrupt", "test_store.py"),
    Mutant("indexes/plan.py", "if self.nulls_equal or not side.key:", "if True:", "test_indexes.py -k chain"),
    Mutant("indexes/rowtest.py", "if predicate.op is Op.NE and nulls != \"sql\" else", "if False else", "test_violations.py"),
    Mutant("violations/delta.py", "added.without(removed).ordered()", "added.ordered()", "test_violations.py"),
    # versions, landing directories, masks
    Mutant("store/store.py", "if match and name not in needed and int(match[1]) <= self.version:", "if match and name not in needed:", "test_versions.py"),
    Mutant("store/store.py", "for name in old.files - after.files - old.changes_from", "for name in old.files - old.changes_from", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "old.files - after.files - old.changes_from(max(oldest_needed, kept.oldest)):", "old.files - after.files:", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "                self._put_mark(self._kept, whole_from)\n", "                pass\n", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "in change - self.manifest_of(kept.whole_from).files:", "in change:", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "if v < max(kept.marks) or v <= kept.oldest]", "if v < max(kept.marks)]", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("whole_file.py", "os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n_LOCK", "os.O_CLOEXEC\n_LOCK", "test_files.py -k 'links or private'"),
    Mutant("whole_file.py", "_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW", "_LOCK = os.O_RDWR | os.O_CREAT", "test_files.py -k 'links or private'"),
    Mutant("store/store.py", "if list_versions(self.directory).versions[-1] != self.version:\n", "if False:\n", "test_versions.py"),
    Mutant("store/store.py", "min(whole_from, needed_from)", "whole_from", "test_versions.py"),
    Mutant("pipeline/landing.py", "applied.get(\"stamp\") == list(file.stamp) or applied[\"sha256\"] == file.digest()", "applied[\"sha256\"] != \"\"", "test_bad_input.py -k rewritten"),
    Mutant("pipeline/landing.py", "path.relative_to(self.root).as_posix(), path", "path.name, path", "test_bad_input.py -k anywhere"),
    Mutant("pipeline/landing.py", "return Standing.APPLIED if self._by_length[file.name][0] == file.size else Standing.REWRITTEN", "return Standing.APPLIED", "test_bad_input.py -k upgraded"),
    Mutant("rulebook/publish.py", "if known is None and engine.options.outbox:", "if False:", "test_delivery.py -k owed"),
    Mutant("workflow/masking.py", "frozenset(book.masked | Decisions.of(book).masked | {*more})", "frozenset(Decisions.of(book).masked | {*more})", "test_masks.py -k 'nowhere or unmasks'"),
    Mutant("workflow/masking.py", "return {**record, \"values\": dict.fromkeys(values, HIDDEN)", "return {**record, \"values\": values", "test_masks.py -k nowhere"),
    Mutant("table/net.py", "return reason.plain if self._masked else reason.full", "return reason.full", "test_masks.py -k nowhere"),
    # agree-sets, covers, keys and FDs
    Mutant("kernels/agree.py", "known[row, w] & known[start + j, w] & ~keys[w, j]", "known[row, w] & ~keys[w, j]", "test_agree.py -k 'sets_follow'"),
    Mutant("kernels/sets.py", "useful[i, w] &= ~rights[larger, w]", "useful[i, w] &= rights[larger, w]", "test_agree.py -k exact"),
    Mutant("kernels/hitting_sets.py", "state.allowed[depth, vertex >> 6] |= bit_of(vertex)", "pass", "test_hitting_sets.py"),
    Mutant("kernels/hitting_sets.py", "if alone == 0:\n            return False", "if alone == 0:\n            return True", "test_hitting_sets.py"),
    Mutant("kernels/agree_tree.py", "if at > wanted[have]:", "if at > wanted[have] + 1:", "test_agree.py -k 'tree'"),
    Mutant("kernels/partition.py", "removed += size - max(largest, 1)", "removed += size - largest", "test_agree.py -k 'errors_by'"),
    Mutant("kernels/partition.py", "elif number < 0 or numbers[rows[first]] < 0 or", "elif", "test_agree.py -k 'errors_by'"),
    Mutant("kernels/bounds.py", "meets = low < their_high", "meets = low <= their_high - 2", "test_witness.py"),
    Mutant("kernels/bounds.py", "return has_null and they_have_null and op != LESS and op != GREATER", "return False", "test_witness.py -k equal"),
    Mutant("discovery/witness/sorted_rows.py", "older[self._rows.is_live[older]]", "older[~self._rows.is_live[older]]", "test_witness.py"),
    Mutant("discovery/witness/sorted_search.py", "settled[i] = pairs is not None", "settled[i] = True", "test_witness.py"),
    Mutant("discovery/fd/witnessed.py", "return len(found.pairs) > 0, claims.where(~settled)", "return False, claims.where(~settled)", "test_agree.py -k 'sorted'"),
    Mutant("discovery/fd/witnessed.py", "lost = np.isin(self.pairs, change.removed).any(axis=1)", "lost = np.isin(self.pairs, change.removed).all(axis=1)", "test_agree.py -k 'exact'"),
    Mutant("discovery/dc/lean.py", "or not np.array_equal(self._derived[0], self.clues)", "", "test_denial.py -k follow"),
    Mutant("discovery/waiting.py", "if self._now.pop(row, None) is None:", "if True:", "test_late_rules.py"),
    Mutant("discovery/database.py", "not (isinstance(m, TableMaintainer) and m.is_late)", "True", "test_late_rules.py"),
    Mutant("discovery/table_maintainer.py", "if _CAUGHT_UP in mine:", "if False:", "test_late_rules.py"),
    # found on Spark
    Mutant("spark/near_rules.py", "form in self._errors and not self._is_near(form)", "True", "test_spark_discover.py -k nearly"),
    Mutant("spark/proof.py", "self.proven = np.concatenate([self.proven, claims[holds]])", "self.proven = np.concatenate([self.proven, claims])", "test_spark_discover.py -k finds"),
    Mutant("spark/found_rules.py", "others = union([unmoved, *chunks[number + 1 :]])", "others = union([unmoved, *chunks[number + 2 :]])", "test_spark_found_rules.py -k definition"),
    # inclusions
    Mutant("kernels/generator.py", "if numbers[known] == number and spaces[known] == space:", "if numbers[known] == number:", "test_inclusion.py -k different_spaces"),
    Mutant("kernels/generator.py", "put(pairs, (value << _SHIFT) | attribute, amount, state)", "put(pairs, (value << _SHIFT) | attribute, 1, state)", "test_inclusion.py -k 'many_rows'"),
    Mutant("kernels/generator.py", "outside_before = ~masks[old, v] if was", "outside_before = ~masks[old, v] if is_", "test_inclusion.py"),
    Mutant("kernels/runs.py", "if total != 0:", "if total > 0:", "test_inclusion.py -k 'clusters_follow or follow_the_rows'"),
    Mutant("kernels/runs.py", "if number_a != number_b:", "if number_a < number_b:", "test_inclusion.py -k 'same_hash'"),
    # denial constraints and order dependencies
    Mutant("kernels/hitting_sets.py", "if same >= size - 1:", "if same >= size:", "test_denial.py -k 'follow'"),
    Mutant("kernels/agree.py", "plane[j] |= bit if value > values[j] else none", "plane[j] |= bit if value >= values[j] else none", "test_denial.py -k 'lack'"),
    Mutant("discovery/witness/predicate_space.py", '(_BOTH if self.nulls == "sql" else 0)', "_BOTH", "test_denial.py -k 'lack'"),
    Mutant("discovery/dc/evidence.py", 'np.array([space.nulls == "equal"])', "np.array([False])", "test_denial.py -k 'lack'"),
    Mutant("kernels/agree.py", "while used + width > sets.shape[0]:", "while used > sets.shape[0]:", "test_agree.py test_denial.py -k 'many_sets'"),
    Mutant("kernels/hitting_sets.py", "if ~met[q]:", "if ~met[q] and q:", "test_hitting_sets.py -k 'some_edges'"),
    Mutant("kernels/near_hitting_sets.py", "                out[i, word] |= bit\n                continue\n", "                continue\n", "test_denial.py -k 'follow'"),
    Mutant("kernels/sweep.py", "if a_t[t] > a_s[s] or (strict and a_t[t] == a_s[s]):\n                    break\n                i += 1\n                if least", "if a_t[t] > a_s[s]:\n                    break\n                i += 1\n                if least", "test_denial.py -k 'clash'"),
]  # fmt: skip


def survives(mutant: Mutant) -> bool:
    """Whether the tests pass although the code is mutated."""
    with tempfile.TemporaryDirectory(prefix="holdfast-mutant-") as name:
        copy = Path(name)
        for part in ("src", "tests", "docs"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        target = copy / "src" / "holdfast" / mutant.file
        text = target.read_text(encoding="utf-8")
        if text.count(mutant.before) != 1:
            sys.exit(f"{mutant.file} does not contain {mutant.before!r} once: the list of mutants is out of date")
        target.write_text(text.replace(mutant.before, mutant.after), encoding="utf-8")
        return _tests_pass(copy, mutant)


def _tests_pass(copy: Path, mutant: Mutant) -> bool:
    files, _, choice = mutant.tests.partition(" -k ")
    names = [f"tests/{file}" for file in files.split()]
    chosen = ["-k", choice.strip("'")] if choice else []
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not long and not data and not tools"
        if any(file in ON_SPARK for file in files.split())
        else "not long and not spark and not data and not tools",
    ]
    cache = copy / "numba" if mutant.file.startswith("kernels/") else ROOT / ".mutants-numba-cache"
    environment = os.environ | {
        "PYTHONPATH": str(copy / "src"),
        "NUMBA_CACHE_DIR": str(cache),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOLDFAST_PROFILE": "mutants",  # no need to find the smallest counterexample
    }
    try:
        done = subprocess.run(
            [*command, *names, *chosen], cwd=copy, env=environment, capture_output=True, check=False, timeout=180
        )
    except subprocess.TimeoutExpired:  # a mutant that never ends is noticed too
        return False
    if done.returncode == NO_TESTS:
        sys.exit(f"{mutant.file}: there is no test {mutant.tests!r}")
    if done.returncode in (2, 3, 4, -signal.SIGKILL):  # interrupted, broken or killed: says nothing of the mutant
        sys.exit(f"{mutant.file}: pytest ended with {done.returncode} for {mutant.tests!r}")
    return done.returncode == 0


def timed(mutant: Mutant) -> tuple[bool, float]:
    started = time.perf_counter()
    return survives(mutant), time.perf_counter() - started


def main() -> None:
    wanted = sys.argv[1:]  # parts of file names; all mutants where there are none
    mutants = [m for m in MUTANTS if not wanted or any(word in m.file for word in wanted)]
    alive = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = zip(mutants, pool.map(timed, mutants), strict=True)
        for number, (mutant, (survived, seconds)) in enumerate(results, start=1):
            alive += survived
            state = "SURVIVED" if survived else "killed"
            print(f"{number:3}/{len(mutants)} {state:8} {seconds:5.1f} s  {mutant.file}: {mutant.after!r}", flush=True)
    print(f"{len(mutants) - alive} passed, {alive} failed")
    sys.exit(bool(alive))


if __name__ == "__main__":
    main()

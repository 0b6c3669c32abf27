"""`python -m tests.mutants`: small mutations of the code, each of which some test must notice.

A mutant is (file, what stands there, what it becomes, the tests that should fail). Each one is made in a copy of the
project, so an interrupted run leaves nothing behind. Every issue adds the mutants of what it built.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
ON_SPARK = ("test_pipeline.py", "test_full_check.py", "test_spark.py")
NO_TESTS = 5


class Mutant(NamedTuple):
    file: str
    before: str
    after: str
    tests: str


MUTANTS = [
    # operator tables and canonical form
    Mutant("rules/operator.py", "Op.LT: Weak.LE | Weak.NE,", "Op.LT: Weak.LE,", "test_rules.py"),
    Mutant("rules/operator.py", "Op.LT: Op.GE,", "Op.LT: Op.GT,", "test_rules.py"),
    Mutant("rules/operator.py", "Op.LE: Op.GE,", "Op.LE: Op.LE,", "test_rules.py"),
    Mutant("rules/rule.py", "predicates = mirror\n", "pass\n", "test_rules.py"),
    Mutant("rules/rule.py", "return self.right.op in (Op.GT, Op.GE)", "return False", "test_rules.py"),
    Mutant("rules/rule.py", "mark.mirrored() for mark in marks] if rule.flipped", "mark for mark in marks] if rule.flipped", "test_rules.py"),
    Mutant("rules/predicate.py", 'return self if self.left.row == "t" else self.swapped()', "return self", "test_rules.py"),
    Mutant("rules/names.py", 'name.replace("`", "``")', "name", "test_rules.py"),
    Mutant("rules/implication.py", "for side in (weak.predicates, weak.mirrored())", "for side in (weak.predicates,)", "test_rules.py"),
    Mutant("rules/implication.py", "right.op.implies(weak.right.op)", "weak.right.op.implies(right.op)", "test_rules.py"),
    Mutant("rules/implication.py", "if Weak.GE in p.op.atoms else set()", "if False else set()", "test_rules.py"),
    Mutant("rules/predicate.py", "-(exponent + zeros) > MAX_DIGITS", "-exponent > MAX_DIGITS", "test_hostile.py"),
    Mutant("rules/predicate.py", "if number.adjusted() >= MAX_DIGITS or", "if", "test_hostile.py -k 'number or constants'"),
    Mutant("rules/grammar.py", "if len(predicates) == MAX_PREDICATES:", "if False:", "test_hostile.py -k bounds"),
    Mutant("rules/yaml_document.py", "self._repeated += self._size(a)", "pass", "test_hostile.py -k wrong_file"),
    Mutant("rules/yaml_document.py", "yaml.max_depth = MAX_DEPTH", "pass", "test_hostile.py -k wrong_file"),
    Mutant("rules/rule_block.py", "masks[has(self.masks, i)] |= mask_of", "masks[has(self.masks, i)] = mask_of", "test_ruleset.py"),
    Mutant("rules/rule_block.py", "[len(others) :] < len(others)", "[len(others) :] <= len(others)", "test_ruleset.py"),
    # null policies and SQL
    Mutant("rules/sql_values.py", 'if nulls is Nulls.DISTINCT:\n        return', 'if nulls is Nulls.EQUAL:\n        return', "test_sql.py -k duckdb_finds"),
    Mutant("rules/sql_values.py", "safe = e.NullSafeEQ if op is Op.EQ else e.NullSafeNEQ", "safe = e.NullSafeEQ", "test_sql.py -k duckdb_finds"),
    Mutant("rules/sql.py", "return (e.LTE if below else e.GT)", "return (e.LT if below else e.GT)", "test_sql.py -k literals"),
    Mutant("rules/sql.py", "*conditions, e.not_(same)", "*conditions", "test_sql.py -k duckdb_finds"),
    Mutant("rules/sql.py", "sorted(dc.written, key=str)", "sorted(dc.predicates, key=str)", "test_sql.py -k duckdb_finds"),
    Mutant("rules/sql.py", "return left.on_integer_grid(self.dialect), right.on_integer_grid(self.dialect)", "return left.cell, right.cell", "test_sql.py -k 'large or duckdb'"),
    Mutant("rules/sql_values.py", "expression=_wide(number)", "expression=number", "test_sql.py -k narrow"),
    # codes
    Mutant("table/floats.py", "bits = (values + 0.0)", "bits = values", "test_encode.py"),
    Mutant("table/floats.py", "np.where(bits < 0, bits ^ _BELOW_SIGN, bits)", "bits", "test_encode.py"),
    Mutant("table/encoders.py", "np.abs(floats) >= 2.0**53", "np.abs(floats) > 2.0**53", "test_encode.py"),
    Mutant("table/encoders.py", "raw % 1000 != 0", "raw % 1000 < 0", "test_encode.py"),
    Mutant("table/compare.py", "+ (filled % step != 0)", "", "test_encode.py"),
    Mutant("table/compare.py", "2 * LIMIT + 2 + 2 * away + between", "2 * LIMIT + 2 + 2 * away", "test_encode.py"),
    Mutant("table/compare.py", "np.clip(filled, 1 - _OUTSIDE, _OUTSIDE - 1)", "filled", "test_encode.py"),
    Mutant("table/compare.py", "(floor != values)", "0", "test_encode.py"),
    Mutant("table/read_csv.py", "ignore_empty_lines=width > 1", "ignore_empty_lines=True", "test_read.py"),
    Mutant("table/exact_floats.py", "digits >= _FULL_DIGITS and", "", "test_encode.py"),
    Mutant("table/exact_floats.py", "return inexact | _collisions(texts, codes, inexact)", "return inexact", "test_encode.py"),
    Mutant("table/row_events.py", "declared=self._declared,\n                max", "declared=self._schema.names,\n                max", "test_read.py"),
    Mutant("table/text_form.py", "if (value * 2.0**MAX_SCALE).is_integer():", "if value.is_integer():", "test_inclusion.py -k text"),
    Mutant("table/json_depth.py", "if inside[tokens == _NEWLINE].any():", "if False:", "test_read.py -k depth"),
    Mutant("table/json_depth.py", "_ESCAPE.sub(b\"\", text) if", "text if", "test_read.py -k depth"),
    Mutant("table/widen.py", "for places, size in largest.items() if places <= scale)", "for places, size in largest.items() if places == scale)", "test_widen.py"),
    Mutant("table/widen.py", "abs(number) * 10 ** max(places, column.scale) <= _MAX_CODE", "True", "test_widen.py"),
    Mutant("table/encoders.py", "bad |= np.abs(whole) > MAX_CODE // 5**column.scale", "pass", "test_widen.py"),
    Mutant("table/parse.py", '_INTEGER = r"-?(0|[1-9][0-9]*)"', '_INTEGER = r"-?[0-9]+"', "test_encode.py"),
    Mutant("kernels/text_dictionary.py", "slots[at] = tag | np.uint64(size + 1)\n", "slots[at] = tag | np.uint64(size + 2)\n", "test_encode.py"),
    # rows, keys, changes
    Mutant("kernels/key_map.py", "while older[before] - 1 > slot:", "while older[before] - 1 > slot + 1000:", "test_laws.py test_rulebook.py"),
    Mutant("kernels/key_map.py", "cursor[first] = older[slot]", "pass", "test_rulebook.py"),
    Mutant("table/net.py", "(ids >= 0) & (events.sign[first] > 0)", "(ids >= 0) & (events.sign[first] > 9)", "test_rulebook.py"),
    Mutant("table/net_by_value.py", "deleted_by_value[value].pop()  # an equal", "pass  # an equal", "test_rulebook.py test_laws.py"),
    Mutant("table/net.py", "inserted = last[~existed & remains]", "inserted = first[~existed & remains]", "test_rulebook.py"),
    Mutant("table/row_events.py", "keep[partners[partners >= 0]] = False", "pass", "test_rulebook.py"),
    Mutant("table/rows.py", "self._keys.remove(self._codes, slots)\n        self._codes[:, slots] = codes", "self._codes[:, slots] = codes", "test_rulebook.py test_laws.py"),
    # the store
    Mutant("store/manifest.py", "4 * sum(", "400 * sum(", "test_store.py"),
    Mutant("store/disk.py", "self.link(temporary, path)", "temporary.replace(path)", "test_store.py"),
    Mutant("store/store.py", "or hashlib.sha256(buffer).hexdigest() != ref.sha256", "", "test_store.py"),
    Mutant("rulebook.py", "self._words.to_arrays(start[WORDS], words)", "self._words.to_arrays(start[WORDS])", "test_laws.py"),
    Mutant("rulebook.py", "self._stale, self._detector = self._store is not None, None", "pass", "test_store.py"),
    Mutant("rulebook.py", "            self._words.truncate(known)\n", "            pass\n", "test_rulebook.py"),
    # a few rows
    Mutant("table/fast_rows.py", "return scaled if rest == 0 and", "return scaled if", "test_encode.py -k plain"),
    Mutant("table/fast_rows.py", "value + 0.0", "value", "test_encode.py -k few"),
    Mutant("table/row_events.py", "source.table.schema.equals(self._known_types)", "True", "test_rulebook.py -k again_and"),
    Mutant("kernels/key_map.py", "if same_row(wanted, i, wanted, j, columns):", "if False:", "test_rulebook.py -k list"),
    # indexes and violations
    Mutant("kernels/box_query.py", "return (LEAST + 1 if policy == NULL_SQL else LEAST), MOST, value", "return LEAST, MOST, value", "test_violations.py"),
    Mutant("kernels/box_query.py", "return value, MOST, np.int64(0), np.int64(0), True", "return value + 1, MOST, np.int64(0), np.int64(0), True", "test_violations.py"),
    Mutant("kernels/box_query.py", "if most < query[d, 0] or least > query[d, 1]:", "if most <= query[d, 0] or least > query[d, 1]:", "test_indexes.py -k box"),
    Mutant("kernels/box_query.py", "block, blocks = (start >> BLOCK_BITS) + 1,", "block, blocks = (start >> BLOCK_BITS) + 2,", "test_indexes.py -k box"),
    Mutant("kernels/box_query.py", "begin = (last + 1) << BLOCK_BITS", "begin = (last + 2) << BLOCK_BITS", "test_indexes.py -k box"),
    Mutant("kernels/box_runs.py", "totals_of(box)[directory, 1] -= total - count", "pass", "test_indexes.py -k box"),
    Mutant("kernels/box_runs.py", "if block > first and (level == 0 or block & 15 != 0):", "if False:", "test_indexes.py -k box"),
    Mutant("kernels/box_runs.py", "if some_dead and b < stop and dead[versions[b]] != 0:", "if False:", "test_indexes.py -k dead"),
    Mutant("kernels/box_batch.py", "state[USED] = used\n", "pass\n", "test_indexes.py -k box"),
    Mutant("kernels/box_batch.py", "counts[AS_S, rule] = count", "pass", "test_violations.py -k 'every_change or adds'"),
    Mutant("kernels/box_batch.py", "+= 2 * count if ask.both else count", "+= count", "test_violations.py"),
    Mutant("indexes/box_arrays.py", ", room // 2, _most_in_scratch(box))", ", room // 2)", "test_indexes.py -k shrank"),
    Mutant("rulebook.py", "            self._detector = None\n            self._found.forget()\n", "", "test_violations.py -k interrupted"),
    Mutant("store/interrupt.py", "            raise_signal(SIGINT)", "            raise KeyboardInterrupt", "test_store.py"),
    Mutant("indexes/box.py", "new[old] = np.arange(len(old), dtype=np.int32)", "pass", "test_indexes.py -k room"),
    Mutant("indexes/chain.py", "below = bisect_left if self._strict else bisect_right", "below = bisect_right", "test_indexes.py -k least_possible"),
    Mutant("indexes/chain.py", "if self._strict and least < most:", "if False:", "test_indexes.py -k 'chains or examples'"),
    Mutant("indexes/chain.py", "return (~given[1], ~given[0]) if down else given", "return (~given[0], ~given[1]) if down else given", "test_indexes.py -k 'chain or example'"),
    Mutant("indexes/less_than.py", "    node.smaller -= child.smaller\n", "", "test_indexes.py -k lt_tree"),
    Mutant("indexes/less_than.py", "if op in (Op.GE, Op.LT):", "if op is Op.GE:", "test_indexes.py -k less_than"),
    Mutant("indexes/plan.py", "self.comparisons.items() > other.comparisons.items()", "True", "test_violations.py -k adds"),
    Mutant("indexes/plan.py", "_filter(dc, row), where)", "_filter(dc, 't'), where)", "test_violations.py"),
    Mutant("indexes/plan.py", "if self.nulls_equal or not side.key:", "if True:", "test_indexes.py -k chain"),
    Mutant("indexes/rowtest.py", "if predicate.op is Op.NE and nulls != \"sql\" else", "if False else", "test_violations.py"),
    Mutant("table/rows.py", "moved = (self.old_codes[columns] != self.new_codes[columns]).any(axis=0)", "moved = np.zeros(len(self.updated), bool)", "test_violations.py"),
    Mutant("violations/delta.py", "added.without(removed).ordered()", "added.ordered()", "test_violations.py"),
    Mutant("violations/detect.py", "left = None if left is None else left - len(found)", "pass", "test_violations.py -k parts"),
    Mutant("violations/inclusion_index.py", "np.subtract.at(self._counts[1], lost, 1)", "pass", "test_violations.py"),
    Mutant("violations/explain.py", "in reversed(range(len(rows)))", "in range(len(rows))", "test_explain.py"),
    Mutant("violations/explain.py", "sorted(remove), whole and small)", "sorted(remove), small)", "test_explain.py"),
    Mutant("violations/explain.py", "if edges[0][0] in completed:", "if False:", "test_explain.py -k parts"),
    Mutant("violations/explain.py", "or len(adjacent) != -negative_degree:", ":", "test_explain.py"),
    Mutant("violations/look.py", "if is_symmetric(as_dc(rule)):", "if True:", "test_explain.py"),
    Mutant("violations/listing.py", "_flipped(rule) != _flipped(self.checked[number].rule)", "False", "test_violations.py"),
    # executors
    Mutant("executors/executor.py", 'np.argsort(numbers, kind="stable")', "np.argsort(-numbers)", "test_executors.py"),
    Mutant("executors/threads.py", "self.cancellation.check()", "pass", "test_executors.py"),
    # versions, pipeline, Spark
    Mutant("store/store.py", "if match and name not in needed and int(match[1]) <= self.version:", "if match and name not in needed:", "test_versions.py"),
    Mutant("store/store.py", "for name in old.files - after.files - old.changes_from", "for name in old.files - old.changes_from", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "old.files - after.files - old.changes_from(max(oldest_needed, kept.oldest)):", "old.files - after.files:", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "                self._put_mark(self._kept, whole_from)\n", "                pass\n", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "else manifest.own_files", "else set()", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "in change - self.manifest_of(kept.whole_from).files:", "in change:", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "if v < max(kept.marks) or v <= kept.oldest]", "if v < max(kept.marks)]", "test_versions.py -k 'killed_anywhere or dead_sink'"),
    Mutant("store/store.py", "match = _FILE.fullmatch(name)", "match = re.match('([0-9]*)', name)", "test_files.py -k files_of_others"),
    Mutant("whole_file.py", "os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC\n_LOCK", "os.O_CLOEXEC\n_LOCK", "test_files.py -k 'links or private'"),
    Mutant("whole_file.py", "_LOCK = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW", "_LOCK = os.O_RDWR | os.O_CREAT", "test_files.py -k 'links or private'"),
    Mutant("whole_file.py", "                temporary.chmod(permissions)\n", "                pass\n", "test_files.py -k 'links or private'"),
    Mutant("exchange/dbt.py", 'r"[{\\r]"', 'r"[\\r]"', "test_hostile_names.py -k dbt"),
    Mutant("exchange/great_expectations.py", '.replace("}", "}}")', "", "test_hostile_names.py -k great"),
    Mutant("exchange/dqx.py", "not in names + text)", "in name)", "test_hostile_names.py -k dqx"),
    Mutant("exchange/file_names.py", "if not place.resolve().is_relative_to(root)", "if not place.is_relative_to(directory)", "test_hostile_names.py -k outside"),
    Mutant("exchange/yaml_text.py", 'unsafe = HIDDEN.search(thing) or "\\t" in thing', "unsafe = False", "test_hostile_names.py -k contract"),
    Mutant("cli/terminal.py", "self.raw.write(plain_text(concealed(text)))", "self.raw.write(text)", "test_output.py -k command"),
    Mutant("cli/output.py", " or _NUMBER.fullmatch(value)", "", "test_output.py -k safe_cells"),
    Mutant("web/server.py", "signal.signal(signal.SIGINT, server.handle_exit)", "signal.getsignal(signal.SIGINT)", "test_endings.py -k while_a_server_starts"),
    Mutant("workflow/baseline.py", "digest is not None and digest != _digest(table)", "False", "test_files.py -k baseline"),
    Mutant("store/store.py", "if _kept(self.directory).versions[-1] != self.version:\n", "if False:\n", "test_versions.py"),
    Mutant("store/store.py", "min(whole, needed_from)", "whole", "test_versions.py"),
    Mutant("rulebook.py", "{*names, *altered}", "{*names}", "test_versions.py"),
    Mutant("chronicle.py", "before is not None and before != offsets", "False", "test_bad_input.py -k reused"),
    Mutant("violations/listing.py", "coming[:, ids[is_new] - rows.next_id]", "coming[:, ids[is_new] * 0]", "test_violations.py -k every_change"),
    Mutant("indexes/partitioned.py", "            self._layout.widen(come_codes)\n", "", "test_violations.py -k in_parts"),
    Mutant("indexes/partitioned.py", "np.array([made[0], made[-1]])", "np.array([made[0], made[0]])", "test_violations.py -k other_role"),
    Mutant("indexes/partitioned.py", "Op.LE: values[d] <= most,", "Op.LE: values[d] < most,", "test_violations.py -k just_leave"),
    Mutant("pipeline/landing.py", "return sorted(files, key=lambda file: (file.changed, file.name))", "return sorted(files, key=lambda file: file.name[::-1])", "test_pipeline.py -k together"),
    Mutant("pipeline/landing.py", "applied.get(\"stamp\") == list(file.stamp) or applied[\"sha256\"] == file.digest()", "applied[\"sha256\"] != \"\"", "test_bad_input.py -k rewritten"),
    Mutant("pipeline/landing.py", "path.relative_to(self.root).as_posix(), path", "path.name, path", "test_bad_input.py -k anywhere"),
    Mutant("pipeline/landing.py", "and all(candidates[name] == 1 for name in batches)", "", "test_bad_input.py -k upgraded"),
    Mutant("pipeline/landing.py", "return Standing.APPLIED if self._by_length[file.name][0] == file.size else Standing.REWRITTEN", "return Standing.APPLIED", "test_bad_input.py -k upgraded"),
    Mutant("pipeline/follower.py", "columns} if names else {}", "columns}", "test_bad_input.py -k new_column"),
    Mutant("pipeline/follower.py", "                if not quarantine:\n                    raise\n", "                raise\n", "test_bad_input.py -k poison"),
    Mutant("pipeline/delivery.py", "self.last, self._queue = None, queue.Queue()", "pass", "test_delivery.py -k again_in_order"),
    Mutant("pipeline/delivery.py", "min(own + foreign) + 1", "max(own + foreign) + 1", "test_pipeline.py test_delivery.py -k 'down or hangs'"),
    Mutant("pipeline/delivery.py", "max((last or 0) + 1, oldest)", "(last or 0) + 1", "test_delivery.py -k where_they_go"),
    Mutant("pipeline/post.py", "timer.start()", "pass", "test_delivery.py -k deadline"),
    Mutant("pipeline/environment.py", "keep_secret(value)", "pass", "test_delivery.py -k secrets"),
    Mutant("rulebook.py", "if self.needed_from is None and self._options[\"outbox\"]:", "if False:", "test_delivery.py -k owed"),
    Mutant("rulebook.py", "if not wider:\n                raise", "raise", "test_rulebook.py -k widens"),
    Mutant("rulebook.py", "planner.plan(parts[name], quarantine=quarantine)", "pass", "test_rulebook.py -k declared"),
    Mutant("workflow/masking.py", "frozenset(book.masked | Decisions.of(book).masked | {*more})", "frozenset(Decisions.of(book).masked | {*more})", "test_masks.py -k 'nowhere or unmasks'"),
    Mutant("workflow/masking.py", "return {**record, \"values\": dict.fromkeys(values, HIDDEN)", "return {**record, \"values\": values", "test_masks.py -k nowhere"),
    Mutant("table/net.py", "return reason.plain if self._masked else reason.full", "return reason.full", "test_masks.py -k nowhere"),
    Mutant("web/snapshot.py", "if changes is None or mask != self._mask:", "if changes is None:", "test_masks.py -k while_pages"),
    Mutant("cli/apply.py", "if name is None and not again:", "if False:", "test_bad_input.py -k twice"),
    Mutant("pipeline/whole/tiles.py", "mine * many + other if role == T else other * many + mine", "mine * many + other", "test_full_check.py -k ranges"),
    Mutant("pipeline/whole/answer.py", "violate_with_themselves(group, number, t_codes, words) & with_itself", "violate_with_themselves(group, number, t_codes, words)", "test_full_check.py -k cut"),
    Mutant("table/net.py", "exists[group[i]] = bool(events.sign[i] > 0)", "pass", "test_pipeline.py -k 'upserts or debezium_events'"),
    # agree-sets, covers, keys and FDs
    Mutant("kernels/agree.py", "known[row, w] & known[start + j, w] & ~keys[w, j]", "known[row, w] & ~keys[w, j]", "test_agree.py -k 'sets_follow'"),
    Mutant("kernels/agree.py", "key[j] &= mask", "pass", "test_agree.py -k 'sets_follow'"),
    Mutant("kernels/agree.py", "if width & 1:", "if False:", "test_executors.py -k agreements"),
    Mutant("kernels/grouping.py", "if distinct == _FEW:", "if distinct == 3 * _FEW:", "test_agree.py -k short_numbers"),
    Mutant("kernels/sets.py", "useful[i, w] &= ~rights[larger, w]", "useful[i, w] &= rights[larger, w]", "test_agree.py -k exact"),
    Mutant("kernels/hitting_sets.py", "allowed[depth, vertex >> 6] |= bit_of(vertex)", "pass", "test_cover.py"),
    Mutant("kernels/hitting_sets.py", "if alone == 0:\n            return False", "if alone == 0:\n            return True", "test_cover.py"),
    Mutant("kernels/hitting_sets.py", "if depth >= most:", "if depth > most:", "test_cover.py"),
    Mutant("kernels/agree_tree.py", "if at > wanted[have]:", "if at > wanted[have] + 1:", "test_agree.py -k 'tree'"),
    Mutant("kernels/agree_tree.py", "depth_of[have] = skip[node]", "depth_of[have] = nodes", "test_agree.py -k 'tree'"),
    Mutant("kernels/partition.py", "removed += size - max(largest, 1)", "removed += size - largest", "test_agree.py -k 'errors_by'"),
    Mutant("kernels/partition.py", "pairs += valued * (valued - 1) - alike", "pairs += size * (size - 1) - alike", "test_agree.py -k 'errors_by'"),
    Mutant("kernels/partition.py", "elif number < 0 or numbers[rows[first]] < 0 or", "elif", "test_agree.py -k 'errors_by'"),
    Mutant("kernels/agree_match.py", "if i < j and (ends", "if i + 1 < j and (ends", "test_agree.py -k 'matched'"),
    Mutant("discovery/pair_sets.py", "went = counts[theirs] < 0", "went = counts[theirs] > 0", "test_agree.py -k 'decided'"),
    Mutant("discovery/pair_sets.py", "return delta.where(before == 0), delta.where(after == 0)", "return delta.where(before == 0), delta.where(after == 1)", "test_agree.py -k 'sets_follow'"),
    Mutant("discovery/hitting_sets/minimal.py", "covers = distinct(np.concatenate([covers[critical], *freed]))", "covers = distinct(np.concatenate([covers, *freed]))", "test_cover.py"),
    Mutant("discovery/fd/maximal_sets.py", "np.bitwise_or.at(merged, numbers, rights)", "merged[numbers] = rights", "test_agree.py -k 'exact and sql'"),
    Mutant("discovery/fd/collapsed.py", "if a != b or a in several", "if a != b", "test_agree.py -k 'come_apart'"),
    Mutant("discovery/fd/exact.py", "if rows < 2:", "if rows < 1:", "test_agree.py -k exact"),
    Mutant("discovery/fd/proof.py", "proven = among(covers, before)", "proven = np.ones(len(covers), np.bool_)", "test_agree.py -k 'exact'"),
    Mutant("discovery/fd/witnessed.py", "lost = np.isin(self.pairs, moved.gone).any(axis=1)", "lost = np.isin(self.pairs, moved.gone).all(axis=1)", "test_agree.py -k 'exact'"),
    Mutant("discovery/fd/witnessed.py", "proof = Proof(before, complete=not lost.any())", "proof = Proof(before, complete=True)", "test_agree.py -k 'exact'"),
    Mutant("discovery/fd/matches.py", "missing &= ~inside[best]", "missing &= False", "test_agree.py -k 'matched'"),
    Mutant("discovery/fd/matches.py", "return bool((values == values[:1]).all())", "return True", "test_agree.py -k 'exact'"),
    Mutant("discovery/fd/border.py", "if column != right and (more != left).any() and not is_good(more):", "if column != right and (more != left).any():", "test_agree.py -k 'approximate'"),
    Mutant("discovery/fd/border.py", "return bool(columns or not key) and good(columns, end)", "return good(columns, end)", "test_agree.py -k 'approximate'"),
    Mutant("discovery/fd/table_fds.py", "before = Tally.counted(now) - Tally.counted(delta)", "before = Tally.counted(now)", "test_laws.py -k 'reload'"),
    Mutant("discovery/fd/table_fds.py", "self._most_pairs = most_within(wanted.max_error,", "self._most_pairs = 1 + most_within(wanted.max_error,", "test_agree.py -k 'approximate'"),
    Mutant("discovery/fd/table_fds.py", "self._most_rows = most_within(wanted.max_error,", "self._most_rows = 1 + most_within(wanted.max_error,", "test_agree.py -k 'approximate'"),
    Mutant("discovery/hitting_sets/minimal.py", "budget.ended = searching.ended  # not all covers are known", "pass", "test_budget.py -k 'known'"),
    Mutant("discovery/dc/table_dcs.py", "if budget.ended:  # before or while", "if False:  # before or while", "test_budget.py -k 'known'"),
    Mutant("discovery/ind/wide_inclusions.py", "if budget.ended:  # which of the level", "if False:  # which of the level", "test_budget.py -k 'widest'"),
    Mutant("discovery/fd/exact.py", "if mine.ended:", "if False:", "test_budget.py -k 'known'"),
    Mutant("discovery/budget.py", "if first and budget is not None:", "if False:", "test_budget.py -k 'slices'"),
    Mutant("rules/plain.py", "return Plain(RuleSet.from_rules(made, schema.names), False)", "return Plain(RuleSet.from_rules(made, schema.names), True)", "test_budget.py -k 'papers'"),
    Mutant("cli/found_rules.py", "if not rules.blocks and rules.complete:", "if not rules.blocks:", "test_budget.py -k 'never_says'"),
    Mutant("encoded_tables.py", "if budget.spent():\n                break", "if False:\n                break", "test_budget.py -k 'begins'"),
    Mutant("rules/limit.py", "return Fraction(repr(share))", "return Fraction(share)", "test_limit.py"),
    Mutant("discovery/value_vectors.py", "needs[old].discard(t)", "needs[old].discard(t + 1)", "test_agree.py -k 'vectors or products'"),
    # inclusions
    Mutant("kernels/generator.py", "if numbers[known] == number and spaces[known] == space:", "if numbers[known] == number:", "test_inclusion.py -k different_spaces"),
    Mutant("kernels/generator.py", "counts[value] = pairs.counts[place]\n", "counts[value] = 1\n", "test_inclusion.py"),
    Mutant("kernels/generator.py", "put(pairs, (value << _SHIFT) | attribute, amount, state)", "put(pairs, (value << _SHIFT) | attribute, 1, state)", "test_inclusion.py -k 'many_rows'"),
    Mutant("kernels/generator.py", "outside_before = ~masks[old, v] if was", "outside_before = ~masks[old, v] if is_", "test_inclusion.py"),
    Mutant("discovery/ind/inclusions.py", "near & (self.distinct > 0)[:, None] & self.comparable", "near & self.comparable", "test_inclusion.py"),
    Mutant("discovery/ind/inclusions.py", "moved = change.old_codes != change.new_codes", "moved = change.old_codes == change.old_codes", "test_inclusion.py -k 'changed_cells'"),
    Mutant("discovery/ind/inclusions.py", "if not self.distinct[a])", "if self.distinct[a])", "test_inclusion.py"),
    Mutant("discovery/ind/inclusions.py", "found = np.flatnonzero(bad[moves.before] != bad[moves.after])", "found = np.flatnonzero(bad[moves.before] == bad[moves.after])", "test_inclusion.py"),
    Mutant("table/identity.py", "fits = np.abs(quotient) < 2**53", "fits = np.abs(quotient) < 2**63", "test_inclusion.py -k 'numbers or identities'"),
    Mutant("table/identity.py", "shorter = (scales > 0) & (digits % 10 == 0)", "shorter = (scales > 1) & (digits % 10 == 0)", "test_inclusion.py"),
    Mutant("ranking/foreign_keys.py", "unique = (filled == found.distinct)", "unique = (filled >= found.distinct)", "test_inclusion.py -k 'duplicates'"),
    Mutant("ranking/foreign_keys.py", "if there == codes[rule.right_table].shape[1] > 1:", "if there > 1:", "test_inclusion.py -k 'composite'"),
    Mutant("kernels/generator.py", "return before if has else neighbour(", "return before if not has else neighbour(", "test_inclusion.py -k 'only_inserts'"),
    Mutant("kernels/runs.py", "if total != 0:", "if total > 0:", "test_inclusion.py -k 'clusters_follow or follow_the_rows'"),
    Mutant("kernels/runs.py", "if number_a != number_b:", "if number_a < number_b:", "test_inclusion.py -k 'same_hash'"),
    Mutant("kernels/runs.py", "while at < numbers.shape[0] and (numbers[at] != number or spaces[at] != space):", "while at < 0:", "test_inclusion.py -k 'same_hash'"),
    Mutant("kernels/runs.py", "        low = max(low, high - step)", "        low = high - 1", "test_inclusion.py -k 'large_run'"),
    Mutant("discovery/ind/cells.py", "if self._collides(order, hashes):", "if False:", "test_inclusion.py -k 'same_hash'"),
    Mutant("discovery/ind/cells.py", "return cls(Values.joined([p.values for p in parts]), numbers[before], numbers[after], masks)", "return cls(Values.joined([p.values for p in parts]), before, after, masks)", "test_inclusion.py -k 'clusters_follow'"),
    Mutant("discovery/ind/runs.py", "return merged(self._recent if start else self._all).to_arrays()", "return merged(self._recent).to_arrays()", "test_inclusion.py -k 'clusters_follow'"),
    Mutant("discovery/ind/filed_generator.py", "unknown = ~self._cache.knows(cells)", "unknown = self._cache.knows(cells)", "test_inclusion.py -k 'clusters_follow'"),
    Mutant("discovery/ind/generator.py", "return self.used + int(self._members[0])", "return self.used", "test_inclusion.py -k 'nobody_has'"),
    Mutant("discovery/ind/spread_generator.py", "return merged([before, cells.summed()]).to_arrays(), told", "return merged([before]).to_arrays(), told", "test_inclusion.py -k 'clusters_follow'"),
    Mutant("discovery/ind/wide_inclusions.py", "return left_went or right_came\n", "return right_came\n", "test_inclusion.py -k 'wide'"),
    Mutant("discovery/ind/wide_inclusions.py", "return left_came or right_went or left_went", "return left_came or right_went", "test_inclusion.py -k 'wide'"),
    Mutant("discovery/ind/wide_inclusions.py", "if a < b and all(right != taken for _, taken in one):", "if a < b:", "test_inclusion.py -k 'wide'"),
    Mutant("rulebook.py", "self._values = None if added else values  # columns have new numbers", "pass", "test_inclusion.py -k 'added_later'"),
    Mutant("rulebook.py", "growing = [name for name in GROWING if name not in altered]", "growing = list(GROWING)", "test_inclusion.py -k 'added_later'"),
    Mutant("rulebook.py", "        if store.manifest.states.get(VALUES) != files:\n", "        if False:\n", "test_inclusion.py -k 'follow_the_rows'"),
    Mutant("table/net.py", "if self._only_inserts and (events.sign < 0).any():", "if False:", "test_inclusion.py -k 'promise'"),
    # denial constraints and order dependencies
    Mutant("kernels/hitting_sets.py", "if same >= size - 1:", "if same >= size:", "test_denial.py -k 'follow'"),
    Mutant("kernels/hitting_sets.py", "    if used >= most:\n", "    if used > most:\n", "test_denial.py -k 'follow'"),
    Mutant("kernels/agree.py", "plane[j] |= bit if value > values[j] else none", "plane[j] |= bit if value >= values[j] else none", "test_denial.py -k 'lack'"),
    Mutant("discovery/dc/predicate_space.py", '(_BOTH if self.nulls == "sql" else 0)', "_BOTH", "test_denial.py -k 'lack'"),
    Mutant("discovery/dc/evidence.py", "np.where(turn[:, None], mirror, mine)", "mine", "test_denial.py"),
    Mutant("discovery/dc/evidence.py", 'np.array([space.nulls == "equal"])', "np.array([False])", "test_denial.py -k 'lack'"),
    Mutant("discovery/dc/denial.py", "(theirs[rows, first] < mine[rows, first])", "(theirs[rows, first] > mine[rows, first])", "test_denial.py -k 'follow'"),
    Mutant("discovery/dc/denial.py", "chosen[row] = is_satisfiable(", "_ = is_satisfiable(", "test_denial.py -k 'never_be_violated'"),
    Mutant("discovery/dc/order.py", "less[:, le] = greater[:, ge] = True", "less[:, le] = greater[:, le] = True", "test_denial.py -k 'follow'"),
    Mutant("discovery/dc/order.py", "& ~among(made[Op.LE], strong)]", "]", "test_denial.py -k 'follow'"),
    Mutant("discovery/dc/order.py", "Op.LE: (Op.GE, Op.NE)", "Op.LE: (Op.GE,)", "test_denial.py -k 'follow'"),
    Mutant("discovery/dc/table_dcs.py", "before = now - Tally.counted(delta) if delta else now", "before = now", "test_laws.py -k 'nearly'"),
    Mutant("kernels/agree.py", "while used + width > sets.shape[0]:", "while used > sets.shape[0]:", "test_agree.py test_denial.py -k 'many_sets'"),
    Mutant("kernels/agree.py", "more[at, 0], more[at, 1] = slots[place, 0], slots[place, 1]", "more[at, 0], more[at, 1] = slots[place, 0], ONE", "test_denial.py -k 'many_sets'"),
    Mutant("kernels/hitting_sets.py", "out[i] = edge if edge < count else -1", "out[i] = -1", "test_cover.py -k 'some_edges'"),
    Mutant("kernels/hitting_sets.py", "if ~met[q]:", "if ~met[q] and q:", "test_cover.py -k 'some_edges'"),
    Mutant("discovery/hitting_sets/minimal.py", "once |= sizes(covers & edges[first]) == 1", "once |= sizes(covers & edges[first]) == 2", "test_cover.py -k 'follow'"),
    Mutant("discovery/hitting_sets/minimal.py", "edges = edges[single | ~(edges & met).any(axis=1)]", "edges = edges[~(edges & met).any(axis=1)]", "test_cover.py"),
    Mutant("kernels/near_hitting_sets.py", "                out[i, word] |= bit\n                continue\n", "                continue\n", "test_denial.py -k 'follow'"),
    Mutant("discovery/hitting_sets/near.py", "fine = misses <= most", "fine = misses < most", "test_denial.py -k 'follow'"),
    Mutant("discovery/dc/denial.py", "errors[numbers] = self._near.missed[: len(numbers)] / self._pairs", "pass", "test_denial.py -k 'follow'"),
    Mutant("kernels/sweep.py", "if t_side.first[t] > s_side.first[s] or (strict and t_side.first[t] == s_side.first[s]):", "if t_side.first[t] > s_side.first[s]:", "test_denial.py -k 'clash'"),
    Mutant("kernels/sweep.py", "extremes[node, 0], extremes[node, 1] = t, extremes[node, 0]", "extremes[node, 0] = t", "test_denial.py -k 'clash'"),
    Mutant("kernels/sweep.py", "s_side.rank[s] - 1 if strict_rank else s_side.rank[s]", "s_side.rank[s]", "test_denial.py -k 'clash'"),
    Mutant("kernels/sweep.py", "                extremes[node, :] = _NOBODY\n", "                pass\n", "test_denial.py -k 'clash'"),
    Mutant("discovery/dc/clashes.py", '"values" if op is Op.NE else "apart"', '"values"', "test_denial.py -k 'follow or clash'"),
    Mutant("discovery/dc/clashes.py", "if only is None and all(left is right for left, right in sides) and all", "if all", "test_denial.py -k 'clash'"),
    Mutant("discovery/dc/clashes.py", "count + 2 * places + k", "count", "test_denial.py -k 'clash'"),
    Mutant("discovery/dc/clashes.py", "alive = in_t > 1 if may_t is may_s else", "alive = in_t > 1 if True else", "test_denial.py -k 'clash'"),
    Mutant("discovery/dc/lean.py", "lost = np.isin(self.pairs, moved.gone).any(axis=1)", "lost = np.isin(self.pairs, moved.gone).all(axis=1)", "test_denial.py -k 'follow'"),
    Mutant("discovery/dc/lean.py", "if budget.spent() or len(self) == known:", "if True:", "test_denial.py -k 'follow'"),
    Mutant("discovery/dc/lean.py", "self.proven = self.canonical(invert(self.lacking(), rows))", "invert(self.lacking(), rows)", "test_denial.py -k 'reopened'"),
    Mutant("discovered.py", "self._made = self._facts = None", "self._facts = None", "test_discover.py -k 'interruption'"),
    # what people see: words, ranking, looking, decisions, history, exports, pages
    Mutant("rules/sentence.py", 'Op.LT: "a smaller {}"', 'Op.LT: "a larger {}"', "test_rank.py -k sentences"),
    Mutant("rules/sentence.py", "return rule.mirrored() if ordered and ordered[0] in (Op.LT, Op.LE) else rule.predicates", "return rule.predicates", "test_rank.py -k sentences"),
    Mutant("rules/sentence.py", "count // 2 if dc.predicates == dc.mirrored() else count", "count", "test_workflow.py -k steward"),
    Mutant("ranking/interest.py", "return 1.0 if not error else max(0.0, 1 - error / max(by_chance, error))", "return 1.0", "test_rank.py"),
    Mutant("ranking/interest.py", "shares = [self._share_equal(equal)] + [self._share(p) for p in others]", "shares = [self._share_equal(equal)]", "test_rank.py"),
    Mutant("ranking/rank.py", "any(key <= rule.left for key in self._keys) or ", "", "test_rank.py"),
    Mutant("ranking/rank.py", "rule.right in self._closure(rule.left, error)", "False", "test_rank.py"),
    Mutant("ranking/rank.py", "return any(shown <= side for shown in self._shown_atoms for side in sides)", "return False", "test_rank.py"),
    Mutant("discovery/hitting_sets/minimal.py", "return distinct(edges, budget) if many else smallest(edges, budget)", "return edges[:1]", "test_denial.py"),
    Mutant("violations/look.py", "skipped = start - int(ends[first - 1] if first else 0)", "skipped = 0", "test_workflow.py -k pages"),
    Mutant("violations/look.py", "as_s = as_s[~np.isin(as_s, as_t)]", "pass", "test_workflow.py -k pages"),
    Mutant("violations/look.py", 'self.__dict__.pop("_per_row", None)', "pass", "test_web.py -k refreshed"),
    Mutant("rulebook.py", "if any(manifest.meta != self._store.manifest.meta for manifest in later):", "if False:", "test_web.py -k refreshed"),
    Mutant("rulebook.py", "                self._detector.apply(changes)\n            if self._found.is_made:", "                pass\n            if self._found.is_made:", "test_web.py -k refreshed"),
    Mutant("rulebook.py", "                self._found.follow(changes, self._rows)\n            elif step.facts:", "                pass\n            elif step.facts:", "test_web.py -k refreshed"),
    Mutant("rulebook.py", "self._store, self._caught_up = newest, self._caught_up or bool(made)", "self._store = newest", "test_web.py -k refreshed"),
    Mutant("workflow/decisions.py", "new = [r for r in ranked if resolved(r.rule, tables) not in decided]", "new = list(ranked)", "test_workflow.py"),
    Mutant("workflow/decisions.py", "retired = [id_ for id_ in checked if id_ not in wanted]", "retired = []", "test_workflow.py"),
    Mutant("workflow/decisions.py", "fcntl.flock(lock, fcntl.LOCK_EX)", "pass", "test_workflow.py -k threads"),
    Mutant("workflow/decisions.py", 'changes.setdefault("nulls", book.discovery_nulls)', "pass", "test_workflow.py"),
    Mutant("workflow/decisions.py", "return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino, status.st_dev", "return 0, status.st_mtime_ns, status.st_size", "test_remembered_decisions.py"),
    Mutant("workflow/decisions.py", "if _is_settled(stamp, now):", "if True:", "test_remembered_decisions.py -k tick"),
    Mutant("workflow/decisions.py", "if read.shared and self._path is not None else read.file", "if False else read.file", "test_remembered_decisions.py"),
    Mutant("workflow/decisions.py", "decisions = Decisions.afresh(book)", "decisions = Decisions.of(book)", "test_remembered_decisions.py"),
    Mutant("rules/bind.py", "if len(tables) == 1 and rule.table in tables else rule", "if False else rule", "test_table_names.py"),
    Mutant("rules/bind.py", "moved = copy(rule)", "moved = type(rule)(**{f: getattr(rule, f) for f in rule.__match_args__})", "test_table_names.py"),
    Mutant("workflow/baseline.py", 'join_type="left anti"', 'join_type="left semi"', "test_workflow.py"),
    Mutant("workflow/alerts.py", "not is_beyond_tolerance(book, entry)", "False", "test_workflow.py"),
    Mutant("workflow/alerts.py", "new = baseline.new(added_events)", "new = added_events", "test_workflow.py"),
    Mutant("workflow/alerts.py", "() if hidden else _examples(new)", "_examples(new)", "test_workflow.py"),
    Mutant("workflow/masking.py", "return column in self._columns or", "return", "test_workflow.py"),
    Mutant("workflow/history.py", "what = GENERALISED if stronger is not None else SPECIALISED", "what = SPECIALISED if stronger is not None else GENERALISED", "test_workflow.py"),
    Mutant("workflow/history.py", "WEAKENED if total > before else IMPROVED", "WEAKENED", "test_workflow.py"),
    Mutant("rules/sql.py", "e.GT(this=count.subquery(), expression=e.Literal.number(1))", "e.GT(this=count.subquery(), expression=e.Literal.number(0))", "test_exchange.py"),
    Mutant("rules/sql.py", '(p.op is Op.NE and nulls != "distinct")', "p.op is Op.NE", "test_exchange.py"),
    Mutant("exchange/contract.py", "return Below(predicate.left.column, predicate.right.column, predicate.op is Op.GE)", "return Below(predicate.right.column, predicate.left.column, predicate.op is Op.GE)", "test_exchange.py"),
    Mutant("exchange/dc_files.py", '"IQ": "!="', '"IQ": "="', "test_exchange.py"),
    Mutant("web/application.py", "if given is None or not secrets.compare_digest(given.encode(), self._token.encode()):", "if given is None:", "test_web.py -k token"),
    Mutant("web/app.py", "app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts or HOSTS)", "pass", "test_web.py -k token"),
    Mutant("report/page.py", "autoescape=True", "autoescape=False", "test_web.py -k 'escaped or report'"),
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
        if text.count(mutant.before) < 1:
            sys.exit(f"{mutant.file} does not contain {mutant.before!r}: the list of mutants is out of date")
        target.write_text(text.replace(mutant.before, mutant.after, 1), encoding="utf-8")
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

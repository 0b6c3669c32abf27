"""Searching the box index, and the loop that takes rows through it: ask for partners, enter, leave.

A query is a box: for each dimension (lo, hi, hole, has_hole): lo <= value <= hi, and value != hole if there is one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from holdfast.kernels.box import (
    BLOCK_BITS,
    CHUNK,
    COUNT,
    DEAD,
    DIRECTORY,
    DONE,
    FROM,
    GROW_OUT,
    HEAD,
    LEAST,
    LEVELS,
    MOST,
    OWN,
    PYRAMID,
    UNIT,
    UP_TO,
    find_bucket,
    insert,
    remove,
)
from holdfast.kernels.compiled import kernel

# operators, and null policies
EQ, NE, LT, LE, GT, GE = range(6)
NULL_EQUAL, NULL_DISTINCT, NULL_SQL = range(3)


@kernel
def range_of(op, value, policy):
    """What x must be for `value op x` to hold: (lo, hi, hole, has_hole, possible). Null is LEAST."""
    if value == LEAST:
        if op == NE:
            if policy == NULL_EQUAL:
                return LEAST + 1, MOST, np.int64(0), np.int64(0), True
            return LEAST, MOST, np.int64(0), np.int64(0), policy == NULL_DISTINCT
        holds = policy == NULL_EQUAL and (op == LE or op == GE or op == EQ)
        return LEAST, LEAST, np.int64(0), np.int64(0), holds
    if op == NE:
        return (LEAST + 1 if policy == NULL_SQL else LEAST), MOST, value, np.int64(1), True
    if op == EQ:
        return value, value, np.int64(0), np.int64(0), True
    if op == LE:
        return value, MOST, np.int64(0), np.int64(0), True
    if op == GE:
        return LEAST + 1, value, np.int64(0), np.int64(0), True
    if op == LT:
        return (value + 1 if value < MOST else MOST), MOST, np.int64(0), np.int64(0), value < MOST
    lowest = LEAST + 1
    return lowest, (value - 1 if value > lowest else lowest), np.int64(0), np.int64(0), value > lowest


@kernel
def make_query(codes, dims, ops, rule, policy, row, query):
    """The box for a row: in dimension d, what x must be for `value op x`. Returns whether it can be met."""
    for d in range(dims.shape[0]):
        lo, hi, hole, has_hole, possible = range_of(ops[rule, d], codes[dims[d], row], policy)
        if not possible:
            return False
        query[d, 0] = lo
        query[d, 1] = hi
        query[d, 2] = hole
        query[d, 3] = has_hole
    return True


@kernel
def lower_bound(values, start, stop, wanted):
    """The first place in values[0] whose value is not below `wanted`. O(log), without branches to mispredict."""
    length = stop - start
    while length > 0:
        half = length >> 1
        below = values[0, start + half] < wanted
        start = start + half + 1 if below else start
        length = length - half - 1 if below else half
    return start


@kernel
def inside(values, place, query, first):
    """Whether an entry is in the box, dimensions from `first` on."""
    for d in range(first, query.shape[0]):
        value = values[d, place]
        if value < query[d, 0] or value > query[d, 1] or (query[d, 3] != 0 and value == query[d, 2]):
            return False
    return True


@kernel
def relation(least, most, query, d):
    """How bounds lie to the box in dimension d: 0 outside, 1 partly inside, 2 wholly inside."""
    if most < query[d, 0] or least > query[d, 1]:
        return 0
    hole, has_hole = query[d, 2], query[d, 3] != 0
    if has_hole and least == hole and most == hole:
        return 0
    if least < query[d, 0] or most > query[d, 1] or (has_hole and least <= hole <= most):
        return 1
    return 2


@kernel
def block_relation(blocks, at, which, query):
    """The same for a block of the pyramid, over all dimensions but the first."""
    found = 2
    for d in range(1, query.shape[0]):
        here = relation(blocks[d, at, which], blocks[d, at, which + 1], query, d)
        if here == 0:
            return 0
        found = min(found, here)
    return found


@kernel
def jump(blocks, base, place, end, query):
    """How far one can go from an aligned place because nothing is in the box there; `place` itself if not at all.

    Looks at the rest of the group of sixteen that a block belongs to, or at the group's begin up to `end`: one look
    for each level of the pyramid instead of one for each block.
    """
    for level in range(PYRAMID - 1, -1, -1):
        bits = BLOCK_BITS * (level + 1)
        size = np.int64(1) << bits
        if place & (size - 1) != 0 or place + size > end:
            continue
        group = bits + BLOCK_BITS
        group_end = ((place >> group) + 1) << group
        if group_end <= end:
            if block_relation(blocks, base[level] + (place >> bits), FROM, query) == 0:
                return group_end
        elif place & ((np.int64(1) << group) - 1) == 0:
            if block_relation(blocks, base[level] + (end >> bits) - 1, UP_TO, query) == 0:
                return (end >> bits) << bits
    return place


@kernel
def take(versions, dead, begin, end, live_only, out, used, counting):
    """Emits or counts the entries of a stretch, all of which are in the box: how many, or -1 without room."""
    if counting and not live_only:
        return end - begin
    found = np.int64(0)
    for place in range(begin, end):
        version = versions[place]
        if live_only and dead[version] != 0:
            continue
        if not counting:
            if used + found >= out.shape[0]:
                return np.int64(-1)
            out[used + found] = version
        found += 1
    return found


@kernel
def scan(versions, values, dead, blocks, base, begin, end, query, live_only, out, used, counting):
    """The entries of a stretch of a run that are in the box beyond the first dimension, block by block."""
    found = np.int64(0)
    place = begin
    while place < end:
        step, known = np.int64(1), 1
        if place & 15 == 0 and place + 16 <= end:
            further = jump(blocks, base, place, end, query)
            if further > place:
                place = further
                continue
            step, known = np.int64(16), block_relation(blocks, base[0] + (place >> BLOCK_BITS), OWN, query)
            level = 1
            while level < PYRAMID and known != 1:
                bits = BLOCK_BITS * (level + 1)
                size = np.int64(1) << bits
                if place & (size - 1) != 0 or place + size > end:
                    break
                wider = block_relation(blocks, base[level] + (place >> bits), OWN, query)
                if wider == 1:
                    break
                step, known = size, wider
                level += 1
        if known == 2:
            more = take(versions, dead, place, place + step, live_only, out, used + found, counting)
            if more < 0:
                return np.int64(-1)
            found += more
        elif known == 1:
            for i in range(place, place + step):
                if inside(values, i, query, 1):
                    more = take(versions, dead, i, i + 1, live_only, out, used + found, counting)
                    if more < 0:
                        return np.int64(-1)
                    found += more
        place += step
    return found


@kernel
def search_runs(versions, values, dead, blocks, base, runs, directory, query, live_only, out, used, counting):
    """All entries of a bucket's runs that are in the box. O(log + blocks touched + entries found) for each run."""
    dims, found = query.shape[0], np.int64(0)
    for level in range(LEVELS):
        length = runs[directory, level, 1]
        if length == 0:
            continue
        begin = runs[directory, level, 0]
        end = begin + length
        left = right = end
        if dims > 0:
            if values[0, begin] < query[0, 0]:
                begin = lower_bound(values, begin, end, query[0, 0])
            if begin < end and values[0, end - 1] > query[0, 1]:
                end = lower_bound(values, begin, end, query[0, 1] + 1)
            left = right = end
            if query[0, 3] != 0:
                left = lower_bound(values, begin, end, query[0, 2])
                right = end if query[0, 2] == MOST else lower_bound(values, left, end, query[0, 2] + 1)
        for part in range(2):
            first, stop = (begin, left) if part == 0 else (right, end)
            if first >= stop:
                continue
            if dims <= 1:
                more = take(versions, dead, first, stop, live_only, out, used + found, counting)
            else:
                more = scan(
                    versions, values, dead, blocks, base, first, stop, query, live_only, out, used + found, counting
                )
            if more < 0:
                return np.int64(-1)
            found += more
    return found


@kernel
def search_tail(state, versions, values, bucket, query, out, used, counting):
    """The same for its tail."""
    tail, size_class = state[bucket, CHUNK] & 255, state[bucket, CHUNK] >> 8
    if size_class == 0 and tail == 1:
        if not counting:
            if used >= out.shape[0]:
                return np.int64(-1)
            out[used] = state[bucket, HEAD]
        return np.int64(1)
    found = np.int64(0)
    head = np.int64(state[bucket, HEAD]) * UNIT
    for place in range(head, head + tail):
        if inside(values, place, query, 0):
            if not counting:
                if used + found >= out.shape[0]:
                    return np.int64(-1)
                out[used + found] = versions[place]
            found += 1
    return found


class Role(NamedTuple):
    """How a row asks the index of its partners: its key columns, its compared columns, and who may ask."""

    key: Any  # int64[key columns]: columns of the batch's codes
    dims: Any  # int64[dims]
    ops: Any  # int64[rules, dims]: asker op partner
    member: Any  # uint8[rows]: whether the row may stand in this role


class Batch(NamedTuple):
    """Rows to enter or to take out."""

    codes: Any  # int64[columns, rows]
    versions: Any  # int32[rows]


class Found(NamedTuple):
    """Where answers go."""

    partner: Any  # int32[room]: versions, the answers one behind the other
    answers: Any  # int32[room, 4]: who asked (position in the batch), rule, whether the asker is t, how many
    counts: Any  # int64[rules]: all that was found, emitted or not
    used: Any  # int64[2]: partners, answers


@kernel
def reject(state, record, bucket, keys, query):
    """Whether the bounds of a bucket tell that nothing in it is in the box."""
    if state[bucket, COUNT] == state[bucket, DEAD]:
        return True
    for d in range(query.shape[0]):
        if relation(record[bucket, keys + 2 * d], record[bucket, keys + 2 * d + 1], query, d) == 0:
            return True
    return False


@kernel
def answer(
    state, versions, values, dead, blocks, base, runs, bucket, row, rule, as_t, counting, query, partner, answers, used,
    counts,
):  # fmt: skip
    """Searches one bucket for one rule. Returns whether there was room for what was found."""
    if used[1] >= answers.shape[0]:
        return False
    count = search_tail(state, versions, values, bucket, query, partner, used[0], counting)
    if count >= 0 and state[bucket, DIRECTORY] >= 0:
        more = search_runs(
            versions, values, dead, blocks, base, runs, state[bucket, DIRECTORY], query, state[bucket, DEAD] > 0,
            partner, used[0] + count, counting,
        )  # fmt: skip
        count = more if more < 0 else count + more
    if count < 0:
        return False
    counts[rule] += count
    if count > 0 and not counting:
        at = used[1]
        answers[at, 0] = row
        answers[at, 1] = rule
        answers[at, 2] = as_t
        answers[at, 3] = count
        used[0] += count
        used[1] += 1
    return True


@kernel
def process(box_s, box_t, shared, t_role, s_role, batch, policies, skip_t, skip_s, emit, mode, query, found, first):
    """Rows one by one: each asks for its partners, as t among the s rows and as s among the t rows, and enters
    (mode 1), or leaves first and then asks (mode 0), or only asks, one row (mode 2). Pairs inside the batch are
    found once.

    Returns (rows done, status). With GROW_OUT the answers of the row that did not fit are taken back and it has not
    entered; a leaving row has left, and is asked for again by mode 2.
    """
    codes, versions = batch.codes, batch.versions
    t_key, t_dims, t_ops, t_member = t_role.key, t_role.dims, t_role.ops, t_role.member
    s_key, s_dims, s_ops, s_member = s_role.key, s_role.dims, s_role.ops, s_role.member
    meta0, slots0, state0, record0, versions0 = box_s.meta, box_s.slots, box_s.state, box_s.record, box_s.versions
    values0, dead0, blocks0, base0, runs0 = box_s.values, box_s.dead, box_s.blocks, box_s.base, box_s.runs
    meta1, slots1, state1, record1, versions1 = box_t.meta, box_t.slots, box_t.state, box_t.record, box_t.versions
    values1, dead1, blocks1, base1, runs1 = box_t.values, box_t.dead, box_t.blocks, box_t.base, box_t.runs
    used, counts, partner, answers = found.used, found.counts, found.partner, found.answers
    saved = counts.copy()
    keys = t_key.shape[0]
    for row in range(first, versions.shape[0]):
        version = versions[row]
        if mode == 0:
            if s_member[row] != 0:
                remove(box_s, codes, s_key, row, version)
            if t_member[row] != 0 and not shared:
                remove(box_t, codes, t_key, row, version)
        start, answered = used[0], used[1]
        for rule in range(counts.shape[0]):
            saved[rule] = counts[rule]
        fits = True
        bucket0 = bucket1 = at0 = at1 = np.int64(-1)
        if t_member[row] != 0:
            bucket0, at0 = find_bucket(slots0, record0, codes, t_key, row)
        if shared:
            bucket1, at1 = bucket0, at0
        elif s_member[row] != 0:
            bucket1, at1 = find_bucket(slots1, record1, codes, s_key, row)
        for rule in range(policies.shape[0]):
            if (
                bucket0 >= 0
                and skip_t[rule] == 0
                and make_query(codes, t_dims, t_ops, rule, policies[rule], row, query)
            ):
                if not reject(state0, record0, bucket0, keys, query):
                    fits = fits and answer(
                        state0, versions0, values0, dead0, blocks0, base0, runs0, bucket0, row, rule, 1,
                        emit[rule] == 0, query, partner, answers, used, counts,
                    )  # fmt: skip
            if (
                bucket1 >= 0
                and skip_s[rule] == 0
                and make_query(codes, s_dims, s_ops, rule, policies[rule], row, query)
            ):
                if not reject(state1, record1, bucket1, keys, query):
                    fits = fits and answer(
                        state1, versions1, values1, dead1, blocks1, base1, runs1, bucket1, row, rule, 0,
                        emit[rule] == 0, query, partner, answers, used, counts,
                    )  # fmt: skip
        status = DONE if fits else GROW_OUT
        if fits and mode == 1:
            if s_member[row] != 0:
                if not shared:
                    bucket0, at0 = find_bucket(slots0, record0, codes, s_key, row)
                status = insert(
                    box_s, meta0, slots0, state0, record0, versions0, values0, codes, s_key, s_dims, row, version,
                    bucket0, at0,
                )  # fmt: skip
            if status == DONE and t_member[row] != 0 and not shared:
                bucket1, at1 = find_bucket(slots1, record1, codes, t_key, row)
                status = insert(
                    box_t, meta1, slots1, state1, record1, versions1, values1, codes, t_key, t_dims, row, version,
                    bucket1, at1,
                )  # fmt: skip
                if status != DONE and s_member[row] != 0:
                    remove(box_s, codes, s_key, row, version)  # it is in the tail: no trace is left
        if status != DONE:
            used[0], used[1] = start, answered
            for rule in range(counts.shape[0]):
                counts[rule] = saved[rule]
            return row, status
        if mode == 2:
            return row + 1, DONE
    return versions.shape[0], DONE

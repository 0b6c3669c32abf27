"""A batch of rows in one call of the box index: each row asks for its partners and enters, or leaves and asks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from holdfast.kernels.box import (
    DONE,
    GROW_ORDERED,
    GROW_OUT,
    GROW_VERSIONS,
    LEAST,
    Box,
    class_of,
    find_bucket,
    record_of,
    slot_of,
    slots_of,
    start_of,
    tail_of,
    values_of,
    versions_of,
)
from holdfast.kernels.box_entries import insert, remove
from holdfast.kernels.box_query import make_query
from holdfast.kernels.box_search import Ask, search_bucket
from holdfast.kernels.compiled import inlined, kernel, part
from holdfast.kernels.handle import int32_1, int64_1, int64_2, uint8_1
from holdfast.kernels.hashing import hash_row

# what happens to the rows of a batch; LEFT: like LEAVE, but the first row has left already
ENTER, LEAVE, LEFT, ASK = range(4)
NEXT_VERSION, USED, LIVE, MODE, SEEN = range(5)  # of `state`
TOTAL, BATCH, SAVED, AS_T, AS_S = range(5)  # of `counts`; the last two: partners of the current row in each role
START = -1  # the first row of a call that does not continue another one
_BLOCK = 256
_BOX = len(Box._fields)
_LOW = np.uint64(0xFFFFFFFF)


class Lines(NamedTuple):
    """The arrays of one group of rules that follow its two boxes in the handle, in this order."""

    flags: NDArray[np.int64]  # shared, whether nulls in a key are equal
    policies: NDArray[np.int64]  # [rule]
    symmetric: NDArray[np.uint8]  # [rule]
    t_key: NDArray[np.int64]  # lines of the codes
    t_dims: NDArray[np.int64]
    t_ops: NDArray[np.int64]  # [rule, dimension]
    s_key: NDArray[np.int64]
    s_dims: NDArray[np.int64]
    s_ops: NDArray[np.int64]
    query: NDArray[np.int64]  # [dimension, 4]
    extended: NDArray[np.int64]  # [rule]: the rule that a rule adds comparisons to, or -1
    pairs: NDArray[np.int64]  # this and the next two: see `box_search.pairs_of`
    rules: NDArray[np.int32]
    row_ids: NDArray[np.int64]  # [version]
    versions: NDArray[np.int32]  # [row id], -1 where there is no such row
    counts: NDArray[np.int64]  # [5, rule]: see above
    state: NDArray[np.int64]  # see above


def _line(name: str) -> np.int64:
    """The line of an array in the handle."""
    return np.int64(2 * _BOX + Lines._fields.index(name))


_S_ROWS, _T_ROWS = np.int64(0), np.int64(_BOX)
_FLAGS, _POLICIES, _SYMMETRIC = _line("flags"), _line("policies"), _line("symmetric")
_AS_T, _AS_S = _line("t_key"), _line("s_key")
_KEY, _DIMS, _OPS = np.int64(0), np.int64(1), np.int64(2)  # from there
_QUERY, _EXTENDED, _FOUND = _line("query"), _line("extended"), _line("pairs")
_ROW_IDS, _VERSIONS, _COUNTS, _STATE = _line("row_ids"), _line("versions"), _line("counts"), _line("state")
_LINE = 32  # bytes


@part
def look_ahead(box, codes, columns, order, first, stop):
    """Touches what the next rows will read, so that memory serves these reads together. O(key columns + dims) a row."""
    slots, record, versions, values = slots_of(box), record_of(box), versions_of(box), values_of(box)
    keys, seen = columns.shape[0], np.int64(0)
    for i in range(first, stop):
        row = order[i] if order.shape[0] > 0 else i
        slot = slots[slot_of(hash_row(codes, columns, row), slots)]
        bucket = np.int64(slot & _LOW) - 1
        if bucket >= 0:
            word = record[bucket, keys]
            place = start_of(word) + tail_of(word)
            if class_of(word) > 0 and place < versions.shape[0]:  # where the row will stand
                seen ^= versions[place]
                for d in range(values.shape[0]):
                    seen ^= values[d, place]
    return seen


@part
def may_ask(codes, columns, row, members, role, nulls_equal):
    """Whether a row may stand in a role: it passes the filter, and its key has no null that equals nothing."""
    if members.shape[1] > 0 and members[role, row] == 0:
        return False
    if not nulls_equal:
        for i in range(columns.shape[0]):
            if codes[columns[i], row] == LEAST:
                return False
    return True


@inlined
def question(work, codes, row, bucket, ask):
    """Asks one bucket for one rule. Returns how many partners there are, or -1 or -2 as `search_bucket` does."""
    rows, role = (_S_ROWS, _AS_T) if ask.as_t else (_T_ROWS, _AS_S)
    dims, query, state = int64_1(work, role + _DIMS), int64_2(work, _QUERY), int64_1(work, _STATE)
    policy = int64_1(work, _POLICIES)[ask.rule]
    if not make_query(codes, dims, int64_2(work, role + _OPS), ask.rule, policy, row, query):
        return np.int64(0)
    keys, box, found = int64_1(work, role + _KEY).shape[0], work + _LINE * rows, work + _LINE * _FOUND
    count, at = search_bucket(box, bucket, keys, query, ask, found, state[USED])
    if at < 0:
        return at
    state[USED] = at
    int64_2(work, _COUNTS)[BATCH, ask.rule] += 2 * count if ask.both else count
    return count


@part
def ask_all(work, codes, row, asker, asks, limits, bucket_s, bucket_t, mirrored):
    """Asks for one row with all rules, as t among the s rows and as s among the t rows. Returns how many partners
    there are, or -1 or -2 as `search_bucket` does.

    With `mirrored` a symmetric rule asks once for both pairs. A rule that only adds comparisons to another one is not
    asked if the other one has no partners.
    """
    counts, symmetric, total = int64_2(work, _COUNTS), uint8_1(work, _SYMMETRIC), np.int64(0)
    extended = int64_1(work, _EXTENDED)
    for rule in range(symmetric.shape[0]):
        counts[AS_T, rule] = counts[AS_S, rule] = 0 if asks[rule, 0] != 0 else 1  # 1: it is not known
        for role in range(2):
            bucket = bucket_s if role == 0 else bucket_t
            hopeless = extended[rule] >= 0 and counts[AS_T + role, extended[rule]] == 0
            if bucket >= 0 and asks[rule, role] != 0 and not hopeless:
                both, counting = mirrored and symmetric[rule] != 0, counts[BATCH, rule] > limits[rule]
                count = question(work, codes, row, bucket, Ask(asker, 1 - role, both, rule, counting, False))
                if count < 0:
                    return count
                total += count
                counts[AS_T + role, rule] = count
                if symmetric[rule] != 0:
                    counts[AS_S, rule] = count
    return total


@part
def enter_box(work, rows, role, codes, row, version):
    """Inserts a row into a box. The second search for its bucket reads what is in the cache."""
    box, key, dims = work + _LINE * rows, int64_1(work, role + _KEY), int64_1(work, role + _DIMS)
    hashed = hash_row(codes, key, row)
    bucket, at = find_bucket(box, codes, key, row, hashed)
    return insert(box, codes, key, dims, row, version, bucket, at, hashed)


@part
def enter(work, codes, row, version, shared, as_t, as_s):
    """Inserts a row into the box of each role that it may stand in."""
    status = enter_box(work, _S_ROWS, _AS_S, codes, row, version) if as_s else DONE
    if status == DONE and as_t and not shared:
        status = enter_box(work, _T_ROWS, _AS_T, codes, row, version)
        if status != DONE and as_s:  # it is in the tail, so nothing of it remains
            remove(work + _LINE * _S_ROWS, codes, int64_1(work, _AS_S + _KEY), row, version)
    return status


@inlined
def leave(work, codes, row, version, shared, as_t, as_s):
    """Removes a row from the box of each role that it may stand in."""
    if as_s:
        remove(work + _LINE * _S_ROWS, codes, int64_1(work, _AS_S + _KEY), row, version)
    if as_t and not shared:
        remove(work + _LINE * _T_ROWS, codes, int64_1(work, _AS_T + _KEY), row, version)


@inlined
def buckets_for(work, codes, row, shared, as_t, as_s):
    """The buckets of a row's possible partners, (s rows, t rows); -1 where there are none."""
    bucket_s, bucket_t = np.int64(-1), np.int64(-1)
    t_key, s_key = int64_1(work, _AS_T + _KEY), int64_1(work, _AS_S + _KEY)
    if as_t:
        bucket_s, _ = find_bucket(work + _LINE * _S_ROWS, codes, t_key, row, hash_row(codes, t_key, row))
    if shared:
        bucket_t = bucket_s
    elif as_s:
        bucket_t, _ = find_bucket(work + _LINE * _T_ROWS, codes, s_key, row, hash_row(codes, s_key, row))
    return bucket_s, bucket_t


@kernel
def process(work, codes, ids, order, members, asks, limits, per_row, first):
    """Takes rows through the index one by one, in this order (empty: as given). state[MODE] says how. ENTER: each asks
    for its partners, then enters, so a pair within the batch is found once. LEAVE: each leaves, then asks. ASK: each
    asks; per_row[row] = its partners.

    A rule lists pairs until it has more than its limit and only counts from then on. Returns (rows done, status, pairs
    listed). With a status other than DONE the row at that place was not processed, except that with LEAVE it has left:
    continue with LEFT. O(log entries + blocks + partners) for each row and rule.
    """
    flags, state, counts = int64_1(work, _FLAGS), int64_1(work, _STATE), int64_2(work, _COUNTS)
    shared, nulls_equal, mode = flags[0] != 0, flags[1] != 0, state[MODE]
    t_key, s_key = int64_1(work, _AS_T + _KEY), int64_1(work, _AS_S + _KEY)
    row_ids, versions = int64_1(work, _ROW_IDS), int32_1(work, _VERSIONS)
    if first == START:
        first = 0
        counts[BATCH] = 0
        state[USED] = 0
    ahead = first
    for i in range(first, ids.shape[0]):
        if i == ahead and ids.shape[0] - i > 1:
            ahead = min(i + _BLOCK, ids.shape[0])
            state[SEEN] = look_ahead(work + _LINE * _S_ROWS, codes, t_key, order, i, ahead)
        row = order[i] if order.shape[0] > 0 else i
        who, version, used, status = ids[row], state[NEXT_VERSION], state[USED], DONE
        as_t = may_ask(codes, t_key, row, members, np.int64(0), nulls_equal)
        as_s = as_t if shared else may_ask(codes, s_key, row, members, np.int64(1), nulls_equal)
        if mode == ENTER and (version >= row_ids.shape[0] or who >= versions.shape[0]):
            return i, GROW_VERSIONS, used
        if mode == LEAVE or (mode == LEFT and i > first):
            leave(work, codes, row, np.int64(versions[who]), shared, as_t, as_s)
        counts[SAVED] = counts[BATCH]
        bucket_s, bucket_t = buckets_for(work, codes, row, shared, as_t, as_s)
        count = ask_all(work, codes, row, who, asks, limits, bucket_s, bucket_t, mode != ASK)
        if count < 0:
            status = GROW_OUT if count == -1 else GROW_ORDERED
        elif mode == ASK:
            per_row[row] = count
        elif mode == ENTER:
            status = enter(work, codes, row, version, shared, as_t, as_s)
        if status != DONE:
            state[USED] = used
            counts[BATCH] = counts[SAVED]
            return i, status, used
        if mode == ENTER:
            row_ids[version] = who
            versions[who] = version
            state[NEXT_VERSION] = version + 1
            state[LIVE] += 1
        elif mode != ASK:
            versions[who] = -1
            state[LIVE] -= 1
    if mode != ASK:
        counts[TOTAL] += counts[BATCH] if mode == ENTER else -counts[BATCH]
    return ids.shape[0], DONE, state[USED]

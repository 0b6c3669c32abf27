import numpy as np

from holdfast.table.dictionary import NULL
from holdfast.table.kind import Kind
from holdfast.table.parse import _DECIMAL, decimal_scale


def widened(schema, source, declared):
    made = {}
    for c in schema.columns:
        if (
            c.kind in (Kind.INTEGER, Kind.DECIMAL)
            and c.name not in declared
            and source.textual
            and c.name in source.table.column_names
        ):
            import pyarrow.compute as pc

            t = pc.unique(source.table.column(c.name)).drop_null()
            t = t.filter(pc.match_substring_regex(t, f"^({_DECIMAL})$"))
            sc = decimal_scale(t) if len(t) else 0
            if sc > c.scale and sc <= 18:
                made[c.name] = f"decimal({sc})"
    return made


def rescaled(codes, places):
    f = 10**places
    ok = codes[codes != NULL]
    if len(ok) and (np.abs(ok) > (2**63 - 1) // f).any():
        return None
    return np.where(codes == NULL, NULL, np.where(codes == NULL, 0, codes) * f)

"""Charts as SVG, made by Altair without a browser or network. Text and axes take the colour of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.workflow.history import Point

_WIDTH, _HEIGHT, _MAX_TICKS = 270, 130, 8
_MAX_VERSIONS, _MAX_LABEL = 200, 40  # versions in a chart, the newest; characters of a rule in a legend
_PALETTE = ["#3b82c4", "#d97706", "#2f9e6e", "#b4539e", "#8a7b3d", "#6b6fd1"]  # readable on light and on dark
_MAX_RULES, _OTHERS = 5, "other rules"  # with a colour of their own
Timeline = Sequence[Mapping[str, Any]]


def overview_charts(timeline: Timeline, trends: Mapping[str, Sequence[Point]]) -> list[tuple[str, str]]:
    """Charts over the versions, with titles: violations by rule, rows of each batch, found rules that came and went.
    `trends`: of the rules with most violations. Empty for a single version."""
    timeline = timeline[-_MAX_VERSIONS:]
    if len(timeline) < 2:
        return []
    charts = []
    if trends:
        charts.append(("Violations by rule", _violations_chart([record["version"] for record in timeline], trends)))
    batches = timeline if timeline[0]["version"] else timeline[1:]  # the first version is not a batch
    for title, names in _CHANGES.items():
        changed = {change: name for change, name in names.items() if any(record[name] for record in batches)}
        if changed:
            charts.append((title, _changes_chart(batches, changed)))
    return charts


def _violations_chart(versions: Sequence[int], trends: Mapping[str, Sequence[Point]]) -> str:
    """The violations of checked rules after each version, one on top of the other; those of many rules as one."""
    import altair as alt

    rows: list[dict[str, Any]] = []
    order = [_label(rule) for rule in list(trends)[:_MAX_RULES]] + [_OTHERS] * (len(trends) > _MAX_RULES)
    for place, points in enumerate(trends.values()):
        counts = _at(versions, points)
        rows += [
            {"version": version, "rule": order[min(place, _MAX_RULES)], "violations": count}
            for version, count in zip(versions, counts, strict=True)
        ]
    mark = alt.Chart(alt.Data(values=rows)).mark_area(interpolate="step", opacity=0.85)
    return _svg(
        mark.encode(
            x=_version(alt, versions),
            y=alt.Y("sum(violations):Q", title=None, axis=alt.Axis(tickCount=4, format="~s")),
            color=_colours(alt, "rule:N", order),
        )
    )


def _at(versions: Sequence[int], points: Sequence[Point]) -> list[int]:
    """How many violations there were at each version: as many as after the last version that changed them."""
    counts, at, count = [], 0, 0
    for version in versions:
        while at < len(points) and points[at].version <= version:
            count, at = points[at].violations, at + 1
        counts.append(count)
    return counts


_CHANGES = {  # titles, and the counts that are drawn: what came up, what went down
    "Rows of each batch": {"added": "inserted", "updated": "updated", "removed": "deleted"},
    "Found rules, added and removed": {"added": "rules_added", "removed": "rules_removed"},
}


def _changes_chart(timeline: Timeline, names: Mapping[str, str]) -> str:
    """Bars for each version: what was added and updated up, what was removed down."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"version": r["version"], "change": change, "count": r[name] * (-1 if change == "removed" else 1)}
        for r in timeline
        for change, name in names.items()
    ]
    colours = {"added": _PALETTE[2], "updated": _PALETTE[0], "removed": _PALETTE[1]}
    mark = alt.Chart(alt.Data(values=rows)).mark_bar(size=max(1, min(14, 200 // len(timeline))))
    return _svg(
        mark.encode(
            x=_version(alt, [record["version"] for record in timeline]),
            y=alt.Y("count:Q", title=None, axis=alt.Axis(tickCount=4, format="~s")),
            color=_colours(alt, "change:N", list(names), [colours[change] for change in names]),
        )
    )


def trends_chart(trends: Mapping[str, Sequence[Point]]) -> str:
    """A line chart of the error of rules after each version."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"version": point.version, "error": point.error, "rule": _label(rule)}
        for rule, points in trends.items()
        for point in points
    ]
    mark = alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step-after", point=True)
    return _svg(
        mark.encode(
            x=_version(alt, [row["version"] for row in rows]),
            y=alt.Y("error:Q", title=None, axis=alt.Axis(format=".2~%", tickCount=4)),
            color=_colours(alt, "rule:N", list(map(_label, trends))),
        )
    )


def _label(rule: str) -> str:
    return rule if len(rule) <= _MAX_LABEL else f"{rule[: _MAX_LABEL - 1]}…"


def _colours(alt: Any, field: str, values: Sequence[str], colours: Sequence[str] = _PALETTE) -> Any:
    """A colour for each value, with a legend below the chart."""
    scale = alt.Scale(domain=list(values), range=list(colours)[: len(values)])
    legend = alt.Legend(orient="bottom", columns=1 if max(map(len, values), default=0) > 12 else 3, labelLimit=300)
    return alt.Color(field, title=None, scale=scale, legend=legend)


def _version(alt: Any, versions: Sequence[int]) -> Any:
    """The horizontal axis, with a tick for each version, or for round numbers if there are many versions."""
    distinct = sorted(set(versions))
    ticks = {"values": distinct} if len(distinct) <= _MAX_TICKS else {}
    return alt.X("version:Q", title="version", axis=alt.Axis(tickMinStep=1, format="d", **ticks))


def _svg(chart: Any) -> str:
    import vl_convert

    ink = dict.fromkeys(("labelColor", "titleColor", "domainColor", "tickColor", "gridColor"), "currentColor")
    chart = chart.properties(width=_WIDTH, height=_HEIGHT, background="transparent")
    chart = chart.configure_axis(gridOpacity=0.15, **ink).configure_view(stroke=None)
    chart = chart.configure_legend(labelColor="currentColor", titleColor="currentColor")
    svg: str = vl_convert.vegalite_to_svg(json.loads(chart.to_json()))
    return svg

"""Charts as SVG, made by Altair without a browser or network. Text and axes take the colour of the page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.workflow.history import Point

_WIDTH, _HEIGHT, _MAX_TICKS = 640, 170, 20
_PALETTE = ["#3b82c4", "#d97706", "#2f9e6e", "#b4539e", "#8a7b3d", "#6b6fd1"]  # readable on light and on dark


def violations_chart(timeline: Sequence[Mapping[str, Any]]) -> str:
    """An area chart of the violations of checked rules after each version."""
    import altair as alt

    rows: list[dict[str, Any]] = [{"version": r["version"], "violations": r["violations"]} for r in timeline]
    mark = alt.Chart(alt.Data(values=rows)).mark_area(
        line={"color": _PALETTE[0]}, color=_PALETTE[0], opacity=0.25, interpolate="step-after"
    )
    return _svg(
        mark.encode(
            x=_version(alt, [row["version"] for row in rows]),
            y=alt.Y("violations:Q", title="violations", axis=alt.Axis(tickCount=4)),
        )
    )


def rules_chart(timeline: Sequence[Mapping[str, Any]]) -> str:
    """A bar chart of the found rules that each version added (up) and removed (down)."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"version": r["version"], "change": "added", "rules": r["rules_added"]} for r in timeline
    ]
    rows += [{"version": r["version"], "change": "removed", "rules": -r["rules_removed"]} for r in timeline]
    colour = alt.Color(
        "change:N", title=None, scale=alt.Scale(domain=["added", "removed"], range=[_PALETTE[2], _PALETTE[1]])
    )
    mark = alt.Chart(alt.Data(values=rows)).mark_bar(size=max(2, min(18, 400 // max(len(timeline), 1))))
    return _svg(
        mark.encode(
            x=_version(alt, [row["version"] for row in rows]),
            y=alt.Y("rules:Q", title="rules", axis=alt.Axis(tickCount=4)),
            color=colour,
        )
    )


def trends_chart(trends: Mapping[str, Sequence[Point]]) -> str:
    """A line chart of the error of rules after each version."""
    import altair as alt

    rows: list[dict[str, Any]] = [
        {"version": point.version, "error": point.error, "rule": rule if len(rule) <= 48 else f"{rule[:47]}…"}
        for rule, points in trends.items()
        for point in points
    ]
    colour = alt.Color(
        "rule:N",
        title=None,
        scale=alt.Scale(range=_PALETTE),
        legend=alt.Legend(orient="bottom", columns=1, labelLimit=560),
    )
    mark = alt.Chart(alt.Data(values=rows)).mark_line(interpolate="step-after", point=True)
    axis = alt.Axis(format=".2~%", tickCount=4)
    return _svg(
        mark.encode(
            x=_version(alt, [row["version"] for row in rows]),
            y=alt.Y("error:Q", title="error", axis=axis),
            color=colour,
        )
    )


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

"""A small chart of the error of one rule, as SVG. The page gives the style."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.rules.wording import percent
from holdfast.workflow.history import Point

_WIDTH, _HEIGHT = 600, 120


def sparkline(points: Sequence[Point]) -> str:
    """The error after each version as steps; empty for fewer than two versions."""
    if len(points) < 2:
        return ""
    first, last = points[0].version, points[-1].version
    most = max(point.error for point in points) or 1.0

    def x(version: int) -> float:
        return 56 + (_WIDTH - 66) * (version - first) / max(last - first, 1)

    def y(error: float) -> float:
        return 10 + (_HEIGHT - 35) * (1 - error / most)

    path = f"M{x(first):.1f},{y(points[0].error):.1f}"
    for point in points[1:]:
        path += f" H{x(point.version):.1f} V{y(point.error):.1f}"
    floor = y(0)
    return (
        f'<svg class="spark" role="img" aria-label="error by version" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        f'width="{_WIDTH}" height="{_HEIGHT}" xmlns="http://www.w3.org/2000/svg">'
        f'<path class="area" d="{path} V{floor:.1f} H{x(first):.1f} Z"/><path class="line" d="{path}" fill="none"/>'
        f'<text x="52" y="{y(most) + 4:.1f}" text-anchor="end" fill="currentColor" font-size="11">'
        f"{percent(most)}</text>"
        f'<text x="52" y="{floor + 4:.1f}" text-anchor="end" fill="currentColor" font-size="11">0</text>'
        f'<text x="{x(first):.1f}" y="{_HEIGHT - 6}" fill="currentColor" font-size="11">version {first}</text>'
        f'<text x="{x(last):.1f}" y="{_HEIGHT - 6}" text-anchor="end" fill="currentColor" font-size="11">{last}</text>'
        "</svg>"
    )

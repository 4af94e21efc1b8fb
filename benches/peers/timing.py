"""Times several contestants in turn, and the numbers that describe what was timed."""
from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

OURS = "Backdrop"
# Seconds between two runs: thread pools (ONNX Runtime's among them) spin for a while after their work, on cores that the
# next contestant needs.
PAUSE = 0.03


@dataclass
class Row:
    """One line of a table: each contestant's times for the same work, in the order of the rounds."""

    group: str
    name: str
    seconds: dict[str, list[float]]
    # Further figures: contestant → name → value.
    figures: dict[str, dict[str, float]] = field(default_factory=dict)

    def figure(self, contestant: str, name: str, value: float) -> None:
        """Adds a further figure of one contestant."""
        self.figures.setdefault(contestant, {})[name] = value


def median(values: list[float]) -> float:
    """The middle value."""
    return statistics.median(values)


def quartiles(values: list[float]) -> tuple[float, float]:
    """First and third quartile; for fewer than three values the extremes."""
    if len(values) < 3:
        return min(values), max(values)
    first, _, third = statistics.quantiles(values, n=4, method="inclusive")
    return first, third


def ratios(row: Row, contestant: str) -> list[float]:
    """How many times as long as ours the contestant took, round by round.

    A contestant that was stopped early has fewer rounds: of these, the rounds that both took part in.
    """
    return [theirs / ours for theirs, ours in zip(row.seconds[contestant], row.seconds[OURS], strict=False)]


def alternate(contestants: Mapping[str, Callable[[], float]], rounds: int, budget: float) -> dict[str, list[float]]:
    """Runs the contestants in turn, each after one warm-up run. A contestant returns the seconds that its work took.

    One that has used up `budget` seconds of wall time is left out of further rounds, and one whose warm-up took a third of
    it keeps that as its first round: what takes half a minute does not depend on a warm cache.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    spent = dict.fromkeys(contestants, 0.0)

    def run(name: str) -> float:
        time.sleep(PAUSE)
        start = time.monotonic()
        taken = contestants[name]()
        spent[name] += time.monotonic() - start
        return taken

    for name in contestants:
        warm_up = run(name)
        if spent[name] > budget / 3:
            seconds[name].append(warm_up)
    for _ in range(rounds):
        for name in contestants:
            if spent[name] < budget and len(seconds[name]) < rounds:
                seconds[name].append(run(name))
    return seconds

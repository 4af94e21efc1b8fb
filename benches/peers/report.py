"""Writes a run as JSON, as Markdown and as one HTML page with plots."""
from __future__ import annotations

import html
import json
import os
import platform
import subprocess
import time
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from timing import OURS, Row, median, quartiles, ratios

PACKAGES = ("onnxruntime", "rembg", "pymatting", "pillow", "numpy", "numba", "scipy")
# Title and explanation of each group of rows, in the order of the report.
GROUPS = {
    "network": ("Network", "Segmentation of a batch from 384×384 pixels to masks, the same network on both sides."),
    "alpha": ("Trimap to alpha", "The same trimap. Beside PyMatting's closed form."),
    "foreground": ("Alpha to foreground", "The same alpha. Beside PyMatting's multilevel estimation."),
    "decode": ("Decode", "From a file in memory to pixels."),
    "encode": ("Encode", "The same cutout to a PNG in memory."),
    "remove": ("Whole requests over HTTP", "One client, from a JPEG to a PNG. rembg with this project's network."),
    "isnet": ("IS-Net's published file", "As above, with IS-Net in both programs."),
    "clients": ("Several clients", "Wall time for each picture while so many clients send one request after the other."),
    "start": ("Command line", "The whole process, from start to exit."),
}
# Figures that are bytes, and those that are seconds; others are plain numbers.
BYTES = ("memory over idle", "idle memory", "bytes of the answer", "bytes of the file")
SECONDS = ("latency p50", "latency p95")
COLOURS = ("#1b6ca8", "#d1603d", "#6a994e", "#8d6a9f")


def processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def vectors() -> str:
    """The vector instructions that matter here, of those that the processor has."""
    try:
        flags = next(line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")).split()
    except (OSError, StopIteration):
        return "unknown"
    return " ".join(name for name in ("avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16") if name in flags)


def first_line(*command: str | Path) -> str:
    try:
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return lines[0].strip() if lines else "unknown"


@dataclass
class Record:
    """What was measured, when, and on which machine."""

    machine: dict[str, str]
    versions: dict[str, str]
    date: str
    threads: int
    mask_differences: dict[str, float] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    @classmethod
    def of_this_machine(cls, binary: Path, threads: int) -> Record:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        machine = {"processor": processor(), "cores": str(os.cpu_count()), "vectors": vectors(),
                   "memory": f"{memory / 1e9:.0f} GB", "system": f"{platform.system()} {platform.release()}"}
        versions = {"backdrop": first_line(binary, "--version").removeprefix("backdrop "),
                    "commit": first_line("git", "rev-parse", "--short=10", "HEAD"),
                    "rustc": first_line("rustc", "--version").removeprefix("rustc "), "python": platform.python_version()}
        versions |= {name: version(name) for name in PACKAGES}
        return cls(machine, versions, time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), threads)

    def save(self, folder: Path) -> None:
        (folder / "results.json").write_text(json.dumps(asdict(self), indent=1) + "\n")
        (folder / "results.md").write_text(markdown(self))
        (folder / "results.html").write_text(page(self))

    def groups(self) -> list[tuple[str, list[Row]]]:
        named = [(group, [row for row in self.rows if row.group == group]) for group in GROUPS]
        return [(group, rows) for group, rows in named if rows]


def duration(seconds: float) -> str:
    if seconds >= 10:
        return f"{seconds:.1f} s"
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1000:.0f} ms" if seconds >= 0.1 else f"{seconds * 1000:.1f} ms"


def figure_text(name: str, value: float) -> str:
    if name in BYTES:
        return f"{value / 1e6:.0f} MB" if value >= 1e7 else f"{value / 1e6:.2f} MB"
    if name in SECONDS:
        return duration(value)
    return f"{value:.4f}" if value < 1 else f"{value:,.0f}"


def contestants(rows: list[Row]) -> list[str]:
    """In the order in which they first appear."""
    return list(dict.fromkeys(name for row in rows for name in row.seconds))


def time_cell(row: Row, name: str) -> str:
    if not row.seconds.get(name):
        return "–"
    low, high = quartiles(row.seconds[name])
    return f"{duration(median(row.seconds[name]))} ({duration(low)} – {duration(high)}; {len(row.seconds[name])})"


def ratio_cell(row: Row, name: str) -> str:
    values = ratios(row, name) if row.seconds.get(name) else []
    if not values:
        return "–"
    low, high = quartiles(values)
    digits = 0 if median(values) >= 20 else 2
    return f"{median(values):.{digits}f}× ({low:.{digits}f} – {high:.{digits}f})"


def figure_names(rows: list[Row]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for figures in row.figures.values() for name in figures))


def tables(rows: list[Row]) -> list[list[list[str]]]:
    """The table of times and, where there are further figures, theirs; each with a head."""
    names = contestants(rows)
    others = [name for name in names if name != OURS]
    times = [["what", *names, *(f"{name} / {OURS}" for name in others)]]
    times += [[row.name, *(time_cell(row, name) for name in names), *(ratio_cell(row, name) for name in others)] for row in rows]
    figures = figure_names(rows)
    if not figures:
        return [times]
    more = [["what", *figures]]
    for row in rows:
        cells = [[f"{who} {figure_text(figure, row.figures[who][figure])}" for who in row.figures if figure in row.figures[who]]
                 for figure in figures]
        more.append([row.name, *(", ".join(cell) or "–" for cell in cells)])
    return [times, more]


def method(record: Record) -> str:
    differences = ", ".join(f"{name} {value:.1e}" for name, value in record.mask_differences.items())
    text = (f"Medians of alternating rounds, in brackets the quartiles and the number of rounds; ratios are those of the "
            f"rounds, above 1 where {OURS} is faster. {record.threads} threads for each side.")
    return text + (f" Largest difference of the two sides' masks, of 1: {differences}." if differences else "")


def machine_text(record: Record) -> str:
    machine = ", ".join(f"{name} {value}" for name, value in record.machine.items())
    return f"{record.date}. Machine: {machine}. Versions: " + ", ".join(f"{n} {v}" for n, v in record.versions.items()) + "."


def summary(record: Record) -> list[list[str]]:
    """A line for each row and other program: medians, and the ratio of the rounds."""
    lines = [["work", OURS, "beside it", "ratio"], ["---"] * 4]
    for group, rows in record.groups():
        title = GROUPS[group][0]
        for row in rows:
            for name in contestants([row]):
                if not name.startswith(OURS) and ratios(row, name):
                    times = [duration(median(row.seconds[one])) for one in (OURS, name)]
                    lines.append([f"{title}, {row.name}", times[0], f"{name} {times[1]}", f"{median(ratios(row, name)):.2f}×"])
    return lines


def markdown_line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def markdown(record: Record) -> str:
    lines = ["# Backdrop beside other programs", "", method(record), "", machine_text(record), ""]
    lines += ["## Summary", "", *(markdown_line(line) for line in summary(record)), ""]
    for group, rows in record.groups():
        title, explanation = GROUPS[group]
        lines += [f"## {title}", "", explanation, ""]
        for head, *body in tables(rows):
            lines += [markdown_line(line) for line in (head, ["---"] * len(head), *body)] + [""]
    return "\n".join(lines)


WIDTH, LABELS, BAR, GAP = 860, 250, 16, 12


def plot(rows: list[Row], names: list[str]) -> str:
    """Bars of the medians with whiskers at the quartiles, each row relative to its slowest contestant."""
    parts, y = [], 4
    for row in rows:
        present = [name for name in names if row.seconds.get(name)]
        longest = max(quartiles(row.seconds[name])[1] for name in present)
        scale = (WIDTH - LABELS - 110) / longest
        middle = y + BAR * len(present) / 2 + 4
        parts.append(f'<text x="{LABELS - 8}" y="{middle:.0f}" text-anchor="end">{html.escape(row.name)}</text>')
        for name in present:
            value, (low, high) = median(row.seconds[name]), quartiles(row.seconds[name])
            colour, centre = COLOURS[names.index(name) % len(COLOURS)], y + BAR / 2 - 1
            parts.append(f'<rect x="{LABELS}" y="{y}" width="{max(1, value * scale):.1f}" height="{BAR - 2}" fill="{colour}">'
                         f"<title>{html.escape(name)}: {duration(value)}</title></rect>")
            whisker = f"M{LABELS + low * scale:.1f} {centre}H{LABELS + high * scale:.1f}"
            parts.append(f'<path d="{whisker}" stroke="#222" stroke-width="2"/>')
            right = LABELS + max(value, high) * scale + 6
            parts.append(f'<text x="{right:.1f}" y="{y + BAR - 4}" class="value">{duration(value)}</text>')
            y += BAR
        y += GAP
    legend = "".join(f'<span><i style="background:{COLOURS[i % len(COLOURS)]}"></i>{html.escape(name)}</span>'
                     for i, name in enumerate(names))
    return (f'<p class="legend">{legend}</p><svg viewBox="0 0 {WIDTH} {y}" role="img" aria-label="Times of each contestant">'
            + "".join(parts) + "</svg>")


STYLE = """body{font:15px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:1100px;padding:0 1rem;color:#222;background:#fff}
table{border-collapse:collapse;font-size:13px;margin:1rem 0;display:block;overflow-x:auto}
td,th{border:1px solid #ccc;padding:3px 8px;text-align:left}
th{background:#f3f3f3}svg{width:100%;max-width:860px;font-size:13px}svg .value{font-size:12px;fill:#555}
.legend span{margin-right:1.2em}.legend i{display:inline-block;width:12px;height:12px;margin-right:.4em}"""


def html_line(tag: str, cells: list[str]) -> str:
    return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def page(record: Record) -> str:
    """One self-contained page: no script, no other file."""
    parts = []
    for group, rows in record.groups():
        title, explanation = GROUPS[group]
        parts.append(f"<h2>{html.escape(title)}</h2><p>{html.escape(explanation)}</p>{plot(rows, contestants(rows))}")
        for head, *body in tables(rows):
            parts.append("<table>" + html_line("th", head) + "".join(html_line("td", line) for line in body) + "</table>")
    return (f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
            f"<title>Backdrop beside other programs</title><style>{STYLE}</style><h1>Backdrop beside other programs</h1>"
            f"<p>{html.escape(method(record))}</p><p>{html.escape(machine_text(record))}</p>{''.join(parts)}</html>\n")

"""Every kind of page in a browser: no error, nothing asked of the network, drawn, at every size and on paper.

The figure of every analyzer, heatmaps small, large and compressed, differences, nulls and overlays, and the report of
every case study (few seeds, few steps) with the list of reports around it are opened in headless Chromium: light and
dark, 1300 and 600 pixels wide, and printed. What is drawn must be there, text must not be wider than the window, and
names full of markup must stay text.
"""

import contextlib
import importlib
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hosts as made
import numpy as np
import torch
from stressing import Arguments, Report, main

from interp import load_checkpoint
from interp.plots import attention_heatmap, save_figure
from interp.plots.export import find_browser
from probes import (
    analyze_balance,
    analyze_stack_likeness,
    analyze_topic_blocks,
    analyze_two_stages,
    analyze_variation,
    audit_claim,
    demonstrate_lottery_ticket,
    demonstrate_shared_matrix,
    scan_heads,
)
from probes.audit.bench import run_bench

TEXT = "[[[[]]]](((())))"
EVIL = "<img src=x onerror=document.title='owned'></script><script>document.title='owned'</script>"
SETTINGS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1300, "height": 1000}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1300, "height": 1000}},
    "600 px": {"color_scheme": "light", "viewport": {"width": 600, "height": 900}},
}
NETWORK = ("http", "ws", "ftp")
SHORT: dict[str, Any] = {"num_inputs": 60, "length": 12}
STUDIES: dict[str, dict[str, Any]] = {
    "dyck_attention": {"seeds": 2, "steps": 20, "workers": 1},
    "dyck_balance": {"seeds": 2, "steps": 20, "workers": 1},
    "dyck_copying": {"seeds": 2, "steps": 20, "workers": 1},
    "head_claims": {"seeds": 2, "steps": 2, "workers": 1, "encoder": False},
    "lottery_ticket": {"seeds": 1, "steps": 60, "workers": 1},
    "topics": {"seeds": 2, "steps": 30, "workers": 1},
    "topics_wikipedia": {"topics": 5, "sequences": 30},
}


def sharp(*shape: int) -> np.ndarray:
    """Causal patterns [..., query, key] of random scores."""
    n = shape[-1]
    scores = np.random.default_rng(n).normal(size=(*shape, n)) * 2
    scores[..., ~np.tri(n, dtype=bool)] = -np.inf
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def figures() -> dict[str, Callable[[], Any]]:
    """Name -> what makes the figure."""
    brackets, topics, targets = made.ours(), made.topics(), made.targets()
    stack: Any = load_checkpoint("constructed/stack")
    balanced: Any = load_checkpoint("constructed/balanced")
    nulls: Any = ["uniform", "untrained", "sharpness"]
    small = {"candidates": 12, "num_inputs": 4, "num_strings": 20}
    words = [EVIL, "&amp;", "<b>"]
    found: dict[str, Callable[[], Any]] = {
        "balance": lambda: analyze_balance(brackets, num_inputs=4, length=8).figure(),
        "balance, constructed": lambda: analyze_balance(balanced, num_inputs=4).figure(),
        "stack": lambda: analyze_stack_likeness(brackets, num_inputs=8).figure(),
        "stack of one model": lambda: analyze_stack_likeness(stack, TEXT).figure(),
        "variation": lambda: analyze_variation(brackets).figure(),
        "topic blocks": lambda: analyze_topic_blocks(topics).figure(),
        "topic blocks of a matrix": lambda: analyze_topic_blocks(np.eye(12), labels=np.arange(12) // 4).figure(),
        "two stages": lambda: analyze_two_stages(topics).figure(),
        "lottery": lambda: demonstrate_lottery_ticket(targets[0], sweep=(8,), **small).figure(),
        "shared matrix": lambda: demonstrate_shared_matrix(targets[0], targets[1], **small).figure(),
        "bench": lambda: run_bench(1, families=["solo", "uniform"], seed=1).figure(),
        "scan": lambda: scan_heads(brackets[0], ["previous", "stack-top"], **SHORT).figure(),
        "heatmap, small": lambda: attention_heatmap(brackets[0], "([])", overlay=["stack_top", "depth"]),
        "heatmap, nulls": lambda: attention_heatmap(brackets, TEXT, population="mean", null=nulls),
        "heatmap, seeds": lambda: attention_heatmap(brackets, TEXT, population="grid", overlay="partner"),
        "heatmap, spread": lambda: attention_heatmap(brackets, TEXT, population="sd"),
        "heatmap, difference": lambda: attention_heatmap(brackets[0], TEXT, minus=brackets[1]),
        "heatmap, topics": lambda: attention_heatmap(topics[0], "t0w0 t1w1 [MASK]", overlay="topic_blocks"),
        "heatmap, compressed": lambda: attention_heatmap(sharp(3, 200)),
        "heatmap, averaged": lambda: attention_heatmap(sharp(2100)),
        "heatmap, compressed difference": lambda: attention_heatmap(sharp(2, 200)[0], minus=sharp(2, 200)[1]),
        "heatmap, markup": lambda: attention_heatmap(sharp(3), words, title=EVIL),
        "heatmap, compressed markup": lambda: attention_heatmap(sharp(150), words * 50, title=EVIL),
    }  # fmt: skip
    for verdict, claim in {
        "supported": "L1H0 attends to the last unmatched open bracket",
        "refuted": "L0H0 attends to the last unmatched open bracket",
        "of a use": "L1H0 uses the last unmatched open bracket",
    }.items():
        found[f"audit, {verdict}"] = lambda claim=claim: audit_claim(stack, claim, num_inputs=200, length=16).figure()
    return found


# -- the test -------------------------------------------------------------------------------------------------------


def run(arguments: Arguments) -> Report:
    report = Report()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="interp-stress-") as name, browser(report) as chromium:
        if chromium is None:
            report.said = "no browser here: no page could be opened"
            report.wrong("no Chromium or Chrome, or playwright is not installed")
            return report
        for number, (what, make) in enumerate(figures().items()):
            script: Any = "directory" if number % 2 else "inline"
            try:
                path = save_figure(make(), Path(name) / f"{number}.html", include_plotlyjs=script)
            except Exception as error:
                report.wrong(f"{what}: {type(error).__name__}: {error}")
                continue
            look(report, chromium, what, path, is_report=False)
        for study in ["dyck_balance"] if arguments.quick else STUDIES:
            out = Path(name) / "reports" / study.replace("_", "-")
            module = importlib.import_module(f"case_studies.{study}.study")
            try:
                path = module.run(out, **STUDIES[study])
            except Exception as error:
                report.wrong(f"{study}: {type(error).__name__}: {error}")
                continue
            report.counts["studies"] += 1
            look(report, chromium, study, path, is_report=True)
        look(report, chromium, "list of reports", Path(name) / "reports" / "index.html", is_report=False, drawn=False)
    c = report.counts
    report.said = (
        f"{c['pages']} pages ({c['studies']} reports of studies) opened {c['openings']} times, in light and dark, at "
        f"1300 and 600 pixels, and printed: {c['complaints']} errors, {c['requests']} requests to the network, "
        f"{c['not drawn']} not drawn, {c['too wide']} too wide"
    )
    return report


@contextlib.contextmanager
def browser(report: Report) -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        yield None
        return
    path = find_browser()
    if path is None:
        yield None
        return
    with sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield chromium
        chromium.close()


def look(report: Report, chromium: Any, what: str, path: Path, *, is_report: bool, drawn: bool = True) -> None:
    """Open a page in every setting and on paper."""
    c = report.counts
    c["pages"] += 1
    for name, setting in SETTINGS.items():
        context = chromium.new_context(**setting)
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda m: complaints.append(m.text) if m.type in ("error", "warning") else None)  # noqa: B023
        page.on("pageerror", lambda error: complaints.append(str(error)))  # noqa: B023
        asked: list[str] = []
        page.on("request", lambda r: asked.append(r.url) if r.url.startswith(NETWORK) else None)  # noqa: B023
        page.goto(path.as_uri())
        c["openings"] += 1
        if drawn:
            try:
                page.wait_for_selector(".js-plotly-plot .main-svg", timeout=60_000)
                if "DecompressionStream" in path.read_text(encoding="utf-8"):
                    page.wait_for_selector("[data-drawn]", timeout=60_000)
            except Exception as error:
                c["not drawn"] += 1
                report.wrong(f"{what}, {name}: not drawn: {str(error).splitlines()[0]}")
        page.wait_for_timeout(200)
        if "owned" in page.title() and "<" not in page.title():
            report.wrong(f"{what}, {name}: markup of a name was run")
        if is_report:
            wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if wide > 1:
                c["too wide"] += 1
                report.wrong(f"{what}, {name}: {wide} pixels wider than the window")
        if name == "light":
            page.emulate_media(media="print")
            page.wait_for_timeout(100)
            if len(page.pdf()) < 1000:
                report.wrong(f"{what}: nothing is printed")
            c["openings"] += 1
        context.close()
        for complaint in complaints:
            c["complaints"] += 1
            report.wrong(f"{what}, {name}: {complaint}")
        for url in asked:
            c["requests"] += 1
            report.wrong(f"{what}, {name}: asks for {url}")


if __name__ == "__main__":
    main("pages", __doc__, run)

"""The pair of heads as an image, from a full report: `python -m case_studies.real_heads.picture REPORT OUT.png`."""

import sys
from dataclasses import replace
from pathlib import Path

from case_studies.real_heads.decoder import load_decoder
from case_studies.real_heads.figures import pair_figure
from case_studies.real_heads.study import FULL, measure
from interp.plots import save_figure


def picture(report: Path, out: Path) -> None:
    """Write the figure that leads a report; what the report's folder holds is not computed again."""
    size = replace(FULL, each=0, twins=0, audited=0)
    save_figure(pair_figure(measure(load_decoder(), size, report / "kept")).figure, out)


if __name__ == "__main__":
    picture(*map(Path, sys.argv[1:3]))

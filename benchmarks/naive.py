"""The trained bench's null: a naive rule asked every claim of which the audit's results are committed.

    python benchmarks/naive.py --models DIR [--half develop] [--json FILE]

No time is measured here. Claims, truths and what was dropped are those of docs/trained-bench.json and
docs/trained-bench-develop.json; only the audit is replaced, by `probes.audit.bench.trained.naive`. `--models`: where
`interp audit --bench trained` keeps its models. The rule looks at no seed but those of the results, and has nothing
that could be fitted. `python docs/error_rates.py` writes the table of docs/trained-bench.md.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interp.files import write_text
from interp.numbers import number
from probes.audit.bench.trained import LOWERS, SCORE, TOP, check_same_claims, measured

DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULTS = {"judge": "trained-bench.json", "develop": "trained-bench-develop.json"}
RULE = {"score": SCORE, "top": TOP, "lowers": LOWERS}


def text(halves: Mapping[str, Any]) -> str:
    """The file: a line a model."""
    parts = []
    for half, models in halves.items():
        lines = ",\n".join(json.dumps(model, allow_nan=False) for model in models)
        parts.append(f"{json.dumps(half)}: [\n{lines}\n]")
    joined = ",\n".join(parts)
    return f'{{\n"rule": {json.dumps(RULE)},\n"halves": {{\n{joined}\n}}\n}}\n'


def main() -> None:
    """Ask the rule, and write its numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", required=True, type=Path)
    parser.add_argument("--half", choices=list(RESULTS), help="this one alone; the others stay as the file has them")
    parser.add_argument("--json", type=Path, default=DOCS / "trained-bench-naive.json")
    given = parser.parse_args()
    kept = json.loads(given.json.read_text(encoding="utf-8"))["halves"] if given.half and given.json.exists() else {}
    for half, name in RESULTS.items():
        if given.half not in (None, half):
            continue
        data, begun = json.loads((DOCS / name).read_text(encoding="utf-8")), time.process_time()
        kept[half] = []
        for model in data["told"]:
            kept[half].append(measured(given.models, model["family"], model["seed"]))
            wrong = [w for w in data["wrong"] if (w["family"], w["seed"]) == (model["family"], model["seed"])]
            check_same_claims({**data, "told": [model], "wrong": wrong}, kept[half][-1:])
        write_text(given.json, text({one: kept[one] for one in RESULTS if one in kept}))
        print(f"{half}: {data['claims']} claims, {number(time.process_time() - begun, 0)} CPU s", flush=True)


if __name__ == "__main__":
    main()

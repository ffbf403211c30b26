"""Write docs/reproduction.md from what ``outvote reproduce`` left in a folder."""

from __future__ import annotations

import argparse
from pathlib import Path

from outvote.data.writing import write_text
from outvote.paper.experiments import NAMES, get
from outvote.paper.experiments.page import claims_table
from outvote.paper.experiments.running import load

PAGE = """# The paper, run again

Every figure, table and experiment of P. Laforgue, G. Staerman, S. Clémençon, *Generalization Bounds in the Presence of
Outliers: a Median-of-Means Study* (ICML 2021), and a few beyond it, made in a clone by

```
pip install '.[reproduce]'
outvote reproduce --jobs 2
```

which writes figures, numbers and a page, `out/index.html`. The authors' code is not public: where the paper leaves
something open (the distributions of the Mann-Whitney experiment, step sizes, starts), the choice made here is in the
file of the experiment, in `src/outvote/paper/experiments/`. Names of figures and tables are the labels in the paper's
source. This page is written by `make reproduction`: {about}.

{table}
## What to make of it

- The estimators do what the paper says: they survive outliers that ruin the mean, the variance and plain gradient
  descent, at the rate it predicts.
- They do not "behave almost as if there were no outliers", and on symmetric rows the plain median and the trimmed mean
  beat them. What blocks buy is an answer for rows that are *not* symmetric, for pairs, and with a radius.
- The bounds hold where they are stated to, but ordinary confidences lie outside their ranges; the certified radii here
  have no such limits and are several times smaller.
- Algorithm 1 works and is unsteady. The descent that outvote uses by default costs the same and does not fail.
"""


def main(arguments: list[str] | None = None) -> None:
    """Read the outcomes and write the page, whole or not at all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where outvote reproduce wrote")
    parser.add_argument("--output", type=Path, default=Path(__file__).parents[1] / "docs" / "reproduction.md")
    chosen = parser.parse_args(arguments)
    outcomes = [outcome for name in NAMES if (outcome := load(get(name), chosen.folder)) is not None]
    missing = set(NAMES) - {outcome.experiment for outcome in outcomes}
    if missing:
        parser.error(f"{chosen.folder} has no {', '.join(sorted(missing))}: run outvote reproduce -o {chosen.folder}")
    seconds = sum(outcome.seconds for outcome in outcomes)
    quick = " a quick look," if any(outcome.parameters["quick"] for outcome in outcomes) else ""
    about = f"{len(outcomes)} experiments,{quick} seed {outcomes[0].parameters['seed']}, {seconds:.0f} s in all"
    write_text(chosen.output, PAGE.format(about=about, table=claims_table(outcomes)))
    print(f"The page is in {chosen.output}")


if __name__ == "__main__":
    main()

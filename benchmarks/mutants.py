"""Measure how safe the tests are: change the source in many places, one at a time, and see whether tests fail.

Every mutant changes what a user is told: a comparison is flipped, a guard dropped, a number of corrupt rows off by one,
a sign turned, a constant changed by a tenth, arguments swapped. Only the tests of its subject are run, in a copy of the
tree. What is found is written after each mutant, and the next run goes on from there.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from outvote.data.writing import write_text

ROOT = Path(__file__).parents[1]
SOURCE = "src/outvote"
#: Seconds for the tests of a subject; a mutant that takes longer is caught.
TIMEOUT = 300
#: What is not copied.
LEFT_OUT = (".git", ".venv*", "out", "dist", "build", "__pycache__", ".hypothesis", ".*_cache", ".coverage*")
#: Exit codes of pytest that say that a test failed, or that a file of tests could not be read.
_CAUGHT = (1, 2)
_FAILED = re.compile(r"^(\S.*?) (?:FAILED|ERROR)(?: +\[ *\d+%\])?$", re.MULTILINE)


class Subject(NamedTuple):
    """The tests of a subject: files or folders, which may be patterns, and an expression for -k."""

    paths: tuple[str, ...]
    keyword: str = ""


class Mutant(NamedTuple):
    """A change of one place in a file of the package, and the subject whose tests should notice it."""

    path: str
    old: str
    new: str
    subject: str

    def __str__(self) -> str:
        return f"{self.path}: {_short(self.old)} → {_short(self.new)}"

    @property
    def tests(self) -> Subject:
        """The tests that are run."""
        return SUBJECTS[self.subject]


#: The quickest tests come first.
SUBJECTS = {
    "evidence": Subject((f"{SOURCE}/votes/evidence", "tests/votes/evidence"), "not rates and not joint and not ratio"),
    "proportions": Subject(("tests/votes/evidence",), "rates or joint or ratio or proportion or bounded"),
    "votes": Subject((f"{SOURCE}/votes/*.py", "tests/votes/*.py", "tests/assumptions")),
    "paper": Subject((f"{SOURCE}/paper/*.py", "tests/paper/*.py")),
    "certificate": Subject((f"{SOURCE}/certificate", "tests/certificate", "tests/test_contamination.py")),
    "means": Subject(
        (f"{SOURCE}/estimate/*.py", "tests/estimate/*.py"),
        "(mean or columns or evidence or default) and not tolerance and not difference and not door and not capping",
    ),
    "differences": Subject(
        (f"{SOURCE}/estimate/*.py", "tests/estimate/*.py"),
        "(difference or ratio or adjusted) and not capping and not default and not coefficient",
    ),
    "tolerance": Subject((f"{SOURCE}/estimate/*.py", "tests/estimate/*.py"), "tolerance or sensitivity"),
    "kernels": Subject(
        (f"{SOURCE}/kernels", f"{SOURCE}/estimate/*.py", "tests/kernels", "tests/estimate/*.py"),
        "kernels or u_stat or complete",
    ),
    "frames": Subject(("tests/tables", "tests/estimate/*.py"), "((pandas or lazy) and not None) or suspects"),
    "duckdb": Subject(("tests/tables",), "(test_duckdb or test_files or relation) and not dask and not counted_where"),
    "dask": Subject(("tests/tables",), "dask and not counted_where and not brought_here and not rounds"),
    "data": Subject((f"{SOURCE}/data", "tests/data", "tests/estimate/summary")),
    "blocks": Subject((f"{SOURCE}/blocks", "tests/blocks", "tests/estimate/test_voting.py")),
    "learning": Subject((f"{SOURCE}/learning", "tests/learning")),
    "metrics": Subject((f"{SOURCE}/metrics", "tests/test_metrics.py")),
    "monitor": Subject(
        (f"{SOURCE}/estimate/monitor", "tests/estimate/monitor", "tests/votes/evidence"),
        "monitor or e_values or evalues",
    ),
    "plotting": Subject(("tests/plotting",)),
    "command line": Subject(("tests/cli",), "not report and not variants and not terminals and not compar"),
    "comparisons": Subject(("tests/cli",), "(compar or variants) and not report"),
    "reports": Subject(("tests/cli",), "report"),
}


def _of(path: str, subject: str, *changes: tuple[str, str]) -> list[Mutant]:
    return [Mutant(path, old, new, subject) for old, new in changes]


# fmt: off
MUTANTS = [
    *_of("votes/evidence/kernel.py", "evidence", ("(sd / (2 * depth))", "(sd / (2.2 * depth))"),
         ("gain, zero = np.sqrt(stake / (1 - stake)) / unit", "gain, zero = np.sqrt(stake) / unit"),
         ("(sizes - k - 1)[:, None] + step", "(sizes - k)[:, None] + step"),
         ("- atoms.k * (found.theta - f.norm)", "- (atoms.k - 1) * (found.theta - f.norm)"),
         (" - atoms.paid * f.norm", ""),
         ("| (lowest < atoms.known[:, 0])", ""),
         ("bent += gain * (third / 3) * of_bins[:, 2]", "bent += 0.0"),
         ("least -= hollow * (", "least -= 0 * hollow * ("),
         ("wrong = ~np.isfinite(total)", "wrong = np.isnan(total)"),
         (" | (bins.ranks > n - k)", ""),
         ("range(_MOST_DOUBLINGS)", "range(1)")),
    *_of("votes/evidence/kernel.py", "kernels", ("- np.log(len(self.atoms))", "")),
    *_of("votes/evidence/premise.py", "evidence", ("_RARE, _TAIL = 20.0, 2.5", "_RARE, _TAIL = 22.0, 2.5"),
         ("_TIMES, _MORE = 1.25, 3.0", "_TIMES, _MORE = 1.375, 3.0"),
         ("OF_END, OF_SPREAD = 0.48, 0.02", "OF_END, OF_SPREAD = 0.528, 0.02"),
         ("& (number <= k) &", "& (number < k) &"),
         (">= n[:, None] - k, axis=1)", ">= n[:, None] - k - 1, axis=1)"),
         ("1.5 * np.asarray(k)", "0.75 * np.asarray(k)"),
         ("sds[left] *= 2", "sds[left] *= 4"),
         ("np.ceil(_CELLS * np.log2(sds) + 1e-9)", "np.floor(_CELLS * np.log2(sds) + 1e-9)"),
         ("-log_delta - math.log(OF_SPREAD), self", "-log_delta, self")),
    *_of("votes/evidence/premise.py", "means", ("_REACH = 1.5", "_REACH = 1.65")),
    *_of("votes/evidence/grid.py", "evidence", (" + 2 * 2.0**_SQUARE * share + 1)", ")"),
         ("(index == 0) | (index == self.number - 1)", "(index == 0)")),
    *_of("votes/evidence/interval.py", "means", ("price = terms.price - math.log1p(-PROMISE)", "price = terms.price"),
         ("> 2 * promise.radius and", "> 2.2 * promise.radius and"),
         ("0.5 - OF_SPREAD - share / 2", "0.5 - share / 2"),
         ("price = -log_delta - math.log(2 * OF_SPREAD)", "price = -log_delta + math.log(2)"),
         ("_SUSPICIOUS = 0.67", "_SUSPICIOUS = 0.6"),
         ("return cls(low, high, min(max(seen, low), high))", "return cls(low, high, seen)")),
    *_of("votes/evidence/two_samples.py", "differences",
         ("if together is not None:\n        free = max(", "if together is not None:\n        free = max(-1 + "),
         (" - (2 * _FROM_BELOW if undeclared else 0.0)", ""),
         ("b, a, terms.mirrored, together=together", "b, a, terms, together=together"),
         ("terms.shared(2)", "terms.shared(1)"),
         ("b.allowing(b.rows.n_found + free - lower)", "b.allowing(b.rows.n_found + free - upper)"),
         ("lowest / (own.low if lowest < 0 else own.high)", "lowest / (own.high if lowest < 0 else own.low)"),
         ("for pairs in pairs_of:", "for pairs in pairs_of[:1]:")),
    *_of("votes/evidence/joint.py", "proportions", (" - self.bends * np.diff(self.means, axis=0) ** 2 / 4", "")),
    *_of("votes/evidence/ratio.py", "proportions", ("self.gap_low - np.maximum(", "self.gap_low - np.minimum("),
         ("return total + self.n_corrupt * (factor.least - factor.norm) if self.adaptive else total", "return total")),
    *_of("votes/evidence/rates.py", "proportions", ("n * cost + m * more", "n * cost"),
         ("two.n_found + self.free - least", "two.n_found + self.free - most")),
    *_of("votes/evidence/proportion.py", "proportions", ("n_trials - n_ones + 1, alpha", "n_trials - n_ones, alpha")),
    *_of("votes/evidence/bounded.py", "proportions",
         ("n_paid = rows.n_rows if rows.adaptive else n_kept", "n_paid = n_kept")),
    *_of("votes/evidence/order.py", "evidence", ("rank(1 - q)", "rank(q)"),
         ("log_alpha - math.log(parts)", "log_alpha")),
    *_of("votes/evidence/symmetric.py", "evidence",
         ("else signed_rank(n_clean, log_alpha)", "else signed_rank(n_rows, log_alpha)")),
    *_of("votes/evidence/scale.py", "evidence", ("nu, n_kept = (kurtosis + 1) / 2", "nu, n_kept = kurtosis / 2")),
    *_of("votes/evidence/e_values.py", "monitor", ("math.log1p(-2 * _ALONE - undeclared * _SPREAD)", "0.0"),
         ("return min(found, log_e_of_mean(a, terms, 0.0, 1))", "return found")),
    *_of("votes/median.py", "votes", ("np.ceil(blocks / 2) - bad", "np.ceil(blocks / 2) + 1 - bad"),
         ("one_sided = tail.one(p_star(log_delta - LOG_2,", "one_sided = tail.one(p_star(log_delta,"),
         ("np.log1p(-fails) - log_untouched", "np.log1p(-fails) + log_untouched")),
    *_of("votes/soft.py", "votes", ("else (n_votes, 2 * n_bad, price)", "else (n_votes, n_bad, price)"),
         ('return scales if adversary == "adaptive" else', "return scales if adversary else")),
    *_of("votes/clipped.py", "votes", ("n_clean - pulls - 2 / 3 * price", "n_clean - pulls - 1 / 3 * price")),
    *_of("votes/ballots.py", "votes",
         ("smallest = tuple(low for low, _ in ends)", "smallest = tuple(high for _, high in ends)")),
    *_of("votes/terms.py", "means", ("self.log_delta - math.log(parts)", "self.log_delta")),
    *_of("votes/complete.py", "votes", ("a * tail(n_trials, a + 1)", "a * tail(n_trials, a)")),
    *_of("votes/grid.py", "votes",
         ("np.minimum.reduce(np.broadcast_arrays(*pool))", "np.maximum.reduce(np.broadcast_arrays(*pool))")),
    *_of("assumptions/assumption.py", "votes",
         ("self.width / (2 * np.sqrt(n_tuples))", "self.width / (2.2 * np.sqrt(n_tuples))"),
         ("BERRY_ESSEEN = 0.4748", "BERRY_ESSEEN = 0.4316")),
    *_of("paper/bounds.py", "paper", ('factor = 8 if case.statement == "mou2-diagonal" else 4', "factor = 4"),
         ("radius *= 2", "radius *= 1"),
         ("-max(4 * c.alpha * case.n, 1.0)", "-4 * c.alpha * case.n")),
    *_of("paper/mappings.py", "paper", ("Fraction(sum(outliers), min(sizes))", "Fraction(sum(outliers), max(sizes))"),
         ("if epsilon < Fraction(1, 2):", "if epsilon <= Fraction(1, 2):"),
         ("math.ceil(value * n**power)", "math.floor(value * n**power)")),
    *_of("certificate/radii.py", "certificate", ("+ gammaln(n + 1) - gammaln(m)", "+ gammaln(n) - gammaln(m)"),
         ("float(np.min(size)) for size in self.sizes", "float(np.max(size)) for size in self.sizes"),
         ('("median", "soft", "clipped") if vote == "auto"', '("median", "soft") if vote == "auto"')),
    *_of("certificate/unscaled.py", "certificate", ("2 * bdtr(left, n, 0.5) <=", "bdtr(left, n, 0.5) <="),
         (" + (0.0 if kurtosis is None else math.log(2))", "")),
    *_of("contamination.py", "certificate", ("min(math.ceil(share), max(count,", "min(math.floor(share), max(count,"),
         ("most = max((n_rows - 1) // 2, 0)", "most = max(n_rows // 2, 0)"),
         ("key=lambda m: m**q) - 1", "key=lambda m: m**q)")),
    *_of("estimate/weigh.py", "tolerance",
         ("return None if found is None or self._contradicts(found) else found", "return found"),
         ("start, self.most + 1, max(", "start, self.most + 2, max("),
         ('(math.log(2) if terms.alternative == "two-sided" else 0.0)', "0.0"),
         ("min((one.n_rows - 1) // 2 for one in self.ordered)", "min(one.n_rows // 2 for one in self.ordered)")),
    *_of("estimate/tolerance.py", "tolerance", ("sign, rows_found + 1)", "sign, rows_found)"),
         (" - math.log(parts or len(rows))", "")),
    *_of("estimate/curve.py", "tolerance", ("start).min()) - 1", "start).min())")),
    *_of("estimate/sensitivity.py", "tolerance",
         ("left_out=tuple(level for level in wanted if level not in found)", "left_out=()"),
         ("plains[1] - plains[0]", "plains[0] - plains[1]")),
    *_of("estimate/levels.py", "means", ("share = log_delta - math.log(len(levels))", "share = log_delta"),
         ("2 * one.radius) for level", "one.radius) for level")),
    *_of("estimate/screened.py", "means",
         ("~((values >= assume.low) & (values <= assume.high))", "~(values <= assume.high)")),
    *_of("kernels/deletions.py", "kernels",
         ("low = (total - gone + least * twice) / n_left", "low = (total - gone) / n_left"),
         ("max(n_whole - sum(counts), 0)", "n_whole")),
    *_of("kernels/wins.py", "kernels", ("np.maximum(counts - n_x, 0)", "np.maximum(counts, 0)"),
         ('last = np.searchsorted(x, y, side="right")', 'last = np.searchsorted(x, y, side="left")')),
    *_of("kernels/kendall.py", "kernels", ("- tied_y + tied_both - 2", "- tied_y - 2")),
    *_of("kernels/dominance.py", "kernels", (" - right_below - equal_y_above_x", " - right_below")),
    *_of("estimate/complete.py", "kernels",
         ("found.share * lowest, 1 - found.share * (1 - highest), found.n_whole", "lowest, highest, found.n_whole"),
         ("touched = sum(counts)", "touched = max(counts)")),
    *_of("tables/gathered.py", "frames",
         ("chosen = places % step[groups] == 0", "chosen = (places + 1) % step[groups] == 0"),
         ("np.lexsort((ids, groups))", "np.lexsort((groups, ids))"),
         ("np.concatenate([m, n]))", "np.concatenate([n, m]))"),
         ("summary.n_found_corrupt = n_bad", "summary.n_found_corrupt = 0")),
    *_of("tables/duckdb.py", "duckdb", ("self._small = lowest >= 0 and last < PRIME", "self._small = lowest >= 0"),
         ('f"{_NUMBERS} - count(*) FILTER (finite)"', '"0"')),
    *_of("tables/duckdb_sources.py", "duckdb", ("::BIGINT[], file + 1)", "::BIGINT[], 1)")),
    *_of("tables/dask.py", "dask", ("np.cumsum(counts, axis=0) - counts", "np.cumsum(counts, axis=0)"),
         ("self._counted_lengths(question.query), initial=0", "self._counted_lengths(question.query), initial=1")),
    *_of("tables/evidence.py", "frames", (' or (nan_policy == "omit" and infinite_too)', "")),
    *_of("tables/bins.py", "frames", ("nw.when(nw.col(y) >= 0.0)", "nw.when(nw.col(y) > 0.0)")),
    *_of("tables/suspects.py", "frames", ('"row": ids[which].tolist()', '"row": which.tolist()')),
    *_of("data/cells.py", "data", ("signs.pop() if len(signs) == 1 else", "signs.pop() if signs else"),
         ("NOT (contains({text}, '_') OR starts_with({text}, '+-'))", "NOT starts_with({text}, '+-')")),
    *_of("data/csv_text.py", "data", ("if n_rows == expected or", "if n_rows <= expected or"),
         ("if len(where) > 1:", "if len(where) > 2:")),
    *_of("data/missing.py", "data", ("if count <= allowed:", "if count <= allowed + 1:"),
         (' or (nan_policy == "omit" and (bad & ~missing).any())', "")),
    *_of("data/columns.py", "comparisons", ("return np.where(differ, np.nan, least)", "return least")),
    *_of("data/columns.py", "command line", ('(nan_policy != "corrupt" or many)', 'nan_policy != "corrupt"')),
    *_of("estimate/summary/rows.py", "data",
         ("(bins.low - off < assume.low) | (bins.high + off > assume.high)", "bins.low - off < assume.low")),
    *_of("blocks/partition.py", "blocks",
         ("np.random.default_rng([stream, seed])", "np.random.default_rng([0, seed])")),
    *_of("blocks/plan.py", "blocks", ("return (self.n_blocks - 1) // 2", "return self.n_blocks // 2")),
    *_of("blocks/rows_needed.py", "blocks", ("max(1, high // 400)", "max(1, high // 40)")),
    *_of("learning/voting.py", "learning", ("min(share, 1 - 2 * hit)", "min(share, 1 - hit)"),
         ("risks[np.isnan(risks)] = np.inf", "risks[np.isnan(risks)] = 0.0")),
    *_of("learning/descent.py", "learning", ("settings.alpha * problem.penalised * theta", "settings.alpha * theta"),
         ("state.epoch - self.best_epoch >= patience", "state.epoch - self.best_epoch > patience")),
    *_of("learning/trust.py", "learning",
         ("worst(losses, wrong & ~out, n_corrupt - int(out.sum()))", "worst(losses, wrong & ~out, n_corrupt)"),
         ("TOO_FAR = 3.0", "TOO_FAR = 3.3"),
         ("losses > max(times * far_loss(kept), kept[-1])", "losses > times * far_loss(kept)")),
    *_of("learning/robust_fit.py", "learning", (" or errors > _OWN_ERRORS * left", "")),
    *_of("metrics/joined.py", "metrics", ("1 - (1 - confidence) / n_parts", "confidence"),
         ("part.interval if at not in falls else", "part.interval if not falls or at else")),
    *_of("metrics/classes.py", "metrics",
         ('Contamination(allowed.count(len(rows)), "adaptive")', "Contamination(allowed.count(len(rows)))")),
    *_of("metrics/rows.py", "metrics",
         ("Contamination((count, count), allowed.adversary)", "Contamination((count, 0), allowed.adversary)")),
    *_of("estimate/monitor/schedule.py", "monitor", ("math.ceil(exact * n_rows) + _MORE", "math.ceil(exact * n_rows)")),
    *_of("estimate/monitor/answers.py", "monitor", ("if own.empty or contradicts(", "if own.empty and contradicts(")),
    *_of("estimate/monitor/arm.py", "monitor", ("np.split(self.pilot, [self.n_pilot])", "np.split(self.pilot, [n])"),
         ("self.n_piloted += other.n_piloted", "self.n_piloted += 0")),
    *_of("plotting/blocks.py", "plotting",
         ("values[(n_blocks - 1) // 2 - corrupt]", "values[(n_blocks - 1) // 2 - corrupt + 1]")),
    *_of("plotting/sensitivity.py", "plotting", ('step="pre"', 'step="post"')),
    *_of("cli/answer.py", "comparisons", ("finite(means[1] / means[0])", "finite(means[0] / means[1])")),
    *_of("cli/compare.py", "comparisons",
         ("winner, loser = (other, baseline) if larger", "winner, loser = (other, baseline) if not larger")),
    *_of("cli/mean.py", "command line", ("CAUTION = (0, 0.001, 0.01)", "CAUTION = (0, 0.001, 0.011)")),
    *_of("cli/monitor.py", "command line",
         ("arms.sort(key=lambda arm: arm != baseline)", "arms.sort(key=lambda arm: arm == baseline)")),
    *_of("cli/verdict.py", "reports", ("{self.other if sign > 0 else", "{self.other if sign < 0 else")),
]
# fmt: on


def _short(text: str) -> str:
    """Return a snippet in one line."""
    return " ".join(text.split()) or "nothing"


def changed(mutant: Mutant, tree: Path) -> str:
    """Return the changed text of the file; refuse a snippet that is not there exactly once, or is no Python then."""
    text = (tree / SOURCE / mutant.path).read_text(encoding="utf-8")
    times = text.count(mutant.old)
    if times != 1:
        raise ValueError(f"{mutant}: the snippet occurs {times} times in the file, and must occur once")
    found = text.replace(mutant.old, mutant.new)
    try:
        compile(found, mutant.path, "exec")
    except SyntaxError as error:
        raise ValueError(f"{mutant}: {error}") from None
    return found


def check(mutants: Sequence[Mutant], tree: Path) -> None:
    """Refuse mutants that do not fit the source; name them all."""
    wrong = []
    for mutant in mutants:
        try:
            changed(mutant, tree)
        except (OSError, ValueError) as error:
            wrong.append(str(error))
    if wrong:
        raise SystemExit("\n".join(["these mutants do not fit the source:", *wrong]))


class Copy:
    """A copy of the tree in which one mutant at a time is tried."""

    def __init__(self, tree: Path, folder: Path):
        self.tree = folder / "tree"
        shutil.copytree(tree, self.tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
        own = {"PYTHONPATH": str(self.tree / "src"), "NUMBA_CACHE_DIR": str(folder / "numba"), "OMP_NUM_THREADS": "1"}
        self._environment = {name: one for name, one in os.environ.items() if name != "PYTEST_ADDOPTS"} | own
        _, found = self._run(["-c", "import outvote; print(outvote.__file__)"])
        if self.tree.resolve() not in Path(found.strip()).resolve().parents:
            raise RuntimeError(f"tests would import {found.strip()}, and not the copy in {self.tree}")

    def _run(self, arguments: Iterable[str]) -> tuple[int | None, str]:
        """Run Python in the copy; return its exit code, None if it took too long, and what it wrote."""
        # A session of its own, so that the workers that tests begin end with it.
        process = subprocess.Popen(
            [sys.executable, *arguments], cwd=self.tree, env=self._environment, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        try:
            text = process.communicate(timeout=TIMEOUT)[0]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None, ""
        return process.returncode, text

    def test(self, subject: Subject, *options: str) -> tuple[int | None, list[str], str]:
        """Run the tests of a subject; return the exit code, the tests that failed, and what was written last."""
        paths = [str(path.relative_to(self.tree)) for name in subject.paths for path in sorted(self.tree.glob(name))]
        empty = [name for name in subject.paths if not any(self.tree.glob(name))]
        if empty:
            return 4, [], f"there are no tests {', '.join(empty)}"
        keyword = ["-k", subject.keyword] if subject.keyword else []
        # Examples that failed before would be tried again; a seed makes all runs alike.
        fixed = ["-v", "-n0", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-seed=0"]
        shutil.rmtree(self.tree / ".hypothesis", ignore_errors=True)
        code, text = self._run(["-m", "pytest", *fixed, *options, *keyword, *paths])
        return code, _FAILED.findall(text), text[-500:]

    def try_out(self, mutant: Mutant, failing: Sequence[str]) -> dict[str, Any]:
        """Run the tests of a mutant, but those that fail anyway; return its record."""
        file, text, began = self.tree / SOURCE / mutant.path, changed(mutant, self.tree), time.perf_counter()
        kept = file.read_text(encoding="utf-8")
        try:
            _replace(file, text)
            code, failed, last = self.test(mutant.tests, "-x", *(f"--deselect={one}" for one in failing))
        finally:
            _replace(file, kept)
        outcome = "survived" if code == 0 else "caught" if code is None or code in _CAUGHT or code < 0 else "broken"
        by = "timeout" if code is None else failed[0] if failed else "" if code in (0, 1) else last
        seconds = round(time.perf_counter() - began, 1)
        return {**mutant._asdict(), "outcome": outcome, "by": by, "seconds": seconds}


def _replace(file: Path, text: str) -> None:
    """Write a source file, and remove what was compiled of it: within a second nothing else says that it is old."""
    file.write_text(text, encoding="utf-8")
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*.pyc"):
        compiled.unlink()


class Record:
    """What is known of mutants; written whenever something is added."""

    def __init__(self, file: Path):
        self._file, self._lock = file, Lock()
        self._known = json.loads(file.read_text(encoding="utf-8")) if file.exists() else []

    def of(self, mutant: Mutant) -> dict[str, Any] | None:
        """Return the record of a mutant; None if there is none, or its tests could not be run."""
        same = [one for one in self._known if (one["path"], one["old"], one["new"]) == mutant[:3]]
        return same[0] if same and same[0]["outcome"] != "broken" else None

    def add(self, found: dict[str, Any]) -> None:
        """Add a record, in place of an older one of the same mutant."""
        with self._lock:
            keys = ("path", "old", "new")
            self._known = [one for one in self._known if any(one[key] != found[key] for key in keys)] + [found]
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_text(self._file, json.dumps(self._known, indent=1, ensure_ascii=False) + "\n")


def run(mutants: Sequence[Mutant], tree: Path, record: Record, jobs: int) -> None:
    """Try mutants, some at a time; first the tests of each subject without any."""
    copies: queue.Queue[Copy] = queue.Queue()
    failing: dict[str, list[str] | None] = {}

    @contextmanager
    def lent() -> Iterator[Copy]:
        copy = copies.get()
        try:
            yield copy
        finally:
            copies.put(copy)

    def begin(name: str) -> None:
        with lent() as copy:
            code, failed, last = copy.test(SUBJECTS[name])
        usable = code == 0 or (code == 1 and failed)
        failing[name] = failed if usable else None
        if not usable:
            print(f"{name}: its tests cannot be run as they are\n{last}", flush=True)
        elif failed:
            print(f"{name}: {len(failed)} tests fail without a mutant and are left out", flush=True)

    def try_out(mutant: Mutant) -> None:
        left_out = failing[mutant.subject]
        if left_out is None:
            return
        with lent() as copy:
            found = copy.try_out(mutant, left_out)
        record.add(found)
        print(f"{found['outcome']} ({found['seconds']} s) {mutant}", flush=True)

    with tempfile.TemporaryDirectory(prefix="mutants-") as folder, ThreadPoolExecutor(jobs) as pool:
        for number in range(jobs):
            copies.put(Copy(tree, Path(folder) / str(number)))
        try:
            list(pool.map(begin, dict.fromkeys(mutant.subject for mutant in mutants)))
            list(pool.map(try_out, mutants))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def main() -> None:
    """Try all mutants that are not known yet, and print those that survive."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, required=True, help="JSON that is written, and read if it is there")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the repository, or a copy of it")
    parser.add_argument("--only", default="", help="a subject, or a part of a path or snippet")
    parser.add_argument("--jobs", type=int, default=2, help="mutants tried at a time")
    parser.add_argument("--again", action="store_true", help="try mutants that are known, too")
    asked = parser.parse_args()
    known = asked.only in SUBJECTS
    mutants = [
        one for one in MUTANTS if (asked.only == one.subject if known else asked.only in f"{one.path} {one.old}")
    ]
    check(mutants, asked.tree)
    record = Record(asked.output)
    left = [one for one in mutants if asked.again or record.of(one) is None]
    if left:
        run(left, asked.tree, record, asked.jobs)
    found = [(one, record.of(one)) for one in mutants]
    tried = [(one, outcome) for one, outcome in found if outcome is not None]
    survivors = [one for one, outcome in tried if outcome["outcome"] == "survived"]
    print(f"caught {len(tried) - len(survivors)} of {len(tried)}")
    for one in survivors:
        print(f"survived: {one}")
    if len(tried) < len(mutants):
        raise SystemExit(f"{len(mutants) - len(tried)} mutants could not be tried")


if __name__ == "__main__":
    main()

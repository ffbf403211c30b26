"""Run calls by number, keep count, and remember where to go on."""

import json
import math
import multiprocessing
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from contextlib import nullcontext
from pathlib import Path

import numpy as np
from tests.fuzz import hold
from tests.fuzz.commands import COMMANDS
from tests.fuzz.estimates import ESTIMATES, LATER_ESTIMATES, columns, difference, mean, promised
from tests.fuzz.fault import REFUSALS, Fault, check, check_refusal
from tests.fuzz.formulas import FORMULA_KINDS
from tests.fuzz.learners import LATER_LEARNERS, LEARNERS
from tests.fuzz.streams import STREAMS, monitor, row_summary
from tests.fuzz.tables import LATER_TABLES, TABLES
from tests.fuzz.values import pick

from outvote._numba import compiled, numpy_only

KINDS = {**ESTIMATES, **STREAMS, **TABLES, **LEARNERS, **COMMANDS}
#: Seconds of the processor that a call may take: compiling for the first time is part of it.
LIMIT = 60
#: Seconds after which a call that does not look at signals is given up, with the process that it runs in.
PATIENCE = 600
#: Bytes that the process may take on top of what it has.
ROOM = 6 << 30


class TooLongError(BaseException):
    """A call took longer than any should."""


def _too_long(*_):
    raise TooLongError


def call(seed, number, *, trace=False):
    """Run one call: its kind, what came of it, and what is wrong with it, if anything."""
    rng = np.random.default_rng([seed, number])
    kinds = KINDS if seed < 100 else {**KINDS, **LATER_ESTIMATES}
    kinds = {**kinds, **LATER_TABLES, **LATER_LEARNERS, either_way: 6} if seed >= 1000 else kinds
    kinds = {**kinds, **FORMULA_KINDS} if seed >= 4000 else kinds
    names, weights = list(kinds), np.array(list(kinds.values()), dtype=float)
    kind = names[int(rng.choice(len(names), p=weights / weights.sum()))]
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, LIMIT)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", category=DeprecationWarning)
            try:
                with numpy_only() if number % 2 else nullcontext():
                    kind(rng)
                return kind.__name__, "answered", ""
            except REFUSALS as error:
                if trace:
                    traceback.print_exc()
                check_refusal(error)
                return kind.__name__, "refused", ""
    except Fault as fault:
        return kind.__name__, "wrong", str(fault)
    except TooLongError:
        if trace:
            traceback.print_exc()
        return kind.__name__, "hung", f"more than {LIMIT} s"
    except Exception as error:
        if trace:
            traceback.print_exc()
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        return kind.__name__, "wrong", f"{type(error).__name__}: {error} ({where})"[:500]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def either_way(rng):
    """Return an answer that is the same with numba and without."""
    kind = pick(rng, (mean, difference, promised, columns, monitor, row_summary))
    seed = int(rng.integers(2**32))
    outcomes = []
    for within in (numpy_only, nullcontext):
        try:
            with within():
                compiled(math.inf)
                outcomes.append(kind(np.random.default_rng(seed)))
        except REFUSALS as error:
            outcomes.append(str(error))
    one, two = outcomes
    refused = one is None or two is None or isinstance(one, str) or isinstance(two, str)
    alike = type(one) is type(two) and one == two if refused else hold.near(one, two)
    check(alike, f"{kind.__name__} by numpy {one}, by numba {two}")


def one_after_the_other(seed, first, last):
    """Yield the number and the outcome of each call, made here."""
    for number in range(first, last):
        yield number, *call(seed, number)


def in_a_worker(seed, first, last):
    """Yield the same of calls in another process, and a new one where compiled code does not come back."""
    spawn = multiprocessing.get_context("spawn")
    while first < last:
        here, there = spawn.Pipe(duplex=False)
        worker = spawn.Process(target=_work, args=(there, seed, first, last))
        worker.start()
        there.close()
        while first < last and here.poll(PATIENCE):
            try:
                yield first, *here.recv()
            except EOFError:
                yield first, "any", "wrong", "the process died"
                first += 1
                break
            first += 1
        else:
            if first < last:
                yield first, "any", "hung", f"more than {PATIENCE} s in compiled code"
                first += 1
        worker.kill()
        worker.join()


def _work(pipe, seed, first, last):
    limit_memory()
    for _, *found in one_after_the_other(seed, first, last):
        pipe.send(found)


def run(calls, seed, output=None, first=0, outcomes=one_after_the_other):
    """Run so many calls, those that an earlier run with this seed left first; return the counts and the faults."""
    counts, faults = Counter(), []
    state = Path(output, f"seed-{seed}.json") if output else None
    if state is not None:
        state.parent.mkdir(parents=True, exist_ok=True)
        known = json.loads(state.read_text()) if state.exists() else {"next": first, "counts": {}, "faults": []}
        first, counts, faults = known["next"], Counter(known["counts"]), known["faults"]
    start = time.monotonic()
    for number, kind, outcome, why in outcomes(seed, first, first + calls):
        counts[f"{kind} {outcome}"] += 1
        if outcome not in ("answered", "refused"):
            faults.append({"seed": seed, "call": number, "kind": kind, "outcome": outcome, "why": why})
        if state is not None and ((number + 1) % 200 == 0 or number + 1 == first + calls):
            state.write_text(json.dumps({"next": number + 1, "counts": counts, "faults": faults}, indent=1))
            rate = (number + 1 - first) / (time.monotonic() - start)
            print(f"{number + 1} calls, {len(faults)} faults, {rate:.0f} calls a second", flush=True)
    return counts, faults


def limit_memory():
    """Let calls that take more memory than any should fail."""
    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (taken + ROOM,) * 2)

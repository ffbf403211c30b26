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
from tests.fuzz.commands import COMMANDS
from tests.fuzz.estimates import ESTIMATES, LATER_ESTIMATES
from tests.fuzz.fault import REFUSALS, Fault, check_refusal
from tests.fuzz.learners import LEARNERS
from tests.fuzz.streams import STREAMS
from tests.fuzz.tables import TABLES

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
                    compiled(math.inf)  # now: loaded between two calls it would change the last bits
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

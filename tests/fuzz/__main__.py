"""The command ``python -m tests.fuzz``."""

import argparse
import sys

from tests.fuzz.run import call, in_a_worker, limit_memory, run


def main():
    """Run calls, print the counts and the faults, and return whether there are none."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description="Call the public interface at random.")
    parser.add_argument("--calls", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", default="out/fuzz", help="folder to go on from")
    parser.add_argument("--only", type=int, help="repeat this call alone")
    asked = parser.parse_args()
    if asked.only is not None:
        limit_memory()
        print(*call(asked.seed, asked.only, trace=True))
        return 0
    counts, faults = run(asked.calls, asked.seed, asked.output, outcomes=in_a_worker)
    for name, count in sorted(counts.items()):
        print(f"{count:8d}  {name}")
    for fault in faults:
        print("{seed} {call} {kind} {outcome}: {why}".format(**fault))
    return int(bool(faults))


if __name__ == "__main__":
    sys.exit(main())

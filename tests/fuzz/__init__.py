"""A fuzzer of the public interface: random calls, right and wrong, against what must hold of every answer.

``python -m tests.fuzz --calls 20000 --seed 1 --output out/fuzz`` goes on where a run with the same seed stopped, and
``--only I`` repeats call I alone. What it finds is in ``faults.jsonl``.
"""

"""Capture and replay CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch


class Recorder:  # pragma: no cover
    """Captures the launches of jobs on a CUDA device as graphs, which are replayed without gaps.

    Parameters
    ----------
    generator : torch.Generator
        The generator of the jobs; every replay draws new numbers.
    """

    def __init__(self, generator: torch.Generator):
        self.generator, self.device = generator, generator.device
        # All graphs share their memory: they run one after another, and keep no results there.
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self.device)

    def __call__(self, job: Callable[[], None]) -> Callable[[], None]:
        """Capture a job that has run before, and return a function that replays it; the host waits once."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        recording = torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="thread_local")
        # A capture that fails restores neither the stream nor the generators, which always include torch's default.
        with torch.cuda.device(self.device), torch.cuda.stream(torch.cuda.current_stream()):
            bound = self.generator, torch.cuda.default_generators[torch.cuda.current_device()]
            states = [each.clone_state() for each in bound]
            try:
                with recording:
                    job()
            except RuntimeError:
                for each, state in zip(bound, states, strict=True):
                    each.graphsafe_set_state(state)
                raise
        return cast(Callable[[], None], graph.replay)

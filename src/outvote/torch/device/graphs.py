"""Recordings of what a CUDA device is told to do, to tell it again at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch


class Recorder:  # pragma: no cover
    """Records what jobs launch on a CUDA device, to launch it again as one graph: that leaves no gaps.

    Parameters
    ----------
    generator : torch.Generator
        What the jobs draw from; every replay draws anew.
    """

    def __init__(self, generator: torch.Generator):
        self.generator, self.device = generator, generator.device
        # All graphs share their memory: they run one after another, and leave nothing there.
        self.pool, self.stream = torch.cuda.graph_pool_handle(), torch.cuda.Stream(self.device)

    def __call__(self, job: Callable[[], None]) -> Callable[[], None]:
        """Record a job that has run before, and return what runs it; the host waits for the device once."""
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self.generator)
        recording = torch.cuda.graph(graph, self.pool, self.stream, capture_error_mode="thread_local")
        # A recording that fails gives back neither the stream nor the generators, of which torch's own is always one.
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

"""The checker of a run: it reads the cluster's objects and the streams' messages, and shares nothing with the workload.

:mod:`.stream_reader` reads a stream, :mod:`.claims` checks what LEDGER and OUTCOME held over time, :mod:`.bindings`
follows the pods, :mod:`.converged` says what is missing in a system at rest. Messages are decoded here without the
product's types. :class:`.judge.Judge` runs all of it.
"""

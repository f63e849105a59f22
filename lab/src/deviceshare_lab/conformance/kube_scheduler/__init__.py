"""Answers recorded from kube-scheduler's own plugins, compared with ours.

:mod:`.recorded` has their form, :mod:`.replay` compares a case, :mod:`.command` replays files and prints the result.
"""

"""The laboratory: what measures and checks deviceshare. No cluster needs it.

:mod:`.bench` (speed), :mod:`.chaos` (faults), :mod:`.conformance` (recorded answers), :mod:`.studies` (policies in
virtual time, on the recorded :mod:`.traces`). The command is ``deviceshare lab`` (:mod:`.app`).
"""

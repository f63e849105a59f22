"""``deviceshare simulate cluster``: what pods would do in a cluster, and which placed pods to move for them.

Reading order: :mod:`.objects` (manifests into the objects that a cluster would hold), :mod:`.volumes` (what the
controllers of volumes do with them), :mod:`.facts` (objects into facts), :mod:`.player` (the core of placement on these
facts; bindings are simulated), :mod:`.results` (what is counted), :mod:`.report` (tables, JSON and curves),
:mod:`.restartable` (which pods may be moved), :mod:`.removal` (nodes that are gone, and their pods),
:mod:`.defragmentation` (a plan of moves, and what it changes), :mod:`.plan_report` (its text and JSON),
:mod:`.command` (sources), :mod:`.options` and :mod:`.progress`.
"""

"""``deviceshare simulate cluster``: what pods would do in a cluster, under one policy or several.

Reading order: :mod:`.objects` (manifests into the objects that a cluster would hold), :mod:`.volumes` (what the
controllers of volumes do with them), :mod:`.facts` (objects into facts), :mod:`.player` (the core of placement on these
facts; bindings are simulated), :mod:`.results` (what is counted), :mod:`.report` (tables, JSON and curves),
:mod:`.command` (sources and options).
"""

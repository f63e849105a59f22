"""Made clusters as plain objects: chaos, bench and the tests use them.

:mod:`.objects` makes nodes, pods and configurations, :mod:`.cards` what device plugins publish of cards,
:mod:`.manifests` nodes and pods of all families; :mod:`.facts` makes facts, and :mod:`.fields` reads what objects say.
"""

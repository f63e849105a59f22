"""``deviceshare lab study trace``: policies on the pods and nodes of a recorded trace.

Reading order: :mod:`.reading` (the files of a trace), :mod:`.arrivals` (the order in which pods arrive),
:mod:`.runs` and :mod:`.policies`, :mod:`.product` (the product's allocator as a policy),
:mod:`.run` (one workload, policy and seed), :mod:`.churn` and :mod:`.meter` (the same with departures),
:mod:`.command`, :mod:`.report`, :mod:`.churn_report`.
"""

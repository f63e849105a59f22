"""``deviceshare lab bench``: benchmarks of the system (:mod:`.bus`, :mod:`.kube`), of decisions (:mod:`.allocator`)."""

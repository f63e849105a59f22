"""``deviceshare bench``: benchmarks of the system (:mod:`.bus`, :mod:`.kube`) and of decisions (:mod:`.allocator`)."""

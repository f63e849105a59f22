"""``deviceshare bench``: measures of the system (:mod:`.bus`) and of a decision (:mod:`.allocator`) on this machine."""

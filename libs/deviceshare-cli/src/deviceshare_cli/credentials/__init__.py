"""Credentials: keys of the bus's users, certificates, and the key that signs device annotations, as files or Secrets.

:mod:`.keys` makes nkeys, :mod:`.certificates` certificates, :mod:`.files` the directory, :mod:`.rotation` replaces
what it holds, :mod:`.manifests` prints it as Kubernetes Secrets.
"""

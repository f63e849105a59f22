"""Measure the strength of the tests: mutants of our code (cosmic-ray), and which of them the tests notice.

Reading order: ``groups`` (which tests concern which code), ``mutants`` (the sample), ``selection`` and
``plugin`` (the tests that run the changed code), ``workers`` (run them on a copy), ``guard`` (end what they started),
``report``, ``__main__`` (the command of ``make mutate``).
"""

"""Measure the strength of the tests: mutants of our code (cosmic-ray), and which of them the tests notice.

Reading order: ``groups`` (which tests concern which code), ``mutants`` (the sample), ``workers`` (run the tests on a
copy), ``report``, ``__main__`` (the command of ``make mutate``).
"""

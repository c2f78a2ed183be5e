"""The tests of this folder make their reports in one process."""

from tests.one_kernel import one_kernel

__all__ = ["one_kernel"]

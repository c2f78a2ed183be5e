"""The tests of this folder make their reports in one process."""

from tests.one_kernel import kernel

__all__ = ["kernel"]

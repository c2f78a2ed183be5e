"""How fast the readers are, against peers and against themselves: ``python -m benchmarks`` (docs/performance.md)."""

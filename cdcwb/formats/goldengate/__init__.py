"""Oracle GoldenGate trail records: Logdump text, and JSON and XML exports (docs/formats/goldengate.md)."""

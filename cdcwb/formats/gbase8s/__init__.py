"""GBase 8s (Informix) CDC record streams. Facts and sources: docs/formats/gbase8s.md."""

"""Debezium's messages of a workload, and the truth about them."""

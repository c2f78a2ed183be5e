"""The local index of a capture: the location of every record, the header of every change, and every transaction, as
memory-mapped arrays. Spark builds it once; filters, charts and details use it without Spark."""

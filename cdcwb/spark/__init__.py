"""What runs in Spark: the session, the data sources, and the assembly of events into changes and transactions."""

"""The Spark session, the data sources, and the assembly of events into changes and transactions in Spark."""

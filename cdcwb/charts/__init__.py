"""Figures from small lists of records. This package uses no Spark and parses nothing."""

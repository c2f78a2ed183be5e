"""What Qlik's messages and change tables have in common: times and types."""

"""Qlik Replicate and Qlik Talend Cloud messages on Kafka (docs/formats/qlik-kafka.md)."""

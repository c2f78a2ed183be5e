"""The described workload as Qlik Replicate delivers it: messages on Kafka, and change tables as files."""

"""What formats of messages share: plans of captures, and values and keys as Kafka Connect's converters write them."""

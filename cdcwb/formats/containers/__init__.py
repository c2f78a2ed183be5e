"""What holds records: texts of hex digits, Avro."""

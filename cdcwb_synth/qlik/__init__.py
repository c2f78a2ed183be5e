"""The described workload as Qlik Replicate hands it over: messages on Kafka, and change tables as files.

Only committed work gets that far, in the order of the commits. This is the encoder's half: it shares no code with the
decoders in :mod:`cdcwb.formats`, so that a misreading of the fact sheets on one side does not hide on the other.
"""

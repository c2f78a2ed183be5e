"""Writes GoldenGate captures of the described workload: Logdump text, JSON and XML."""

"""Questions about a capture, answered by Spark; the answer is small."""

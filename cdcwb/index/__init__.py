"""The local index of a capture: every record's place, every change's header and every transaction, as arrays on memory
maps. Spark makes it once; whatever is clicked, filtered or drawn afterwards is answered from it, without Spark."""

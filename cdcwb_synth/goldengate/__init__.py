"""The described workload as Extract writes it into a trail, and as Logdump and handlers show it."""

#!/bin/sh
# The Python of Spark's workers, in sessions that cdcwb starts (cdcwb/spark/daemon.py says why).
if [ "$1 $2" = "-m pyspark.daemon" ]; then
  shift 2
  set -- -m cdcwb.spark.daemon "$@"
fi
exec "${CDCWB_PYTHON:-python3}" "$@"

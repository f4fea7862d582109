"""Reads a CSV file with the types that the schema has, and prints as JSON what that took."""
import json
import resource
import sys
import time

import pandas

path, numbers, whole, categories = sys.argv[1], *(names.split(",") for names in sys.argv[2:5])
# Whole numbers with empty cells are floats in pandas.
types = {**{n: "float64" for n in numbers}, **{n: "int64" for n in whole}, **{n: "category" for n in categories}}
begin, used = time.perf_counter(), time.process_time()
rows = len(pandas.read_csv(path, dtype=types))
print(json.dumps({
    "rows": rows, "seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - used,
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "version": pandas.__version__,
}))

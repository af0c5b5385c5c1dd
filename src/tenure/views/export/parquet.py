"""One table of a trace as Parquet, compressed with zstd; written by DuckDB as it goes."""

from __future__ import annotations

from tenure.views.export.base import Job
from tenure.views.export.plain_csv import save

NAME = "parquet"
SUFFIX = ".parquet"
ABOUT = "one table, for pandas, Polars, DuckDB or Spark"
TABLES = True


def write(job: Job) -> None:
    """Write it."""
    save(job, "format parquet, compression zstd")

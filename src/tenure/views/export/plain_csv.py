"""One table of a trace as comma-separated values, with a line of names; written by DuckDB as it goes."""

from __future__ import annotations

from tenure.views.export.base import Job

NAME = "csv"
SUFFIX = ".csv"
ABOUT = "one table as comma-separated values"
TABLES = True
ORDERS = {
    "buffers": "order by process, born, buffer",
    "events": "",  # as they were recorded
    "sites": "order by bytes desc, site",
    "steps": "order by process, ended",
    "live": "order by time, device",
}


def write(job: Job) -> None:
    """Write it."""
    save(job, "format csv, header")


def save(job: Job, options: str) -> None:
    """Write the table as DuckDB writes it."""
    with job.trace.database() as db:
        db.save(f"select * from {job.table} {ORDERS[job.table]}", job.path, options)  # noqa: S608  of TABLES

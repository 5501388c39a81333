"""Queries of the benches by DuckDB, on a file of its own format, with one thread.

usage: duckdb_queries.py DIRECTORY SCHEMA ROUNDS TABLE=FILE... <QUERIES

SCHEMA is a file of statements that make the tables, FILEs have their rows, with '|' between
columns.  QUERIES has a name and a query on each line, with a tab between them.  Printed are,
with tabs as well: "load" and its seconds, to the end of a checkpoint; "bytes" and the size of
the file; then each name, the median milliseconds of the second run of a query in a
connection of its own, and what it answers.
"""

import os
import statistics
import sys
import time

import duckdb


def connect(name):
    connection = duckdb.connect(name)
    connection.execute("SET threads = 1")
    return connection


def load(name, schema, tables):
    """Load the tables; seconds it took."""
    connection = connect(name)
    with open(schema, encoding="utf-8") as file:
        connection.execute(file.read())
    start = time.monotonic()
    for table in tables:
        table, rows = table.split("=", 1)
        connection.execute(f"COPY {table} FROM '{rows}' (DELIMITER '|', HEADER false)")
    connection.execute("CHECKPOINT")
    taken = time.monotonic() - start
    connection.close()
    return taken


def run(name, query):
    """Milliseconds of the second run, and its answer."""
    connection = connect(name)
    for _ in range(2):
        start = time.monotonic()
        answer = connection.execute(query).fetchall()
        taken = time.monotonic() - start
    connection.close()
    return 1000 * taken, answer


def main():
    directory, schema, rounds, *tables = sys.argv[1:]
    name = os.path.join(directory, "bench.duckdb")
    print("load", f"{load(name, schema, tables):.2f}", sep="\t")
    print("bytes", os.path.getsize(name), sep="\t")
    for line in sys.stdin:
        label, query = line.rstrip("\n").split("\t")
        times = []
        for _ in range(int(rounds)):
            taken, answer = run(name, query)
            times.append(taken)
        text = ";".join("|".join(str(value) for value in row) for row in answer)
        print(label, f"{statistics.median(times):.2f}", text[:200], sep="\t")


main()

"""Measures the readers and says whether they hold what was promised of them: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from benchmarks import avro, captures, decoders, end_to_end, masks, qlik_json, tables, xds
from benchmarks.measure import in_turn, on_one_core, ratio
from cdcwb import machine

_BROKEN = 4
"""Exit code where a threshold is broken, as on the command line of cdcwb."""

_TWICE = 2.1
_FORMATS = ("gbase8s", "qlik", "xds", "tables")


@dataclass(frozen=True, slots=True)
class Promise:
    """Something that was promised, and what was measured: at least or at most so much."""

    text: str
    measured: float
    wanted: float
    at_most: bool = False

    @property
    def holds(self) -> bool:
        return self.measured <= self.wanted if self.at_most else self.measured >= self.wanted


def main() -> int:
    options = _options()
    print(_machine())
    promises: list[Promise] = []
    if "gbase8s" in options.only:
        promises += _gbase8s(options)
    if "qlik" in options.only:
        promises += _qlik(options)
    if "xds" in options.only:
        promises += _xds(options)
    if "tables" in options.only and not options.no_spark:
        promises += _tables(options)
    _print_promises(promises)
    return _BROKEN if options.check and not all(promise.holds for promise in promises) else 0


def _gbase8s(options: argparse.Namespace) -> list[Promise]:
    size = captures.sizes(options.quick)
    whole, everything = captures.make(size)
    head = captures.head(whole, size.head)
    with on_one_core():
        promises = _peers(head, options.rounds)
        _shapes(everything, options.rounds)
        promises.append(_twice_on_one_core(whole, options.rounds))
    if not options.no_spark:
        promises.append(_whole_way(whole, min(options.rounds, 3)))
    return promises


def _qlik(options: argparse.Namespace) -> list[Promise]:
    count = 4_000 if options.quick else 32_768
    values = avro.messages(count)
    found = avro.difference(values[:2000]) or masks.difference(2000)
    if found is not None:
        raise SystemExit(f"a peer and cdcwb disagree: {found}")
    with on_one_core():
        taken = in_turn(avro.works(values), options.rounds)
        masked = in_turn(masks.works(count), options.rounds)
    size = sum(map(len, values))
    _print_rates("One core, processor time, Avro data messages of 30 columns, both images", taken, count, size)
    promises = [
        Promise(f"Avro, {name}", ratio(taken[avro.PEER], taken[name]), wanted) for name, wanted in avro.PROMISES.items()
    ]
    _print_rates(f"One core, processor time, masks of {masks.COLUMNS} columns", masked, count, count * 30)
    promises.append(Promise("masks against a function per row", ratio(masked[masks.PEER], masked["bitmask"]), 20))
    if not options.no_spark:
        taken = qlik_json.measure(count, options.rounds)
        size = qlik_json.make_messages(count).stat().st_size
        _print_rates("One core, by the clock, JSON data messages in a Spark job", taken, count, size)
        ours = taken["cdcwb select_events"]
        promises += [Promise(f"JSON against {name}", ratio(taken[name], ours), 1) for name in qlik_json.PEERS]
    return promises


def _xds(options: argparse.Namespace) -> list[Promise]:
    count = 4_000 if options.quick else 100_000
    log = xds.log_rows(count)
    promises = []
    for size in xds.BATCH_SIZES:
        found = xds.difference(log, size)
        if found is not None:
            raise SystemExit(f"a peer and cdcwb disagree: {found}")
        with on_one_core():
            taken = in_turn(xds.works(log, size), options.rounds)
        length = sum(map(len, xds.documents_of(log, size)))
        title = f"One core, processor time, event log rows as XDS, {size} events a document"
        _print_rates(title, taken, count, length)
        promises += [
            Promise(
                f"XDS from {name}, {size} a document",
                ratio(taken[f"lxml, {name}"], taken[f"columns, {name}"]),
                xds.PROMISE,
            )
            for name in ("events", "log rows")
        ]
    return promises


def _tables(options: argparse.Namespace) -> list[Promise]:
    count = 4_000 if options.quick else tables.CHANGES
    promises = []
    for name in tables.FORMATS:
        taken = tables.measure(name, count, min(options.rounds, 3))
        print(f"\nlocal[2], processor time of JVM and Python, {name}, {count:,} changes by default, load included")
        for table, seconds in taken.items():
            times = ratio(seconds, taken["events"])
            low, high = min(seconds), max(seconds)
            median = statistics.median(seconds)
            print(f"  {table:<28} {median:>8.2f} s {times:>6.2f} times events   ({low:.2f} to {high:.2f})")
            if (name, table) in tables.PROMISES:
                wanted = tables.PROMISES[name, table]
                promises.append(Promise(f"{name}, {table} against events", times, wanted, at_most=True))
    return promises


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure the speed of cdcwb.")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs; the figures say little")
    parser.add_argument("--check", action="store_true", help=f"exit with {_BROKEN} where a promise is broken")
    parser.add_argument("--rounds", type=int, default=5, help="how often everything is measured in turn (5)")
    parser.add_argument("--no-spark", action="store_true", help="leave out the whole way through Spark")
    parser.add_argument("--only", nargs="+", choices=_FORMATS, default=_FORMATS, help="only these")
    return parser.parse_args()


def _machine() -> str:
    memory = f"{machine.memory_bytes() / 2**30:.0f} GiB"
    system = f"{platform.system()} {platform.machine()}"
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "pyarrow", "pyspark", "construct", "fastavro"))
    return f"{machine.cores()} cores, {memory}, {system}{load}; Python {platform.python_version()}, {versions}"


# --- what is measured -------------------------------------------------------------------------------------------------


def _peers(head: str, rounds: int) -> list[Promise]:
    plan = decoders.plan_of([head])
    for by_hand in (False, True):
        found = decoders.difference(head, plan, by_hand=by_hand)
        if found is not None:
            raise SystemExit(f"construct and the reader disagree: {found}")
    taken = in_turn(
        {
            "reader": decoders.reader(plan, images=True),
            "reader, headers only": decoders.reader(plan, images=False),
            "first pass": decoders.first_pass([head]),
            "dissect.event": decoders.one_by_one(head, plan.shared.settings, trees=False),
            "dissect.dissect": decoders.one_by_one(head, plan.shared.settings, trees=True),
            "construct": decoders.constructed(head, by_hand=False),
            "construct, decimals by hand": decoders.constructed(head, by_hand=True),
        },
        rounds,
    )
    records, size = int(plan.facts["records"]), Path(head).stat().st_size
    _print_rates("One core, processor time, typical tables; construct gives the reader's values", taken, records, size)
    one_by_one = taken["dissect.event"]  # the faster of the two
    return [
        Promise("reader against dissect", ratio(one_by_one, taken["reader"]), 5),
        Promise("reader, headers only, against dissect", ratio(one_by_one, taken["reader, headers only"]), 10),
        Promise("reader against construct", ratio(taken["construct"], taken["reader"]), 50),
    ]


def _shapes(everything: list[str], rounds: int) -> None:
    """For information: wide rows with every column type, many of them with extreme values."""
    plan = decoders.plan_of(everything)
    taken = in_turn(
        {
            "reader": decoders.reader(plan, images=True),
            "reader, headers only": decoders.reader(plan, images=False),
        },
        rounds,
    )
    title = "One core, processor time, with a table of 62 columns of every type (for information)"
    _print_rates(title, taken, int(plan.facts["records"]), sum(Path(file).stat().st_size for file in everything))


def _twice_on_one_core(whole: list[str], rounds: int) -> Promise:
    half = whole[: len(whole) // 2]
    plans = {"half": decoders.plan_of(half), "whole": decoders.plan_of(whole)}
    taken = in_turn({name: decoders.reader(plan, images=True) for name, plan in plans.items()}, rounds)
    for name, files in (("half", half), ("whole", whole)):
        records, size = int(plans[name].facts["records"]), sum(Path(file).stat().st_size for file in files)
        _print_rates(f"One core, processor time, {records:,} events", {"reader": taken[name]}, records, size)
    times = _times_for_twice(taken["half"], taken["whole"], plans["half"].facts, plans["whole"].facts)
    return Promise("reader, time for twice the data", times, _TWICE, at_most=True)


def _whole_way(whole: list[str], rounds: int) -> Promise:
    half = whole[: len(whole) // 2]
    facts = {"half": decoders.plan_of(half).facts, "whole": decoders.plan_of(whole).facts}
    events = {name: int(fact["records"]) for name, fact in facts.items()}
    found = end_to_end.measure(half, whole, events, rounds)
    for name, files, taken in (("half", half, found.half), ("whole", whole, found.whole)):
        size = sum(Path(file).stat().st_size for file in files)
        _print_rates(f"local[2], wall time, {events[name]:,} events", {"files to Parquet": taken}, events[name], size)
    print(f"  first pass {statistics.median(found.planning):.1f} s, Spark started in {found.start:.1f} s before")
    print(f"  Parquet: {found.parquet_bytes / 1e6:,.0f} MB")
    print("\nPeak memory of each process")
    for role, peak in found.memory.items():
        print(f"  {role:<28} {peak / 2**20:>8,.0f} MiB")
    if not found.memory:
        print("  not measured: this system has no /proc")
    times = _times_for_twice(found.half, found.whole, facts["half"], facts["whole"])
    return Promise("end to end, time for twice the data", times, _TWICE, at_most=True)


def _times_for_twice(
    half: list[float], whole: list[float], half_facts: dict[str, int], whole_facts: dict[str, int]
) -> float:
    """How many times as long exactly twice the data takes; the halves are cut at records, so they are nearly that."""
    return ratio(whole, half) * 2 * half_facts["bytes"] / whole_facts["bytes"]


# --- tables -----------------------------------------------------------------------------------------------------------


def _print_rates(title: str, taken: dict[str, list[float]], records: int, size: int) -> None:
    print(f"\n{title}: {records:,} records, {size / 1e6:,.1f} MB")
    for name, seconds in taken.items():
        median = statistics.median(seconds)
        rates = f"{records / median:>11,.0f} records/s {size / median / 1e6:>7.1f} MB/s"
        print(f"  {name:<28} {median:>8.2f} s {rates}   ({min(seconds):.2f} to {max(seconds):.2f})")


def _print_promises(promises: Iterable[Promise]) -> None:
    print("\nPromises")
    for promise in promises:
        wanted = f"at {'most' if promise.at_most else 'least'} {promise.wanted:g}"
        verdict = "holds" if promise.holds else "BROKEN"
        print(f"  {promise.text:<40} {promise.measured:>7.2f} times, {wanted:<13} {verdict}")


if __name__ == "__main__":
    sys.exit(main())

"""Makes every call of tenure's to the operating system fail, one after the other, and compares with the plain program.

`python tests/failing_calls/injecting.py [--share N/M] [--programs NAME,...] [--write FILE]`, or `make faults`.

Which calls are tenure's, in a recorded process (`shim.c` decides, before each call):

- The call comes from one of tenure's native extensions, or
- it comes from Python, its standard library or pyarrow, and the innermost Python code is tenure's. Frames of the
  standard library and of pyarrow are skipped: they work for their caller. So an import that tenure makes is tenure's,
  and so is the start of its thread. Calls that a framework makes while tenure's code waits for it are the framework's.
- What tenure passes on is the program's: the search for the module of the user's own `import`, the report of an
  exception in a thread, and what has to be imported because the program uses tenure itself. So is a finalizer of the
  standard library's, which the collector may run below any code.
- Memory that Arrow maps for itself is Arrow's: it ends the process. tenure tries before whether there is room.

A site is a kind of call and the lines of tenure's code that led to it. A first run notes all calls, by site. Then one
run for each fault: the first, second, middle and last call of each site fail once, with the errors of its kind in turn;
and, as on a full disk, all calls of that kind fail from the first on. The sites do not depend on timing as
numbers of calls would, so that each fault is certain to be the one that was meant.

Standard output, standard error without tenure's own lines, and exit code have to be those of the plain run.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import dataclasses
import errno
import json
import mmap
import os
import queue
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LIMIT = 40  # seconds, after which a run hangs
_SITES = 8192
_SIZE = 4 * 2 + 8 + 4 * 2 + 4 * 4 + _SITES * 12
_SHORT = -1
# Of these kinds, in turn.
ERRORS = {
    "open": ("EMFILE", "EACCES", "ENOSPC", "EINTR"),
    "read": ("EIO", "EINTR"),
    "write": ("ENOSPC", "EIO", "short", "EINTR"),
    "close": ("EIO",),
    "stat": ("EACCES", "EIO"),
    "mkdir": ("ENOSPC", "EACCES"),
    "rename": ("ENOSPC", "EACCES"),
    "unlink": ("EACCES", "EIO"),
    "opendir": ("EMFILE", "EACCES"),
    "readdir": ("EIO",),
    "mmap": ("ENOMEM",),
    "thread": ("EAGAIN",),
    "pipe": ("EMFILE",),
    "dup": ("EMFILE",),
    "fcntl": ("EMFILE", "EINVAL"),
    "flock": ("ENOLCK", "EINTR"),
    "truncate": ("EIO",),
    "seek": ("EIO",),
    "isatty": ("ENOTTY",),
    "getcwd": ("ENOENT",),
    "dlopen": ("ENOMEM",),
    "fork": ("EAGAIN", "ENOMEM"),
    "exec": ("ENOENT",),
    "sigaction": ("EINVAL",),
    "kill": ("EPERM",),
    "chmod": ("EPERM",),
}
KINDS = tuple(ERRORS)  # in the order of shim.c
# What fails together, and how, from one call on.
TOGETHER = {
    "ENOSPC": ("write", "mkdir", "rename", "truncate"),
    "EMFILE": ("open", "opendir", "pipe", "dup"),
    "EACCES": ("open", "stat", "mkdir", "rename", "unlink", "opendir"),
    "EIO": ("read", "close", "readdir", "seek"),
    "EAGAIN": ("thread", "fork"),
    "ENOMEM": ("mmap", "dlopen"),
}


@dataclasses.dataclass(frozen=True)
class Program:
    """A program, what its server has imported, and what is special about the run."""

    name: str
    frameworks: tuple[str, ...] = ("torch",)
    how: str = ""  # first: with an empty cache of native extensions; after: with what follows `tenure run`


PROGRAMS = {
    program.name: program
    for program in (
        Program("bare", ()),
        Program("torch_loop", ("torch", "torch._dynamo")),
        Program("jax_loop", ("jax",)),
        Program("tensorflow_loop", ("tensorflow",)),
        Program("workers", ("torch", "torch.utils.data")),
        Program("forks"),
        Program("threads"),
        Program("raises"),
        Program("first_run", ("torch", "torch._dynamo"), how="first"),
        Program("after", how="after"),
    )
}
SOURCES = {"after": "bare"}  # a program that is run in another way


@dataclasses.dataclass(frozen=True)
class Fault:
    """One call to fail: the how many-th of a site, with what error, and whether all that follow do, too."""

    kind: str
    site: int
    lines: str
    occurrence: int
    error: str
    on: bool = False

    def __str__(self) -> str:
        which = "from then on" if self.on else "once"
        return f"{self.kind} {self.occurrence} {self.error} {which} at {self.lines}"


@dataclasses.dataclass
class Outcome:
    """How a run went."""

    out: str
    err: str
    code: int | None
    strays: bool
    seconds: float
    calls: int = 0
    failed: int = 0
    notes: str = ""

    def __str__(self) -> str:
        parts = [f"code {self.code}, {self.seconds:.1f} s, stray {self.strays}"]
        parts += [f"{name}: {getattr(self, name)}" for name in ("notes", "out", "err") if getattr(self, name)]
        return "\n".join(parts).replace("\n", "\n  ")

    def compared(self) -> tuple[object, ...]:
        """What has to be the same."""
        return self.out, self.err, self.code, self.strays


class Server:
    """A process that has imported the frameworks, and forks for each run."""

    def __init__(self, frameworks: tuple[str, ...], shim: Path) -> None:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TENURE_")}
        environment |= {
            "LD_PRELOAD": str(shim),
            "FAILING_CALLS_LIBRARY": sysconfig.get_path("stdlib"),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "JAX_PLATFORMS": "cpu",
            "OMP_NUM_THREADS": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        command = [sys.executable, str(HERE / "injection_server.py"), *frameworks]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, request: dict[str, object]) -> dict[str, object]:
        """Run it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the server has ended")
        done: dict[str, object] = json.loads(line)
        return done

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()


class Injector:
    """Runs one program, plain and with faults; thread by thread a server and a folder of its own."""

    def __init__(self, program: Program, work: Path, jobs: int = 2) -> None:
        self.program = program
        self.source = HERE / "programs" / f"{SOURCES.get(program.name, program.name)}.py"
        self.work = work / program.name
        self.work.mkdir(parents=True)
        self._shim = built(work)
        self._servers: queue.Queue[tuple[Server, Path]] = queue.Queue()
        self._pool = concurrent.futures.ThreadPoolExecutor(jobs)
        for number in range(jobs):
            folder = self.work / str(number)
            folder.mkdir()
            self._servers.put((Server(program.frameworks, self._shim), folder))
        self._compilers = fake_compilers(self.work)
        self._kept = work / "kept"  # a cache of native extensions, compiled for all programs
        self._used = self.work / "used"  # those of this program

    def run(self, fault: Fault | None = None, *, plain: bool = False, limit: int = LIMIT) -> Outcome:
        """One run."""
        server, folder = self._servers.get()
        try:
            for name in ("trace", "cache", "here"):
                shutil.rmtree(folder / name, ignore_errors=True)
            if self._used.exists() and self.program.how != "first":
                shutil.copytree(self._used, folder / "cache" / "tenure" / "native")
            environment = {"TENURE_CACHE_DIR": str(folder / "cache"), **self._compilers}
            return self._run(server, folder, fault, plain, environment, limit)
        finally:
            self._servers.put((server, folder))

    def compile(self) -> None:
        """Run it once with the real compilers, and keep what was compiled. The user's own cache stays as it is."""
        native = self._kept / "tenure" / "native"
        users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tenure" / "native"
        if not native.exists():
            native.mkdir(mode=0o700, parents=True)
            for file in users.glob("*.so") if users.is_dir() else ():
                shutil.copy(file, native)
        server, folder = self._servers.get()
        try:
            done = self._run(server, folder, None, False, {"TENURE_CACHE_DIR": str(self._kept)}, limit=900)
        finally:
            self._servers.put((server, folder))
        self._used.mkdir(mode=0o700)
        for path in re.findall(r"\tdlopen\t.*\t(/.*)", done.notes):
            if Path(path).parent == native:
                shutil.copy(path, self._used)

    def _run(
        self,
        server: Server,
        folder: Path,
        fault: Fault | None,
        plain: bool,
        cache: dict[str, str],
        limit: int = LIMIT,
    ) -> Outcome:
        here = folder / "here"
        here.mkdir(exist_ok=True)
        control = folder / "control"
        control.write_bytes(_control(fault, plain))
        Path(f"{control}.notes").unlink(missing_ok=True)
        environment = {"FAILING_CALLS": str(control)}
        if not plain:
            trace = str(folder / "trace")
            how: dict[str, object] = {"pid": "PID", "claim": "1", "quiet": True, "watch": "tenure.explain.uncaught"}
            if self.program.how == "after":
                how["after"] = [sys.executable, "-P", "-m", "tenure.cli.after", "--quiet", trace]
            environment |= {"TENURE_TRACE": trace, "TENURE_RUN": json.dumps(how), **cache}
        done = server.ask(
            {
                "program": str(self.source),
                "folder": str(here),
                "out": str(folder / "out"),
                "err": str(folder / "err"),
                "environment": environment,
                "control": str(control),
                "pth": "" if plain else str(pth()),
                "limit": limit,
            }
        )
        with control.open("rb") as file, mmap.mmap(file.fileno(), _SIZE, access=mmap.ACCESS_READ) as mapped:
            calls, failed = struct.unpack_from("II", mapped, 24)
        notes = Path(f"{control}.notes")
        return Outcome(
            (folder / "out").read_text(errors="replace"),
            _without_ours((folder / "err").read_text(errors="replace")),
            done["code"],  # type: ignore[arg-type]
            bool(done["strays"]),
            float(done["seconds"]),  # type: ignore[arg-type]
            calls,
            failed,
            notes.read_text(errors="replace") if notes.exists() else "",
        )

    def sites(self) -> dict[tuple[str, int, str], int]:
        """The calls of a run in which none fails, by site."""
        found: collections.Counter[tuple[str, int, str]] = collections.Counter()
        for line in self.run().notes.splitlines():
            what, key, _, kind, _, lines, _ = line.split("\t")
            if what == "call":
                found[kind, int(key), lines] += 1
        return dict(found)

    def run_all(self, faults: list[Fault]) -> Iterator[Outcome]:
        """All of these, in this order."""
        return self._pool.map(self._run_surely, faults)

    def _run_surely(self, fault: Fault) -> Outcome:
        outcome = self.run(fault)
        # A machine with other work may take as long: what hangs does so again.
        return self.run(fault, limit=4 * LIMIT) if outcome.code is None else outcome

    def close(self) -> None:
        """End the servers."""
        self._pool.shutdown()
        while not self._servers.empty():
            self._servers.get()[0].close()


def pth() -> Path:
    """tenure's .pth file, as installed or in the source."""
    return ROOT / "src" / "tenure-autostart.pth"


def built(work: Path) -> Path:
    """The shim, compiled."""
    made = work / "shim.so"
    if not made.exists():
        includes = [f"-I{ROOT / 'native'}", f"-I{sysconfig.get_path('include')}"]
        command = ["cc", "-O2", "-fPIC", "-shared", *includes, str(HERE / "shim.c"), "-o"]
        with tempfile.NamedTemporaryFile(dir=work, suffix=".so", delete=False) as scratch:
            subprocess.run([*command, scratch.name], check=True)
        Path(scratch.name).replace(made)
    return made


def fake_compilers(work: Path) -> dict[str, str]:
    """Compilers that give what the real ones gave before: those take a minute."""
    script = work / "compiler"
    script.write_text(
        f"""#!/bin/sh
for word; do
    case $before in -o) to=$word;; esac
    case $word in *.c|*.cpp) name=$(basename "${{word%.*}}");; esac
    before=$word
done
cp {work}/used/tenure_$name-*.so "$to"
"""
    )
    script.chmod(0o755)
    return {"CC": str(script), "CXX": str(script)}


def _control(fault: Fault | None, plain: bool) -> bytes:
    mode = 0 if plain else 1 if fault is None else 2
    error, site, occurrence, on = 0, 0, 0, 0
    if fault is not None:
        error = _SHORT if fault.error == "short" else getattr(errno, fault.error)
        site, occurrence = fault.site, fault.occurrence
        on = sum(1 << KINDS.index(kind) for kind in TOGETHER[fault.error]) if fault.on else 0
    return struct.pack("=IiQIIIIII", mode, error, site, occurrence, on, 0, 0, 0, 0).ljust(_SIZE, b"\0")


# What tenure says; and Arrow's allocator, which is loaded with it, where no thread can be started (docs/limits.md).
_OURS = re.compile(r"^(?:tenure: |<jemalloc>: arena 0 background thread creation failed).*\n", re.MULTILINE)


def _without_ours(text: str) -> str:
    return _OURS.sub("", text)


def planned(sites: dict[tuple[str, int, str], int], seen: set[str], *, thorough: bool = False) -> list[Fault]:
    """The faults of a program; see above. An import fails twice, and not again in a program that imports no more."""
    ordered = sorted(sites.items(), key=lambda one: (one[0][2], one[0][0]))
    imports = collections.defaultdict(list)
    for one in ordered:
        if one[0][2].startswith("import ") and not thorough:
            imports[one[0][2]].append(one[0])
    few: set[tuple[str, int, str]] = set()
    for at, (lines, calls) in enumerate(imports.items()):
        if lines not in seen:
            few |= {calls[at % len(calls)], calls[(at * 3 + 1) % len(calls)]}
    seen |= set(imports)
    faults = []
    for at, (call, count) in enumerate(ordered):
        errors = ERRORS[call[0]]
        places = sorted({1, min(2, count), (count + 1) // 2, count})
        together = [error for error, kinds in TOGETHER.items() if call[0] in kinds]
        if call[2] not in imports:
            faults += [Fault(*call, place, errors[(at + turn) % len(errors)]) for turn, place in enumerate(places)]
            if together:
                faults.append(Fault(*call, 1, together[at % len(together)], on=True))
        elif call in few and together and at % 4 == 0:
            faults.append(Fault(*call, places[at % len(places)], together[at % len(together)], on=True))
        elif call in few:
            faults.append(Fault(*call, places[at % len(places)], errors[at % len(errors)]))
    return faults


@dataclasses.dataclass
class Result:
    """What became of the faults of one program."""

    program: str
    calls: int
    sites: int
    faults: int = 0
    missed: int = 0  # faults whose call did not come again
    hangs: int = 0
    different: list[tuple[Fault, Outcome]] = dataclasses.field(default_factory=list)


def inject(
    program: Program,
    work: Path,
    seen: set[str],
    share: tuple[int, int] = (1, 1),
    *,
    jobs: int = 2,
    thorough: bool = False,
    only: str = "",
) -> Result:
    """Run a program with its faults, or every so many-th of them."""
    injector = Injector(program, work, jobs)
    try:
        plain = injector.run(plain=True)
        assert injector.run(plain=True).compared() == plain.compared(), f"{program.name} is not the same twice: {plain}"
        injector.compile()
        traced = injector.run()
        assert traced.compared() == plain.compared(), f"traced, {program.name} differs: {plain} {traced}"
        sites = injector.sites()
        result = Result(program.name, traced.calls, len(sites))
        faults = [fault for fault in planned(sites, seen, thorough=thorough) if re.search(only, str(fault))]
        faults = faults[share[0] - 1 :: share[1]]
        for fault, outcome in zip(faults, injector.run_all(faults), strict=True):
            result.faults += 1
            result.missed += not outcome.failed
            result.hangs += outcome.code is None
            if outcome.compared() != plain.compared():
                result.different.append((fault, outcome))
                print(f"\n{program.name}: {fault}\n{outcome}", flush=True)
        return result
    finally:
        injector.close()


def table(results: list[Result]) -> str:
    """As Markdown."""
    lines = [
        "| program | calls of tenure's | sites | faults injected | differences | hangs |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for one in results:
        injected = one.faults - one.missed
        lines.append(
            f"| {one.program} | {one.calls:,} | {one.sites:,} | {injected:,} | {len(one.different)} | {one.hangs} |"
        )
    calls, sites, hangs = (sum(getattr(one, name) for one in results) for name in ("calls", "sites", "hangs"))
    injected = sum(one.faults - one.missed for one in results)
    different = sum(len(one.different) for one in results)
    return "\n".join([*lines, f"| all | {calls:,} | {sites:,} | {injected:,} | {different} | {hangs} |"])


def page(results: list[Result], share: str) -> str:
    """The table, and what is in it."""
    part = "All failures that the tool plans" if share == "1/1" else f"Part {share} of the failures that the tool plans"
    about = (__doc__ or "").partition("Which calls")[2]
    return f"""# Failing calls

In each run, one of tenure's calls to the operating system fails, and the program must not show it. {part}; calls and
sites are those of the whole run. Made by `make faults`.

{table(results)}

Which calls{about}"""


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--programs", default=",".join(PROGRAMS))
    parser.add_argument("--share", default="1/1", help="N/M: the N-th of M parts of the faults")
    parser.add_argument("--thorough", action="store_true", help="in imports, too, each site four times: hours")
    parser.add_argument("--only", default="", help="a regular expression for the faults")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", type=Path, help="write the table there")
    options = parser.parse_args()
    first, parts = map(int, options.share.split("/"))
    results = []
    seen: set[str] = set()
    with tempfile.TemporaryDirectory(prefix="tenure-failing-") as work:
        for name in options.programs.split(","):
            result = inject(
                PROGRAMS[name],
                Path(work),
                seen,
                (first, parts),
                jobs=options.jobs,
                thorough=options.thorough,
                only=options.only,
            )
            results.append(result)
            print(f"\n{table([result])}", flush=True)
            if options.write is not None:
                options.write.write_text(page(results, options.share))
    print(f"\n{table(results)}")
    return 1 if any(result.different for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())

"""The tests of memory on another interpreter: one without the lock, or of another version.

``python3 python/threads/suite.py [--wheel FILE] INTERPRETER [ARGUMENT]...`` in a checkout. Builds
the package for that interpreter into ``target/threads`` (needs Rust, and PyPI for pytest and
hypothesis), and runs the tests that need no further package, with the arguments given to pytest,
then the stress of threads with three seeds. An interpreter without the lock keeps it off, although
the package asks for it.

With a wheel, that is installed in place of building, and all tests run, but those that need a
package of which PyPI has no wheel for this interpreter: these are named. ``debian-sid.sh`` next to
the tests does this in a newer Debian.

To build CPython 3.13 without the lock from Debian's source, on Debian 12 or 13, with a line
``deb-src`` for trixie among apt's sources::

    apt-get install build-essential libbz2-dev libffi-dev liblzma-dev libreadline-dev \\
        libsqlite3-dev libssl-dev zlib1g-dev
    apt-get source python3.13
    cd python3.13-*/ && ./configure -q --disable-gil --with-ensurepip=no \\
        --prefix=/opt/python3.13t
    make -s -j2 && make -s install

There all tests pass and the stress is right with each seed. One test is left out: a class stays for
ever once a thread has run, as any does in 3.13 without the lock, and what its methods hold with it.

Exits with 1 if a test failed, an answer was wrong, or it hung.
"""

import argparse
import os
import pathlib
import subprocess
import sys

PYTHON = pathlib.Path(__file__).resolve().parents[1]
TARGET = PYTHON.parent / "target" / "threads"
#: The subjects of the tests that need no further package.
SUBJECTS = (
    "async_misses",
    "bytes",
    "concurrency",
    "freshness",
    "invalidation",
    "keys",
    "laws",
    "life",
    "predicate",
    "records",
    "stress",
    "surface",
    "values",
)
#: What other tests need.
NEEDED = {
    "arrays": ("numpy", "pandas"),
    "codec": ("attrs", "numpy"),
    "models": ("msgspec", "numpy", "pandas", "polars", "pyarrow", "pydantic"),
    "trio": ("trio",),
    "types": ("basedpyright", "mypy"),
}
#: One that is pure Python: later ones do not build for 3.13 without the lock.
OLDER = "hypothesis==6.140.2"
SEEDS = 3
SECONDS = 20
TAG = "import sys, sysconfig; print(sysconfig.get_config_var('SOABI'))"


def pinned(*names: str) -> list[str]:
    """The versions that the other tests run with, of these packages or of all."""
    lines = (PYTHON / "requirements.txt").read_text().splitlines()
    words = [line.split()[0] for line in lines]
    return [word for word in words if not names or word.partition("==")[0] in names]


def all_tests(pip: list[str]) -> list[str]:
    """The files of the tests that can run with what has a wheel, which is installed."""
    wheels = [*pip, "--only-binary", ":all:"]
    wanted = pinned()
    if not subprocess.run([*wheels, *wanted]).returncode:
        wanted = []
    # Else each by itself: one that has none shall not take all others.
    absent = [one for one in wanted if subprocess.run([*wheels, one]).returncode]
    names = {one.partition("==")[0] for one in absent}
    unfit = {subject for subject, needed in NEEDED.items() if names & set(needed)}
    if absent:
        print("no wheel here:", *absent, "- left out:", *sorted(unfit), flush=True)
    files = sorted((PYTHON / "tests").glob("test_*.py"))
    return [str(file) for file in files if file.stem.removeprefix("test_") not in unfit]


def environment(interpreter: str, folder: pathlib.Path) -> str:
    """The interpreter of an environment in the folder."""
    python = folder / "venv" / "bin" / "python"
    if not python.exists():
        subprocess.run([interpreter, "-m", "venv", folder / "venv"], check=True)
        for made in (folder / "venv" / "lib").glob("python*t"):
            # Where Debian's patched interpreter looks for packages.
            made.with_name(made.name.removesuffix("t")).symlink_to(made.name)
    return str(python)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheel", help="a built package, instead of building this checkout")
    parser.add_argument("interpreter", help="a program, or its path")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="what pytest is given")
    given = parser.parse_args()
    if given.wheel and not pathlib.Path(given.wheel).is_file():
        parser.error(f"--wheel: there is no file {given.wheel}")
    asked = [given.interpreter, "-c", TAG]
    tag = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip()
    folder = TARGET / tag
    python = environment(given.interpreter, folder)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if given.wheel:
        tests = all_tests(pip)
    else:
        hypothesis = [OLDER] if "-313t-" in tag else pinned("hypothesis")
        subprocess.run([*pip, *pinned("pytest"), *hypothesis], check=True)
        tests = [str(PYTHON / "tests" / f"test_{subject}.py") for subject in SUBJECTS]
    built = os.environ | {"CARGO_TARGET_DIR": str(folder / "cargo")}
    install = [*pip, "--force-reinstall", "--no-deps", given.wheel or str(PYTHON)]
    subprocess.run(install, env=built, check=True)
    variables = os.environ | {"PYTHON_GIL": "0"} if "t-" in tag else dict(os.environ)
    commands = [[python, "-m", "pytest", "-q", *tests, *given.arguments]]
    stress = str(PYTHON / "threads" / "stress.py")
    commands += [[python, stress, str(seed), str(SECONDS)] for seed in range(SEEDS)]
    # Not in the folder of the sources: Python would import the package from there.
    ended = [subprocess.run(one, cwd=folder, env=variables).returncode for one in commands]
    right = ended[1:].count(0)
    print(f"pytest ended with {ended[0]}; {right} of {SEEDS} runs of the stress are right")
    return 0 if not any(ended) else 1


if __name__ == "__main__":
    sys.exit(main())

"""The stress under ThreadSanitizer, on an interpreter without the lock.

``python3 python/threads/run.py SOURCE [SECONDS] [SEEDS]`` in a checkout, on Debian. ``SOURCE`` is
the folder of CPython 3.13's source, as ``apt-get source python3.13`` unpacks it. It and the package
are built into ``target/threads``, which takes some ten minutes. The standard library of Rust is
built as well, since code without the sanitizer's calls would look like races::

    apt-get install rustc-web cargo-web rust-web-src libstd-rust-web-dev \\
        clang-16 libclang-rt-16-dev llvm-16

Exits with 1 if an answer was wrong, it hung, or the sanitizer found a race.
"""

import os
import pathlib
import shutil
import subprocess
import sys

PYTHON = pathlib.Path(__file__).resolve().parents[1]
TARGET = PYTHON.parent / "target" / "threads"
TRIPLE = "x86_64-unknown-linux-gnu"
#: What the interpreter itself is known for.
SUPPRESSIONS = "Tools/tsan/suppressions_free_threading.txt"
#: glibc frees what a thread kept for itself once the thread has ended, in `pthread_detach`. It
#: knows the end from the kernel, which the sanitizer does not see; destructors of that memory look
#: like a race with its end.
SUPPRESSED = "race:_dl_deallocate_tls\n"


def run(*command: object, folder: pathlib.Path, **variables: str) -> None:
    print("+", *command, flush=True)
    environment = os.environ | variables
    subprocess.run([str(part) for part in command], cwd=folder, env=environment, check=True)


def interpreter(source: pathlib.Path) -> pathlib.Path:
    folder = TARGET / "interpreter"
    made = folder / "python"
    if not made.exists():
        folder.mkdir(parents=True, exist_ok=True)
        options = ("--disable-gil", "--with-thread-sanitizer")
        run(source.resolve() / "configure", "-q", *options, folder=folder, CC="clang-16")
        # Debian's Makefile leaves out what `configure` has found for the linker.
        linked = "LDFLAGS=-fsanitize=thread"
        run("make", "-s", f"-j{os.cpu_count()}", linked, folder=folder)
    return made


def package(python: pathlib.Path) -> pathlib.Path:
    """A folder with the package for this interpreter."""
    made = TARGET / "cargo" / TRIPLE / "debug" / "lib_native.so"
    flags = "-Zsanitizer=thread -Zexternal-clangrt -Cforce-frame-pointers=yes"
    run(
        "/usr/bin/cargo", "build", "--lib", "--target", TRIPLE,
        "-Zbuild-std=std,panic_abort,panic_unwind", "--config", "profile.dev.opt-level=1",
        folder=PYTHON, RUSTC="/usr/bin/rustc", RUSTC_BOOTSTRAP="1", RUSTFLAGS=flags,
        CARGO_TARGET_DIR=str(TARGET / "cargo"), PYO3_PYTHON=str(python),
        CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_LINKER="clang-16",
    )  # fmt: skip
    folder = TARGET / "package"
    shutil.rmtree(folder, ignore_errors=True)
    unbuilt = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(PYTHON / "tidemark_cache", folder / "tidemark_cache", ignore=unbuilt)
    suffix = ".cpython-313t-x86_64-linux-gnu.so"
    shutil.copy(made, folder / "tidemark_cache" / f"_native{suffix}")
    return folder


def main() -> int:
    if len(sys.argv) < 2:
        print(__doc__)
        return 2
    source = pathlib.Path(sys.argv[1])
    if not (source / "configure").is_file():
        print(f"{source} holds no source of CPython: `configure` is missing", file=sys.stderr)
        return 2
    seconds = sys.argv[2] if len(sys.argv) > 2 else "20"
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    python = interpreter(source)
    suppressions = TARGET / "suppressions.txt"
    suppressions.write_text((source / SUPPRESSIONS).read_text() + SUPPRESSED)
    environment = os.environ | {
        "PYTHON_GIL": "0",
        "PYTHONPATH": str(package(python)),
        "TSAN_OPTIONS": f"suppressions={suppressions} "
        "external_symbolizer_path=/usr/bin/llvm-symbolizer-16 history_size=4",
    }
    stress = [str(python), str(PYTHON / "threads" / "stress.py")]
    # The sanitizer exits with 66 where it has found something.
    ended = [
        subprocess.run([*stress, str(seed), seconds], env=environment).returncode
        for seed in range(seeds)
    ]
    print(f"{ended.count(0)} of {seeds} runs are right and without a race")
    return 0 if not any(ended) else 1


if __name__ == "__main__":
    sys.exit(main())

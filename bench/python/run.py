"""The cache for Python beside its peers, in one command: `python bench/python/run.py [--quick]`.

Makes an environment for the interpreter it is started with, installs the package of this checkout
(which needs Rust) and, from PyPI, the peers of `peers.txt`; measures; and writes Markdown to the
terminal and, with `--out FOLDER`, `SUMMARY.md` and `run.json`.

The rule: a figure is a ratio to a floor or a peer in the same run, the median of five paired runs.
The pair "the same twice" measures one thing as two; what it differs from 1 is what the machine
adds. An interpreter built without profile-guided optimisation proves nothing.
"""

import argparse
import pathlib
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def environment(folder: pathlib.Path, wheel: str | None, has_peers: bool) -> pathlib.Path:
    """The interpreter of an environment with everything installed."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, "--force-reinstall", wheel or str(ROOT / "python")], check=True)
    lines = (HERE / "peers.txt").read_text().split() if has_peers else []
    for line in lines:
        # Each by itself: one that has no wheel for this interpreter shall not take all others.
        if subprocess.run([*pip, "--prefer-binary", line]).returncode:
            print(f"{line} cannot be installed here; its rows are missing", file=sys.stderr)
    return python


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few repeats: shows that it runs")
    parser.add_argument("--no-peers", action="store_true", help="install nothing from PyPI")
    parser.add_argument("--wheel", help="a built package, instead of building this checkout")
    parser.add_argument("--out", type=pathlib.Path, help="folder for SUMMARY.md and run.json")
    parser.add_argument("--against", type=pathlib.Path, help="folder of an accepted run: exit with "
                        "1 if a ratio is worse than there by 5 %% and by more than the noise")
    parser.add_argument("--only", metavar="TEXT", help="rows with this in their name")
    parser.add_argument("--environment", type=pathlib.Path, help="folder of the environment")
    arguments = parser.parse_args()
    if arguments.against and not (arguments.against / "run.json").is_file():
        parser.error(f"--against: {arguments.against} holds no run.json; name a folder of "
                     "bench/python/runs")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = arguments.environment or ROOT / "target" / f"bench-python-{version}"
    python = environment(folder, arguments.wheel, not arguments.no_peers)
    command = [str(python), str(HERE / "rows.py")]
    if arguments.quick:
        command.append("--quick")
    for name in ("against", "only"):
        if (value := getattr(arguments, name)) is not None:
            command += [f"--{name}", str(value)]
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        command += ["--out", str(arguments.out)]
    raise SystemExit(subprocess.run(command).returncode)


if __name__ == "__main__":
    main()

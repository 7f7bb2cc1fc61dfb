"""Compares two commits by the runtime as a user embeds it: builds the program in `embedder` against both, runs them in turns,
and prints the ratio of each pair.

    python3 tests/benches/embedder.py BASE [COMMIT] [--rounds 3] [--work W1,W2,W3-1000] [--variants once,safe]

COMMIT is the checkout as it stands unless given. A ratio above 1 is faster than BASE, or takes less processor time. The floor
appends the bytes of each step to a plain file and syncs them, in the same turns. Builds are kept in `target/embedder`.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILDS = os.path.join(ROOT, "target", "embedder")


def git(*words):
    return subprocess.run(["git", "-C", ROOT, *words], check=True, capture_output=True, text=True).stdout.strip()


def checkout(commit):
    """The folder of a commit, and its name."""
    if commit is None:
        return ROOT, git("describe", "--always", "--dirty")
    name = git("rev-parse", "--short", f"{commit}^{{commit}}")
    folder = os.path.join(BUILDS, name, "checkout")
    if not os.path.isdir(folder):
        git("worktree", "prune")
        git("worktree", "add", "--detach", folder, name)
    return folder, name


def build(commit):
    """Builds the program against a commit. Returns it and the commit's name."""
    folder, name = checkout(commit)
    program = os.path.join(BUILDS, name, "program")
    shutil.copytree(os.path.join(HERE, "embedder"), program, dirs_exist_ok=True)
    manifest = os.path.join(program, "Cargo.toml")
    with open(manifest) as file:
        text = file.read()
    with open(manifest, "w") as file:
        file.write(text.replace("../../../actors", os.path.join(folder, "actors")))
    # The versions of the dependencies are those of the commit.
    shutil.copy(os.path.join(folder, "Cargo.lock"), os.path.join(program, "Cargo.lock"))
    print(f"building against {name}", file=sys.stderr)
    subprocess.run(["cargo", "build", "--release", "--quiet"], cwd=program, check=True)
    return os.path.join(program, "target", "release", "embedder"), name


def run(program, variant, work):
    scratch = os.path.join(BUILDS, "scratch")
    os.makedirs(scratch, exist_ok=True)
    ran = subprocess.run([program, scratch, variant, work], check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)


def turn(programs, variant, work, is_reversed):
    order = reversed(programs) if is_reversed else programs
    return {program: run(program, variant, work) for program in order}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", default="W1,W2,W3-1000")
    parser.add_argument("--variants", default="once,safe")
    said = parser.parse_args()
    (base, base_name), (program, name) = build(said.base), build(said.commit)
    print(f"| | {base_name} runs/s | {name} runs/s | ratios | processor per run | floor, runs/s |\n|---|---|---|---|---|---|")
    for work in said.work.split(","):
        for variant in said.variants.split(","):
            turns, floors = [], []
            for number in range(said.rounds):
                turns.append(turn([base, program], variant, work, number % 2 == 1))
                if not work.startswith("W3"):
                    floors.append(run(program, "floor", work)["runs_per_s"])
            speeds = [[f"{one[which]['runs_per_s']:.0f}" for one in turns] for which in (base, program)]
            ratios = [one[program]["runs_per_s"] / one[base]["runs_per_s"] for one in turns]
            cost = [one[base]["processor_us_per_run"] / one[program]["processor_us_per_run"] for one in turns]
            written = ", ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"| {work} {variant} | {', '.join(speeds[0])} | {', '.join(speeds[1])} "
                  f"| {written}: **{statistics.median(ratios):.2f}** | {statistics.median(cost):.2f} "
                  f"| {', '.join(f'{floor:.0f}' for floor in floors) or '–'} |", flush=True)


if __name__ == "__main__":
    main()

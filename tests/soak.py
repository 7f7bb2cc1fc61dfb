"""Runs `rethread serve` under steady load and checks that the second half of the time is flat in memory, files and disk.

    python3 tests/soak.py BINARY [--minutes 60] [--starts-per-second 20]

Steady starts of threads, historical reads, followers that stay and followers that reconnect, deletes, and now and then a
compaction. Prints one line for each sample, and a summary in JSON. Exits with 1 when the second half is not flat, or when
a request failed. Needs Linux (`/proc`) and nothing but Python.
"""

import argparse
import collections
import datetime
import http.client
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import threading
import time

WORKFLOW = """
version: "1"
name: soak
nodes:
  - id: look
    llm:
      provider: mock
      model: scripted
      user_prompt: "What is here, {{ input }}?"
      tool_mode: auto
      extra:
        script:
          answers:
            - {text: I look., tool_calls: [{name: list_folder, arguments: {path: .}}]}
            - text: A folder.
    checkpoint: looked
  - {id: greet, llm: {provider: mock, model: scripted, user_prompt: "Greet {{ input }}.", extra: {script: {answers: [{text: "Hello!"}]}}}}
"""
SAMPLE_S = 10
GC_S = 5
KEPT_S = 30
COMPACT_S = 300
FOLLOWERS = 8
# The second half may end so much above where it began, as part of the mean.
GROWTH_MAX = 0.10


class Load:
    def __init__(self, port):
        self.port = port
        self.over = threading.Event()
        self.counts = collections.Counter()
        self.problems = []
        self.starts = []
        self.recent = collections.deque(maxlen=500)
        self.lock = threading.Lock()

    def request(self, connection, method, path, body=None):
        headers = {"Content-Type": "application/json"} if body is not None else {}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        kind = path.split("?")[0]
        kind = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", kind)
        with self.lock:
            self.counts[f"{method} {kind}"] += 1
            # A thread that is read may have been deleted meanwhile.
            if answer.status >= 400 and not (answer.status == 404 and "ID" in kind):
                self.problems.append(f"{answer.status} {method} {path}: {text[:300]!r}")
        return answer.status, text

    def forever(self, work, pause):
        connection = None
        while not self.over.is_set():
            begun = time.monotonic()
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
                work(connection)
                if pause > 2:
                    # The server closes a connection on which nothing comes for some seconds.
                    connection.close()
                    connection = None
            except (OSError, http.client.HTTPException) as error:
                connection = None
                if not self.over.is_set():
                    with self.lock:
                        self.problems.append(f"{type(error).__name__}: {error}")
            self.over.wait(max(0.0, pause - (time.monotonic() - begun)))

    def start(self, connection):
        begun = time.monotonic()
        status, text = self.request(connection, "POST", "/v1/threads", {"definition": WORKFLOW, "input": "Ada"})
        if status == 201:
            with self.lock:
                self.starts.append(time.monotonic() - begun)
                self.recent.append(json.loads(text)["thread_id"])

    def look(self, connection):
        with self.lock:
            thread = random.choice(self.recent) if self.recent else None
        self.request(connection, "GET", "/v1/threads?limit=50")
        if thread:
            for part in ["", "/state", "/state?checkpoint=looked", "/tree", "/events?limit=50", "/explain"]:
                self.request(connection, "GET", f"/v1/threads/{thread}{part}")
        self.request(connection, "GET", "/metrics")

    def gc(self, connection):
        before = datetime.datetime.now(datetime.timezone.utc) - datetime.timedelta(seconds=KEPT_S)
        body = {"ended_before": before.isoformat(timespec="microseconds").replace("+00:00", "Z"), "limit": 5000}
        _, text = self.request(connection, "POST", "/v1/gc", body)
        with self.lock:
            self.counts["threads deleted"] += len(json.loads(text).get("deleted", []))

    def compact(self, connection):
        if self.over.wait(COMPACT_S / 2):
            return
        self.request(connection, "POST", "/v1/log/compact")

    def follow(self, stays):
        while not self.over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
            until = time.monotonic() + (1e9 if stays else random.uniform(1, 15))
            try:
                connection.request("GET", "/v1/events", headers={"Accept": "text/event-stream"})
                answer = connection.getresponse()
                while not self.over.is_set() and time.monotonic() < until:
                    line = answer.readline()
                    if not line:
                        break
                    if line.startswith(b"id:"):
                        with self.lock:
                            self.counts["events followed"] += 1
            except (OSError, http.client.HTTPException) as error:
                if not self.over.is_set():
                    with self.lock:
                        self.problems.append(f"follower: {type(error).__name__}: {error}")
            finally:
                connection.close()


def resident_mib(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+)", status.read()).group(1)) / 1024


def disk_mib(folder):
    blocks = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                blocks += os.lstat(os.path.join(place, name)).st_blocks
            except FileNotFoundError:
                pass
    return blocks * 512 / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("binary")
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--starts-per-second", type=float, default=20)
    args = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="rethread-soak-")
    binary = os.path.abspath(args.binary)
    server = subprocess.Popen([binary, "serve", "--listen", "127.0.0.1:0"], cwd=folder, stderr=subprocess.PIPE, text=True)
    line = server.stderr.readline()
    found = re.search(r"http://127\.0\.0\.1:(\d+)", line)
    if not found:
        sys.exit(f"the server does not start: {line}{server.stderr.read()}")
    said = []
    threading.Thread(target=lambda: said.extend(server.stderr), daemon=True).start()
    load = Load(int(found.group(1)))
    n_starters = 4
    work = [(load.start, n_starters / args.starts_per_second)] * n_starters
    work += [(load.look, 0.5)] * 2 + [(load.gc, GC_S), (load.compact, COMPACT_S / 2)]
    threads = [threading.Thread(target=load.forever, args=each, daemon=True) for each in work]
    threads += [threading.Thread(target=load.follow, args=(n % 2 == 0,), daemon=True) for n in range(FOLLOWERS)]
    for thread in threads:
        thread.start()
    samples, begun = [], time.monotonic()
    while time.monotonic() - begun < args.minutes * 60 and server.poll() is None:
        time.sleep(SAMPLE_S)
        with load.lock:
            lately, load.starts = load.starts, []
        sample = {
            "s": round(time.monotonic() - begun),
            "memory_mib": round(resident_mib(server.pid), 1),
            "files": len(os.listdir(f"/proc/{server.pid}/fd")),
            "threads": len(os.listdir(f"/proc/{server.pid}/task")),
            "disk_mib": round(disk_mib(os.path.join(folder, ".rethread")), 1),
            "starts": len(lately),
            "start_p50_ms": round(statistics.median(lately) * 1000, 1) if lately else None,
            "start_p99_ms": round(sorted(lately)[int(len(lately) * 0.99)] * 1000, 1) if lately else None,
        }
        samples.append(sample)
        print(json.dumps(sample), flush=True)
    ended_early = server.poll() is not None
    load.over.set()
    server.terminate()
    code = server.wait(60)
    verify = subprocess.run([binary, "verify"], cwd=folder, capture_output=True, text=True)
    half = samples[len(samples) // 2:]
    quarter = max(1, len(half) // 2)
    grown, summary = [], {}
    for name in ["memory_mib", "files", "threads", "disk_mib"]:
        values = [sample[name] for sample in half]
        first, last = statistics.mean(values[:quarter]), statistics.mean(values[quarter:] or values)
        most = max(sample[name] for sample in samples)
        summary[name] = {"third_quarter": round(first, 1), "last_quarter": round(last, 1), "max": most}
        # Some files and some memory more or less are noise.
        slack = {"memory_mib": 4, "files": 8, "threads": 4, "disk_mib": 4}[name]
        if last - first > max(GROWTH_MAX * first, slack):
            grown.append(name)
    summary |= {
        "minutes": args.minutes,
        "requests": sum(n for name, n in load.counts.items() if name.startswith(("GET", "POST"))),
        "counts": dict(sorted(load.counts.items())),
        "start_p50_ms": statistics.median(s["start_p50_ms"] for s in half if s["start_p50_ms"]),
        "start_p99_ms_worst": max(s["start_p99_ms"] for s in half if s["start_p99_ms"]),
        "exit_code": code,
        "verify": verify.stdout.strip(),
        "not_flat": grown,
        "problems": load.problems[:20],
    }
    print(json.dumps(summary, indent=2))
    if ended_early or grown or load.problems or code != 0 or verify.returncode != 0:
        print("".join(said[-20:]), file=sys.stderr)
        sys.exit(f"not as it should be; the log is in {folder}")
    subprocess.run(["rm", "-rf", folder], check=True)


main()

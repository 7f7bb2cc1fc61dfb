"""Runs a command on a terminal of its own, as a person would: waits for what it says, types, and passes on what was
said and how it ended.

terminal.py STEPS COMMAND..., where STEPS is JSON: [[what is waited for, what is typed], ...]
"""

import json
import os
import pty
import select
import sys
import time

PATIENCE_S = 60


def main():
    steps, command = json.loads(sys.argv[1]), sys.argv[2:]
    child, terminal = pty.fork()
    if child == 0:
        os.execv(command[0], command)
    said, seen, deadline = b"", 0, time.monotonic() + PATIENCE_S
    while True:
        while steps and steps[0][0].encode() in said[seen:]:
            waited, typed = steps.pop(0)
            seen = said.index(waited.encode(), seen) + len(waited.encode())
            os.write(terminal, typed.encode())
        ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            os.kill(child, 9)
            sys.exit(f"nothing more was said, and {steps} is still to come, after:\n{said.decode()}")
        try:
            more = os.read(terminal, 4096)
        except OSError:
            # The terminal has no other end any more.
            more = b""
        if not more:
            break
        said += more
    _, status = os.waitpid(child, 0)
    sys.stdout.buffer.write(said)
    sys.exit(os.waitstatus_to_exitcode(status))


main()

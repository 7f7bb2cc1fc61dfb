# What a command does that a model runs to approve another call of the same thread.
# Arguments: the program, and the address of a server or `socket`. Prints what came of each way that it tries.
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROGRAM, TARGET = sys.argv[1:]


def request(path, token=None, body=None):
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = "Bearer " + token
    data = None if body is None else json.dumps(body).encode()
    try:
        with urllib.request.urlopen(urllib.request.Request(f"http://{TARGET}{path}", data, headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, {}


def run(*words):
    return subprocess.run([PROGRAM, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True)


def until_asked(ask):
    for _ in range(600):
        status, questions = ask()
        if status or questions:
            return status, questions
        time.sleep(0.1)
    sys.exit("no question is open")


def over_http(token):
    def ask():
        status, answer = request("/v1/interactions", token)
        return (0, answer["interactions"]) if status == 200 else (status, [])

    status, questions = until_asked(ask)
    if not status:
        status, _ = request(f"/v1/interactions/{questions[0]['id']}/respond", token, {"answer": True})
    return status


def over_socket():
    status, questions = until_asked(lambda: (0, json.loads(run("inbox", "--json").stdout or "[]")))
    ran = run("respond", questions[0]["id"], "--value", "true")
    return f"{ran.returncode} {ran.stderr}"


if TARGET == "socket":
    print("socket:", over_socket())
else:
    print("no token:", over_http(None))
    print("own token:", over_http(run("token", "create", "--scope", "admin").stdout.strip()))

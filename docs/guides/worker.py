"""A worker in Python: runs the tool `count_words` for servers and commands of rethread, over NATS.

    pip install nats-py
    python3 worker.py nats://127.0.0.1:4222

docs/guides/workers.md describes the messages.
"""

import asyncio
import json
import os
import signal
import sys

import nats
from nats.errors import Error as NatsError

POOL = "default"
CALLS_MAX = 4  # how many calls run at once
NAME = f"worker.py, pid {os.getpid()}"


async def count_words(arguments, report):
    """The tool. It may report how far it is. If nobody waits for it, it is cancelled at an `await`."""
    words = arguments["text"].split()
    for n in range(arguments.get("seconds", 0)):
        await report(f"{n} s")
        await asyncio.sleep(1)
    return {"words": len(words)}


TOOLS = {"count_words": count_words}


async def ask(client, reply, message, seconds):
    """Sends a message to the caller, and returns its answer; None if it does not answer."""
    try:
        answer = await client.request(reply, json.dumps(message).encode(), timeout=seconds)
        return json.loads(answer.data)
    except NatsError:
        return None


async def run(client, reply, call):
    progress = []

    async def report(text):
        progress.append(text)

    lost_after, heartbeat = call["lost_after_ms"] / 1000, call["heartbeat_ms"] / 1000
    work = asyncio.create_task(TOOLS[call["tool"]](call["arguments"], report))
    clock = asyncio.get_running_loop().time
    heard_at = clock()
    while True:
        done, _ = await asyncio.wait({work}, timeout=heartbeat)
        if done:
            break
        message = {"type": "heartbeat"}
        if progress:
            message["progress"] = progress.pop()
            progress.clear()
        answer = await ask(client, reply, message, max(heartbeat, 1))
        if answer is not None and answer["type"] == "continue":
            heard_at = clock()
        elif answer is not None or clock() - heard_at > lost_after:
            # Nobody waits for the result.
            work.cancel()
    try:
        result = {"type": "completed", "value": work.result()}
    except asyncio.CancelledError:
        result = {"type": "failed", "kind": "cancelled", "message": "the call was cancelled"}
    except Exception as error:
        result = {"type": "failed", "message": f"{type(error).__name__}: {error}"}
    # Until the caller has it.
    deadline = clock() + lost_after
    while await ask(client, reply, result, lost_after) is None and clock() < deadline:
        await asyncio.sleep(0.5)


async def main(url):
    client = await nats.connect(url, name=NAME, max_reconnect_attempts=-1)
    places = asyncio.Semaphore(CALLS_MAX)
    running = set()

    async def take(message):
        call = json.loads(message.data)
        if call.get("protocol") != 1 or places.locked():
            return await message.respond(b'{"type": "busy"}')
        async with places:
            answer = await ask(client, message.reply, {"type": "offer", "worker": NAME}, call["lost_after_ms"] / 1000)
            # Only now may the tool run.
            if answer is not None and answer["type"] == "begin":
                await run(client, message.reply, call)

    async def spawn(message):
        task = asyncio.create_task(take(message))
        running.add(task)
        task.add_done_callback(running.discard)

    subscriptions = [
        await client.subscribe(f"rethread.tool.{POOL}.{tool}", queue="workers", cb=spawn) for tool in TOOLS
    ]
    await client.flush()
    print(f"{NAME} runs {', '.join(TOOLS)} at {url}", file=sys.stderr, flush=True)

    stop = asyncio.Event()
    for name in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(name, stop.set)
    await stop.wait()
    for subscription in subscriptions:
        await subscription.unsubscribe()
    # What runs ends.
    await asyncio.gather(*running)
    await client.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1] if len(sys.argv) > 1 else "nats://127.0.0.1:4222"))

"""A consumer in Python: prints each event, and goes on after the last one when it is started again.

    pip install nats-py
    python3 consumer.py nats://127.0.0.1:4222 agents_events audit

docs/guides/following.md describes the stream. With another name in place of `audit`, it is another consumer, and begins with
the first event.
"""

import asyncio
import json
import sys

import nats
from nats.errors import Error as NatsError
from nats.js.api import ConsumerConfig


async def consume(jetstream, stream, name, subject):
    # The servers remember which events a consumer of this name has acknowledged. One at a time keeps the order.
    config = ConsumerConfig(ack_wait=5, max_ack_pending=1)
    events = await jetstream.pull_subscribe(f"{stream}.{subject}", durable=name, stream=stream, config=config)
    while True:
        try:
            [message] = await events.fetch(1, timeout=30)
        except nats.errors.TimeoutError:
            continue
        event = json.loads(message.data)
        # An event that does not fit a message names its path at a server in place of its data.
        print(event["position"], event["type"], event["id"], event.get("dataref", ""), flush=True)
        # Not before it was dealt with: whoever is killed here gets it again.
        await message.ack_sync()


async def main(url, stream, name, subject=">"):
    connection = await nats.connect(url, name=f"consumer.py, {name}", max_reconnect_attempts=-1)
    while True:
        try:
            await consume(connection.jetstream(), stream, name, subject)
        except NatsError as error:
            # The stream is not there yet, or its servers choose a leader.
            print(f"trying again: {error}", file=sys.stderr)
            await asyncio.sleep(1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))

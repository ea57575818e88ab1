"""Publishes events to a topic from Python: python publish.py redis://127.0.0.1:6379 shop 3"""

import json
import sys

import redis


def publish(server, topic, event, payload, group=None):
    """Adds one event. Its id is made of that of the entry, which is returned."""
    fields = {"type": event, "payload": json.dumps(payload)}
    if group is not None:
        fields["key"] = group
    return server.xadd(f"queue:{{{topic}}}:log", fields)


def main():
    url, topic, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    server = redis.Redis.from_url(url)
    for order in range(1, number + 1):
        entry = publish(server, topic, "order.paid", {"order": 100 + order, "from": "Python, größer als ASCII"}, group="python")
        print(entry.decode())


if __name__ == "__main__":
    main()

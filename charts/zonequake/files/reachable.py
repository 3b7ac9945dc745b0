"""Asks every part of a release whether it works; ends with 1 if one doesn't within a minute."""

import json
import os
import sys
import time
import urllib.request

LIMIT_S = 60.0

store = os.environ["ZQ_TEST_STORE"]
nodes = os.environ["ZQ_TEST_NODES"].split()
checks = {f"http://{node}.{store}:8080/admin/v1/node": node for node in nodes}
checks |= {f"http://{node}.{store}:8080/readyz": "" for node in nodes}
checks |= dict.fromkeys(os.environ["ZQ_TEST_URLS"].split(), "")


def problem(url: str, name: str) -> str | None:
    """Why the answer isn't as expected; None if it is."""
    try:
        with urllib.request.urlopen(url, timeout=3) as response:
            text = response.read()
        if name and json.loads(text)["name"] != name:
            return f"another node answers: {text[:200]!r}"
    except (OSError, ValueError, KeyError) as error:
        return str(error)
    return None


give_up_s = time.monotonic() + LIMIT_S
while checks:
    for url, name in list(checks.items()):
        why = problem(url, name)
        if why is None:
            print(f"ok    {url}", flush=True)
            del checks[url]
        elif time.monotonic() > give_up_s:
            print(f"FAIL  {url}: {why}", flush=True)
            sys.exit(1)
    time.sleep(1)

"""Takes long to load, as code with large packages does, and tells what it is."""

import json
import os
import secrets
import time

time.sleep(0.3)
if "FAIL" in os.environ:
    raise RuntimeError("the code cannot be loaded")

TOKEN = secrets.token_hex()
runs = 0


def main(context):
    global runs
    if context.req.path == "/exit":
        os._exit(3)
    runs += 1
    found = {"runs": runs, "token": TOKEN, "mark": os.environ.get("MARK")}
    os.environ["MARK"] = "left by another run"
    return context.res.text(json.dumps(found))

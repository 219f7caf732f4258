"""Calls the handler of a function once, without a server, and prints its response.

What `tidemark bench load` compares a cold start with: python3 bare.py HANDLER.py, and on standard
input the request that executes the function.
"""

import importlib.util
import json
import os
import site
import sys
from types import SimpleNamespace


def execute(handler, call):
    req = SimpleNamespace(
        method=call["method"],
        path=call["path"],
        headers={**call["headers"], "x-appwrite-key": os.environ.get("KEY", "")},
        body_text=call["body"],
        body_json=json.loads(call["body"]),
    )
    res = SimpleNamespace(json=lambda value: json.dumps(value, separators=(",", ":")))
    return handler(SimpleNamespace(req=req, res=res, log=print, error=print))


# As the adapter finds packages.
site.addsitedir(os.path.join(os.path.dirname(sys.argv[1]), ".packages"))
spec = importlib.util.spec_from_file_location("handler", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
print(execute(module.main, json.load(sys.stdin)))

#!/usr/bin/env python3
"""Stands in for oha: sends each request by one connection, and lists its answers."""

import http.client
import random
import sys
import time
from urllib.parse import urlsplit

if sys.argv[1] == "--version":
    print("oha 0.0.1")
    sys.exit()
words = iter(sys.argv[1:-1])
headers, body, lasting, out = {}, None, 0.0, ""
for word in words:
    if word == "-H":
        name, _, value = next(words).partition(": ")
        headers[name] = value
    elif word == "-Z":
        with open(next(words)) as bodies:
            body = bodies.readline().rstrip()
    elif word == "-T":
        headers["Content-Type"] = next(words)
    elif word == "-z":
        lasting = float(next(words).removesuffix("ms")) / 1e3
    elif word == "-o":
        out = next(words)
url = urlsplit(sys.argv[-1].replace("[0-9]{4}", "0007"))
connection = http.client.HTTPConnection(url.hostname, url.port)
target = url.path + ("?" + url.query if url.query else "")
lines = ["request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status"]
begun = time.monotonic()
while (start := time.monotonic()) < begun + lasting or len(lines) == 1:
    connection.request("GET" if body is None else "POST", target, body, headers)
    answer = connection.getresponse()
    answer.read()
    took = time.monotonic() - start
    lines.append(f"{start - begun:.6f},0,0,0,{took:.6f},10,{answer.status}")
with open(out, "w") as listed:
    listed.write("\n".join(lines) + "\n")

"""Answers with what it sees, by the path of the request."""

import asyncio
import os
import sys
import time


def echo(context):
    req = context.req
    body = "bytes" if isinstance(req.body, bytes) else req.body
    return context.res.json(
        {
            "method": req.method, "url": req.url, "scheme": req.scheme, "host": req.host,
            "port": req.port, "path": req.path, "queryString": req.query_string,
            "query": req.query, "headers": req.headers, "body": req.body_text,
            "raw": req.body_raw, "bytes": list(req.body_binary), "view": body,
        }
    )


def log(context):
    context.log("one")
    context.log({"a": [1]})
    try:
        raise ValueError("seen")
    except ValueError as error:
        context.error(error)
    print("native", 1)
    print("native error", file=sys.stderr)
    return context.res.text("")


def wait(context):
    time.sleep(int(context.req.query["ms"]) / 1000)
    return context.res.text("waited")


def parallel(context):
    for step in range(3):
        print(f"{context.req.query['who']} {step}")
        time.sleep(0.005)
    return context.res.text("")


def flood(context):
    for number in range(300_000):
        context.log(f"line {number}")
    return context.res.text("")


def long_line(context):
    context.log("€" * 3_000_000)
    return context.res.text("")


def loop(context):
    while True:
        pass


async def forever(context):
    await asyncio.Event().wait()


def leave(context):
    sys.stderr.write("words\n")
    os.write(2, b"last words\n")
    os._exit(3)


def close(context):
    os.close(3)
    time.sleep(60)


def forge(context):
    os.write(3, bytes.fromhex(context.req.query["hex"]))
    time.sleep(60)


def memory(context):
    kept = []
    while True:
        kept.append(bytearray(1_000_000))


def odd(context):
    class Odd(Exception):
        def __str__(self):
            raise KeyError

        __repr__ = __str__

    raise Odd


def circular(context):
    value = {}
    value["value"] = value
    return context.res.json(value)


def stdout(context):
    for _ in range(800):
        os.write(1, b"x" * 65536)
    return context.res.text("written")


def throw(context):
    raise ValueError("thrown here")


ROUTES = {
    "/echo": echo,
    "/json": lambda c: c.res.json({"sum": c.req.body_json["a"] + c.req.body_json["b"]}),
    "/text": lambda c: c.res.text("héllo", 201, {"X-One": "1"}),
    "/send": lambda c: c.res.send("sent"),
    "/typed": lambda c: c.res.text("<p>", 200, {"Content-Type": "text/html"}),
    "/binary": lambda c: c.res.binary(bytes([0, 255, 1])),
    "/empty": lambda c: c.res.empty(),
    "/redirect": lambda c: c.res.redirect("https://example.org/a"),
    "/hidden": lambda c: c.res.text("", 200, {"x-open-runtimes-a": "b", "x-kept": "c"}),
    "/fail": lambda c: c.res.text("no", 503),
    "/log": log,
    "/variable": lambda c: c.res.json(
        {"secret": os.environ.get("SECRET"), "path": os.environ.get("CARGO")}
    ),
    "/await": wait,
    "/parallel": parallel,
    "/big": lambda c: c.res.binary(b"x" * int(c.req.query["bytes"])),
    "/length": lambda c: c.res.text(str(len(c.req.body_binary))),
    "/nothing": lambda c: None,
    "/string": lambda c: "text",
    "/throw": throw,
    "/throw-odd": odd,
    "/circular": circular,
    "/status": lambda c: c.res.text("", 99),
    "/header": lambda c: c.res.text("", 200, {"a b": "c"}),
    "/header-break": lambda c: c.res.text("", 200, {"a": "b\r\nc: d"}),
    "/headers": lambda c: c.res.text("", 200, {"a": "x" * 70_000}),
    "/flood": flood,
    "/long-line": long_line,
    "/loop": loop,
    "/forever": forever,
    "/exit": leave,
    "/close": close,
    "/forge": forge,
    "/memory": memory,
    "/stdout": stdout,
}


def main(context):
    route = ROUTES.get(context.req.path)
    return context.res.text("no route", 404) if route is None else route(context)

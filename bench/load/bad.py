"""Does what a function must not, by the path of the request."""

import os


def loop():
    while True:
        pass


def memory():
    kept = []
    while True:
        kept.append(bytearray(1 << 20))


def fork():
    while True:
        try:
            os.fork()
        except OSError:
            loop()


def flood():
    while True:
        os.write(1, b"x" * 65536)


def fill():
    for number in range(1000):
        with open(f"/tmp/{number}", "wb") as file:
            file.write(b"x" * 1_000_000)


def leave():
    os._exit(3)


ACTS = {act.__name__: act for act in (loop, memory, fork, flood, fill, leave)}


def main(context):
    ACTS[context.req.path[1:]]()

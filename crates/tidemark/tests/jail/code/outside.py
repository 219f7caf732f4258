"""Says what a function with a network reaches, and what comes of each way around its broker."""

import array
import asyncio
import ctypes
import errno
import fcntl
import json
import socket
import struct
import threading
import urllib.request

libc = ctypes.CDLL(None, use_errno=True)
FAST_OPEN = 0x20000000
INTERFACES = 0x8912


def outcome(attempt):
    try:
        result = attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done" if result is None else result


def connect(address, port, kind=socket.SOCK_STREAM):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET

    def attempt():
        with socket.socket(family, kind) as tried:
            tried.connect((address, port))

    return outcome(attempt)


def path(address):
    def attempt():
        with socket.socket(socket.AF_UNIX) as tried:
            tried.connect(address)

    return outcome(attempt)


def get(url):
    def attempt():
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.read().decode()

    try:
        return outcome(attempt)
    except ValueError as error:
        return str(error)


async def awaited(address, port):
    reader, writer = await asyncio.open_connection(address, port)
    writer.write(b"GET /v1/health HTTP/1.1\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return answer.split(b"\r\n\r\n")[1].decode()


def datagram(address, port):
    def attempt():
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as tried:
            tried.connect(("127.0.0.1", 9))
            tried.sendmsg([b"escaped"], [], 0, (address, port))

    return outcome(attempt)


def name_by_connection():
    question = struct.pack(">6H", 7, 0x100, 1, 0, 0, 0) + b"\3own\4test\0\0\1\0\1"

    def attempt():
        with socket.create_connection(("127.0.0.1", 53)) as asked:
            asked.sendall(struct.pack(">H", len(question)) + question)
            length = struct.unpack(">H", asked.recv(2))[0]
            return socket.inet_ntoa(asked.recv(length)[-4:])

    return outcome(attempt)


def lead_away(given):
    """Whatever else could be done with a socket of the host's network."""
    own, port, host = given["own"], given["open"], given["port"]
    kept = socket.create_connection((own, port))
    unspecified = ctypes.create_string_buffer(16)

    def dissolve():
        if libc.connect(kept.fileno(), unspecified, 16) < 0:
            raise OSError(ctypes.get_errno(), "")

    failed = socket.socket()
    first = outcome(lambda: failed.connect((own, 1)))
    return {
        "dissolved": outcome(dissolve),
        "connected again": outcome(lambda: kept.connect((own, port))),
        "connected to the host": outcome(lambda: kept.connect(("127.0.0.1", host))),
        "fast open": outcome(lambda: kept.sendto(b"x", FAST_OPEN, ("127.0.0.1", host)) and None),
        "listening": outcome(lambda: kept.listen()),
        "interfaces": outcome(
            lambda: fcntl.ioctl(kept, INTERFACES, array.array("B", bytes(16))) and None
        ),
        "failed": first,
        "failed, to the host": outcome(lambda: failed.connect(("127.0.0.1", host))),
        "failed, fast open": outcome(
            lambda: failed.sendto(b"x", FAST_OPEN, ("127.0.0.1", host)) and None
        ),
        "failed, listening": outcome(lambda: failed.listen()),
    }


def race(given):
    """Another thread changes the address while it is looked at."""
    public = struct.pack("=H", 2) + struct.pack(">H", given["open"])
    public += socket.inet_aton(given["own"]) + bytes(8)
    private = struct.pack("=H", 2) + struct.pack(">H", given["port"])
    private += socket.inet_aton("127.0.0.1") + bytes(8)
    address = ctypes.create_string_buffer(public, 16)
    is_over = threading.Event()

    def change():
        while not is_over.is_set():
            ctypes.memmove(address, private, 16)
            ctypes.memmove(address, public, 16)

    changing = threading.Thread(target=change)
    changing.start()
    for _ in range(100):
        with socket.socket() as tried:
            libc.connect(tried.fileno(), address, 16)
    is_over.set()
    changing.join()


def main(context):
    given = json.loads(context.req.body_text)
    own, port = given["own"], given["open"]
    found = {
        "api": get("http://127.0.0.1:8280/v1/health"),
        "by name": get(f"http://own.test:{port}/v1/health"),
        "by address": get(f"http://{own}:{port}/v1/health"),
        "name by connection": name_by_connection(),
        "own": connect(own, port),
        "host loopback": connect("127.0.0.1", given["port"]),
        "host loopback by IPv6": connect("::1", given["port"]),
        "host loopback, mapped": connect("::ffff:127.0.0.1", given["port"]),
        "host loopback by name": connect("loop.test", given["port"]),
        "private": connect("10.0.0.1", 80),
        "private by name": connect("private.test", 80),
        "mapped": connect("::ffff:10.0.0.1", 80),
        "6to4": connect("2002:a00:1::1", 80),
        "NAT64": connect("64:ff9b::10.0.0.1", 80),
        "unique local": connect("fd00::2", 80),
        "link local": connect("fe80::1", 80),
        "metadata": connect("169.254.169.254", 80),
        "private by UDP": connect(own, given["datagrams"], socket.SOCK_DGRAM),
        "sendmsg": datagram(own, given["datagrams"]),
        "path socket": path(given["path_socket"]),
        "abstract socket": path("\0" + given["abstract"]),
    }
    if context.req.path == "/listed":
        found["awaited"] = asyncio.run(awaited(own, port))
        found["led away"] = lead_away(given)
        race(given)
    return context.res.json(found)

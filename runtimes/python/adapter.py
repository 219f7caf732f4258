"""Runs the handlers of one deployment.

Takes requests from the server on descriptor 3, in frames, calls the handler, and answers.
crates/functions/src/frame.rs is the other side.

What takes long to import is imported where it is needed: asyncio takes as long as the interpreter.
"""

import contextvars
import functools
import importlib.util
import json
import os
import re
import select
import site
import struct
import sys
import threading
import time

# The modules around these add names that are not needed here, and take as long as the rest.
from _collections import deque
from _queue import SimpleQueue
from _socket import MSG_DONTWAIT
from _socket import socket as Socket

SETUP, REQUEST, BODY, STARTED, RESPONSE, LOG, CANCEL, CREDIT = range(1, 9)

HEAD = struct.Struct("<IBI")
START = struct.Struct("<I")
# Where it writes which requests it starts, if the setup says so.
STARTS = 4
# Behind the byte that marks the last piece.
PIECE_BYTES_MAX = 65535
CREDIT_BYTES = 262144
# More would be memory that is mapped for each read.
READ_BYTES = 65536
# Of a text, in a frame: at most four bytes each, so that a frame holds them.
LOG_PIECE_LETTERS = 16000
HEADERS_BYTES_MAX = 65536
# Of headers that are kept as JSON.
HEADERS_KEPT_MAX = 4096
TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*\Z")
HINT = "Native log detected. Use context.log() or context.error() for logging.\n"
# Code that is loaded from a file without this word needs no loop (PEP 492, asyncio).
ASYNC = b"async"
MISSING = "Return statement missing. return context.res.empty() if no response is expected."
# In seconds: a handler that takes longer is not called by the thread that reads.
QUICK = 0.0005
# It is looked this often whether a handler holds up that thread.
LOOK = 0.005
# Each slow handler counts as much as so many quick ones; beyond the limit handlers are called in
# threads, at first for so many runs.
SLOW_WEIGHT = 16
SLOW_MAX = 32
APART_MIN, APART_MAX = 100, 10_000
BINARY_TYPES = ("application/", "audio/", "font/", "image/", "video/")

COMPACT = json.JSONEncoder(separators=(",", ":"))
# As json.loads, which looks for what the server never sends: blanks, and more behind the value.
SCAN = json.JSONDecoder().scan_once
current = contextvars.ContextVar("current", default=None)


def frame(kind, request, payload=b""):
    return HEAD.pack(len(payload), kind, request) + payload


def pieces(kind, request, payload):
    """The pieces of `payload` as frames, the last one marked."""
    starts = range(0, len(payload) - PIECE_BYTES_MAX, PIECE_BYTES_MAX)
    full = [frame(kind, request, b"\0" + payload[at : at + PIECE_BYTES_MAX]) for at in starts]
    last = frame(kind, request, b"\1" + payload[len(full) * PIECE_BYTES_MAX :])
    return b"".join([*full, last])


class Wire:
    """The socket to the server. Any thread may send; frames are never mixed."""

    def __init__(self, descriptor):
        self.socket = Socket(fileno=descriptor)
        self.socket.setblocking(True)
        os.set_inheritable(descriptor, False)
        self.lock = threading.Lock()

    def send(self, frames):
        """Sends at once: the handler that is called next may fork, or end the process."""
        view = memoryview(frames)
        with self.lock:
            while view:
                try:
                    # What waits here for room holds its own thread alone.
                    view = view[self.socket.send(view, MSG_DONTWAIT) :]
                except BlockingIOError:
                    select.select([], [self.socket], [])
                except OSError:
                    os._exit(0)  # Without its server a process has nothing to do.


class Execution:
    """One execution: what came in, and what is left to send."""

    def __init__(self, adapter, number, head):
        self.adapter = adapter
        self.number = number
        self.head = head
        self.received = []
        self.answer, self.sent, self.credit = None, 0, CREDIT_BYTES
        self.began = time.monotonic()
        self.is_claimed = self.is_cancelled = self.is_done = self.has_hint = False
        # Once it waits on a loop; else it is in a thread, or has not begun.
        self.loop = self.task = None
        # Logs and errors: letters that were sent, and the end of all that is above the limit.
        self.log_sent, self.log_kept, self.log_tails = [0, 0], [0, 0], [[], []]
        self.lock = threading.Lock()

    def claim(self):
        """True once: for the thread that calls the handler, or for a cancellation before it."""
        with self.lock:
            is_first = not self.is_claimed
            self.is_claimed = True
            return is_first

    def log(self, stream, text):
        limit = self.adapter.limits["log_chars"]
        with self.lock:
            if self.is_done:
                return
            now = text[: limit - self.log_sent[stream]]
            self.log_sent[stream] += len(now)
            self.send_log(stream, now)
            tail = self.log_tails[stream]
            tail.append(text[len(now) :])
            self.log_kept[stream] += len(text) - len(now)
            # Not at each line, or a flood of short ones would move all letters each time.
            if self.log_kept[stream] > 2 * limit:
                tail[:] = ["".join(tail)[-limit:]]
                self.log_kept[stream] = limit

    def send_log(self, stream, text):
        for at in range(0, len(text), LOG_PIECE_LETTERS):
            piece = text[at : at + LOG_PIECE_LETTERS].encode("utf-8", "replace")
            self.adapter.wire.send(frame(LOG, self.number, bytes([stream]) + piece))

    def native(self, stream, text):
        hint = "" if self.has_hint else HINT
        self.has_hint = True
        self.log(stream, hint + text)

    def finish(self, status, headers, body, failure=None):
        """Answers, once: with a response, whose headers are JSON, or with a `failure` in words."""
        with self.lock:
            if self.is_done:
                return
            for stream, tail in enumerate(self.log_tails):
                if tail:
                    self.send_log(stream, "".join(tail)[-self.adapter.limits["log_chars"] :])
            self.is_done = True
            took_us = round((time.monotonic() - self.began) * 1_000_000)
            head = f'{{"status":{status:d},"headers":{headers},"took_us":{took_us}'
            if failure is not None:
                head += f',"failure":{json.dumps(failure.encode("utf-8", "replace").decode())}'
            self.answer = body
            self.pump(pieces(RESPONSE, self.number, f"{head}}}".encode()))

    def fail(self, failure):
        self.finish(500, "{}", b"", failure)

    def add_credit(self, count):
        with self.lock:
            self.credit += count
            self.pump(b"")

    def pump(self, frames):
        """Sends as much of the body as the server has given credit for."""
        body = self.answer
        if body is None:
            return
        parts = [frames]
        while True:
            end = min(self.sent + min(PIECE_BYTES_MAX, self.credit), len(body))
            is_last = end == len(body)
            if end == self.sent and not is_last:
                break
            flag = b"\1" if is_last else b"\0"
            parts.append(frame(BODY, self.number, flag + body[self.sent : end]))
            self.credit -= end - self.sent
            self.sent = end
            if is_last:
                self.answer = None
                self.adapter.runs.pop(self.number, None)
                break
        self.adapter.wire.send(b"".join(parts))


class Request:
    """`req`: views of the body and of the path are made when they are read."""

    def __init__(self, head, body):
        self.headers = head["headers"]
        self.method = head["method"]
        self.scheme = self.headers.get("x-forwarded-proto") or "http"
        self.host, port = split_host(self.headers.get("host", ""))
        self.port = int(port) if port.isdigit() else usual_port(self.scheme)
        self.path, _, self.query_string = head["path"].partition("?")
        self.body_binary = body
        # A handler may set these before it reads a view.
        self._received = self.scheme, self.host, self.port, self.path, self.query_string

    @functools.cached_property
    def query(self):
        pairs = (pair.partition("=") for pair in self._received[-1].split("&"))
        return {key: value for key, _, value in pairs if key}

    @functools.cached_property
    def url(self):
        scheme, host, port, path, query = self._received
        shown_port = "" if port == usual_port(scheme) else f":{port}"
        return f"{scheme}://{host}{shown_port}{path}" + (f"?{query}" if query else "")

    @property
    def body_text(self):
        return self.body_binary.decode("utf-8", "replace")

    body_raw = body_text

    @property
    def body_json(self):
        return json.loads(self.body_binary.decode("utf-8"))

    @property
    def body(self):
        kind = self.headers.get("content-type", "text/plain").lower()
        if kind.startswith("application/json"):
            return self.body_json if self.body_binary else {}
        return self.body_binary if kind.startswith(BINARY_TYPES) else self.body_text


def usual_port(scheme):
    return 443 if scheme == "https" else 80


def split_host(text):
    host, mark, port = text.rpartition(":")
    return (host, port) if mark and not text.endswith("]") else (text, "")


class Response:
    """`res`: what a handler returns is made by one of these."""

    def binary(self, body, status_code=200, headers=None):
        return {"body": body, "statusCode": status_code, "headers": dict(headers or {})}

    def text(self, body, status_code=200, headers=None):
        return self.binary(str(body).encode("utf-8", "replace"), status_code, headers)

    send = text

    def json(self, value, status_code=200, headers=None):
        typed = {**(headers or {}), "content-type": "application/json"}
        return self.text(COMPACT.encode(value), status_code, typed)

    def empty(self):
        return self.text("", 204)

    def redirect(self, url, status_code=301, headers=None):
        return self.text("", status_code, {**(headers or {}), "location": str(url)})


class Context:
    """What a handler is called with."""

    def __init__(self, run, body):
        self.req = Request(run.head, body)
        self.res = Response()
        self._run = run

    def log(self, *values):
        self._run.log(0, " ".join(map(shown, values)) + "\n")

    def error(self, *values):
        self._run.log(1, " ".join(map(shown, values)) + "\n")


def shown(value):
    if isinstance(value, BaseException):
        import traceback

        return "".join(traceback.format_exception(type(value), value, value.__traceback__))
    return str(value)


class Refused(Exception):
    """A response that breaks a limit; the text names it."""


def check_status(status):
    if isinstance(status, int) and not isinstance(status, bool):
        # A number of another kind may be written in another way.
        status = int.__index__(status)
        if 200 <= status <= 599:
            return status
    raise Refused(f"The response has the status {status!r}; it must be 200 to 599.")


def check_headers(given):
    sent, count = [], 0
    for name, value in given.items():
        name, value = str(name).lower(), str(value)
        if not name.startswith("x-open-runtimes-"):
            sent.append((name, value))
            count += len(name) + len(value)
    make = headers_text if count <= HEADERS_KEPT_MAX else headers_text.__wrapped__
    return make(tuple(sent))


@functools.lru_cache(maxsize=32)
def headers_text(given):
    """As JSON; most responses of a function have the same."""
    headers = {}
    count = 0
    for name, value in given:
        if not TOKEN.match(name) or not VALUE.match(value):
            raise Refused(f"The response has a header that is none: {json.dumps(name)}.")
        if name == "content-type":
            kind = value.lower()
            if not kind.startswith("multipart/") and "charset=" not in kind:
                value += "; charset=utf-8"
        headers[name] = value
        count += len(name) + len(value)
    if count > HEADERS_BYTES_MAX:
        raise Refused(
            f"The response has headers of {count} bytes; the limit is {HEADERS_BYTES_MAX} bytes."
        )
    headers.setdefault("content-type", "text/plain; charset=utf-8")
    return COMPACT.encode(headers)


def check_body(body, limit):
    if isinstance(body, (bytes, bytearray, memoryview)):
        body = bytes(body)
    else:
        body = str(body).encode("utf-8", "replace")
    if len(body) > limit:
        raise Refused(f"The response has {len(body)} bytes; the limit is {limit} bytes.")
    return body


class NativeStream:
    """What a handler prints is a log of its own execution."""

    def __init__(self, stream, standard):
        self.stream = stream
        self.standard = standard

    def write(self, text):
        run = current.get()
        if run is None or run.is_done:
            return self.standard.write(text)
        run.native(self.stream, text)
        return len(text)

    def __getattr__(self, name):
        return getattr(self.standard, name)


class Threads:
    """Runs jobs in at most so many threads, each started when none is free."""

    def __init__(self, most):
        self.most = most
        self.count = 0
        # Threads that wait for a job, less the jobs that wait.
        self.free = 0
        self.jobs = SimpleQueue()
        self.lock = threading.Lock()

    def run(self, job):
        with self.lock:
            self.free -= 1
            if self.free < 0 and self.count < self.most:
                self.begin()
        self.jobs.put(job)

    def begin(self):
        try:
            threading.Thread(target=self.work, daemon=True).start()
        except RuntimeError:
            # As many as a function may have: the job waits for one of them.
            if self.count == 0:
                self.free += 1
                raise
            return
        self.count += 1
        self.free += 1

    def work(self):
        while True:
            try:
                # Without a name: while this waits for the next job, it would keep the last one.
                self.jobs.get()()
            except BaseException:
                sys.__excepthook__(*sys.exc_info())
            with self.lock:
                self.free += 1


class Reader:
    """Reads, and calls the handlers of what it has read, one after the other.

    To hand a run to another thread costs more than a short handler does: both threads then take
    the lock of the interpreter from each other at each call of the system. Handlers that take long
    are called in threads, and where one holds up the thread that reads, another takes its place.
    """

    def __init__(self, adapter):
        self.adapter = adapter
        self.ready = deque()
        self.slow = 0
        # Runs that are called in threads before it is tried again, and how many it will be next.
        self.apart = 0
        self.apart_next = APART_MIN
        # The thread that reads. What follows changes under the lock.
        self.own = None
        self.lock = threading.Lock()
        self.count = 0
        self.is_in_run = self.has_watch = False
        self.is_parked = True
        self.parked = threading.Lock()
        self.parked.acquire()

    def serve(self):
        self.own = threading.get_ident()
        try:
            while self.own == threading.get_ident():
                self.adapter.read(0)
                self.call_ready()
        except BaseException:
            sys.__excepthook__(*sys.exc_info())
            os._exit(1)

    def take(self, run):
        """A run whose request is complete."""
        if self.apart == 0 and self.begin_watch():
            self.ready.append(run)
        else:
            self.apart -= self.apart > 0
            self.adapter.call_apart(run)

    def begin_watch(self):
        if not self.has_watch:
            try:
                threading.Thread(target=self.watch, daemon=True).start()
            except RuntimeError:
                return False  # As many threads as a function may have.
            self.has_watch = True
        return True

    def call_ready(self):
        took = None
        while True:
            with self.lock:
                if self.own != threading.get_ident():
                    return
                if took is not None:
                    self.ended(took)
                self.is_in_run = len(self.ready) > 0
                if not self.is_in_run:
                    return
                self.count += 1
                run = self.ready.popleft()
                if self.is_parked:
                    self.is_parked = False
                    self.parked.release()
            began = time.monotonic()
            contextvars.copy_context().run(self.adapter.execute, run)
            took = time.monotonic() - began

    def ended(self, took):
        if took <= QUICK:
            self.slow = max(self.slow - 1, 0)
            if self.slow == 0:
                self.apart_next = APART_MIN
            return
        self.slow += SLOW_WEIGHT
        if self.slow >= SLOW_MAX:
            self.give_up()

    def give_up(self):
        self.apart = self.apart_next
        self.apart_next = min(2 * self.apart_next, APART_MAX)
        # The next slow one is enough.
        self.slow = SLOW_MAX - SLOW_WEIGHT
        while self.ready:
            self.adapter.call_apart(self.ready.popleft())

    def watch(self):
        """Takes the place of the thread that reads, once a handler holds it up."""
        self.parked.acquire()
        while True:
            seen = self.count
            time.sleep(LOOK)
            with self.lock:
                is_same = self.count == seen
                if is_same and self.is_in_run:
                    self.own = threading.get_ident()
                    self.has_watch = self.is_in_run = False
                    self.is_parked = True
                    self.give_up()
                    break
                self.is_parked = is_same
            if is_same:
                self.parked.acquire()
        self.serve()


class Adapter:
    """Frames in, handlers called, frames out.

    A thread reads and calls handlers, others call those that take long. Code that says `async` is
    loaded on a loop in the main thread, which then reads, and so are its handlers called there.
    """

    def __init__(self):
        self.wire = Wire(3)
        self.loop = self.handler = None
        self.runs, self.heads, self.unread = {}, {}, b""
        self.load_error = self.load_trace = None
        # Whether the handler is called on the loop.
        self.is_async = False
        # A loop beside the main thread, for what a handler returns that must be awaited.
        self.aside = None
        self.lock = threading.Lock()
        self.has_starts = self.has_begun = False
        self.memory_mib, self.limits = 0, {}
        self.threads = None
        self.reader = Reader(self)

    def serve(self):
        while not self.has_begun:
            self.read(0)
        if self.loop is not None:
            self.loop.add_reader(self.wire.socket.fileno(), self.read, MSG_DONTWAIT)
            self.loop.run_forever()
        try:
            # The main thread has rights that others lack, so handlers are called by another one.
            threading.Thread(target=self.reader.serve, daemon=True).start()
        except RuntimeError:
            # As many threads as a function may have: better so than not at all.
            self.reader.serve()
        threading.Event().wait()

    def read(self, flags):
        try:
            chunk = self.wire.socket.recv(READ_BYTES, flags)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            os._exit(0)  # Without its server a process has nothing to do.
        chunk = self.unread + chunk
        at = 0
        while len(chunk) - at >= HEAD.size:
            length, kind, request = HEAD.unpack_from(chunk, at)
            end = at + HEAD.size + length
            if len(chunk) < end:
                break
            self.take(kind, request, chunk[at + HEAD.size : end])
            at = end
        self.unread = chunk[at:]

    def gather(self, request, payload):
        if payload[0] == 0:
            self.heads.setdefault(request, []).append(payload[1:])
            return None
        pieces = self.heads.pop(request, [])
        return SCAN(b"".join([*pieces, payload[1:]]).decode("utf-8"), 0)[0]

    def take(self, kind, request, payload):
        run = self.runs.get(request)
        if kind == SETUP:
            setup = self.gather(0, payload)
            if setup is not None:
                self.begin(setup)
        elif kind == REQUEST:
            head = self.gather(request, payload)
            if head is not None:
                self.runs[request] = Execution(self, request, head)
        elif kind == BODY and run is not None:
            self.take_body(run, payload)
        elif kind == CREDIT and run is not None:
            run.add_credit(struct.unpack("<I", payload)[0])
        elif kind == CANCEL and run is not None:
            self.cancel(run)

    def take_body(self, run, payload):
        if len(payload) > 1:
            run.received.append(payload[1:])
            if payload[0] == 0:
                credit = struct.pack("<I", len(payload) - 1)
                self.wire.send(frame(CREDIT, run.number, credit))
        if payload[0] == 1 and not run.is_done:
            if self.is_async:
                context = contextvars.copy_context()
                context.run(current.set, run)
                run.loop = self.loop
                run.task = context.run(self.loop.create_task, self.execute_on_loop(run))
            elif self.loop is not None:
                self.call_apart(run)
            else:
                self.reader.take(run)

    def call_apart(self, run):
        """Calls a handler in another thread."""
        context = contextvars.copy_context()
        try:
            self.threads.run(lambda: context.run(self.execute, run))
        except RuntimeError as error:
            run.fail(reason(error))

    def cancel(self, run):
        # A thread cannot be stopped: without an answer the server ends the process.
        run.is_cancelled = True
        if run.task is not None:
            run.loop.call_soon_threadsafe(run.task.cancel)
        elif run.claim():
            run.fail("")

    def begin(self, setup):
        self.has_starts = setup["has_starts"]
        if self.has_starts:
            os.set_inheritable(STARTS, False)
        self.limits = setup["limits"]
        self.memory_mib = self.limits["memory_mib"]
        os.environ.update(setup["variables"])
        sys.stdout = NativeStream(0, sys.stdout)
        sys.stderr = NativeStream(1, sys.stderr)
        self.threads = Threads(self.limits["concurrency"])
        self.has_begun = True
        if not says_async(setup):
            self.load(setup)
            return
        import asyncio

        self.loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self.loop)
        self.loop.call_soon(self.load, setup)

    def load(self, setup):
        try:
            self.handler = load_function(setup["folder"], setup["entrypoint"])
            if self.loop is not None:
                import inspect

                self.is_async = inspect.iscoroutinefunction(self.handler)
        except BaseException as error:
            self.load_error, self.load_trace = error, error.__traceback__
        self.wire.send(frame(STARTED, 0))

    def start(self, run):
        """Says that a run begins; what its handler is called with."""
        body = b"".join(run.received)
        run.received = []
        if self.has_starts:
            # Nobody is woken by it.
            os.write(STARTS, START.pack(run.number))
        else:
            self.wire.send(frame(STARTED, run.number))
        run.began = time.monotonic()
        if self.load_error is not None:
            # Each raise would make its trace longer.
            raise self.load_error.with_traceback(self.load_trace)
        return Context(run, body)

    def execute(self, run):
        """Calls a handler in this thread, and in a context of its own."""
        if not run.claim():
            return
        current.set(run)
        try:
            output = self.handler(self.start(run))
            if not isinstance(output, dict) and is_awaitable(output):
                run.loop, context = self.awaiting_loop(), contextvars.copy_context()
                run.loop.call_soon_threadsafe(self.begin_awaiting, run, output, context=context)
            else:
                self.answer(run, output)
        except BaseException as error:
            self.fail(run, error)

    async def execute_on_loop(self, run):
        try:
            self.answer(run, await self.handler(self.start(run)))
        except BaseException as error:
            self.fail(run, error)

    def begin_awaiting(self, run, output):
        run.task = run.loop.create_task(self.finish_awaiting(run, output))
        if run.is_cancelled:
            # After its first step: one that has not begun could not answer.
            run.loop.call_soon(run.task.cancel)

    async def finish_awaiting(self, run, output):
        try:
            self.answer(run, await output)
        except BaseException as error:
            self.fail(run, error)

    def awaiting_loop(self):
        """Where what a handler has returned is awaited: beside a main thread without a loop."""
        if self.loop is not None:
            return self.loop
        import asyncio

        def work():
            try:
                asyncio.set_event_loop(self.aside)
                self.aside.run_forever()
            finally:
                # As where the main thread has the loop: nothing could be awaited any more.
                os._exit(1)

        with self.lock:
            if self.aside is None:
                self.aside = asyncio.new_event_loop()
                try:
                    threading.Thread(target=work, daemon=True).start()
                except RuntimeError:
                    self.aside = None
                    raise
            return self.aside

    def answer(self, run, output):
        if not isinstance(output, dict):
            run.fail(MISSING)
            return
        status = check_status(output.get("statusCode", 200))
        headers = check_headers(output.get("headers") or {})
        body = check_body(output.get("body", b""), self.limits["body_bytes"])
        run.finish(status, headers, body)

    def fail(self, run, error):
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None and isinstance(error, asyncio.CancelledError):
            run.fail("")
        elif isinstance(error, MemoryError):
            run.fail(f"The function ran out of memory ({self.memory_mib} MiB).")
        elif isinstance(error, Refused):
            run.fail(str(error))
        else:
            run.fail(reason(error))


def is_awaitable(output):
    import inspect

    return inspect.isawaitable(output)


def says_async(setup):
    try:
        with open(os.path.join(setup["folder"], setup["entrypoint"]), "rb") as file:
            return ASYNC in file.read()
    except OSError:
        return False  # It is said why when it is loaded.


def reason(error):
    """A text that a raised error surely has: its own conversions may raise as well."""
    try:
        return shown(error)
    except BaseException:
        return f"The function raised {type(error).__name__}, which has no text."


def load_function(folder, entrypoint):
    path = os.path.realpath(os.path.join(folder, entrypoint))
    if not os.path.isfile(path):
        raise Refused(f"The entrypoint {entrypoint} is missing.")
    # Where builds have `pip install` put them.
    site.addsitedir(os.path.join(folder, ".packages"))
    sys.path.insert(0, folder)
    sys.path.insert(0, os.path.dirname(path))
    spec = importlib.util.spec_from_file_location("function", path)
    if spec is None:
        raise Refused(f"The entrypoint {entrypoint} is no Python file.")
    module = importlib.util.module_from_spec(spec)
    sys.modules["function"] = module
    spec.loader.exec_module(module)
    handler = getattr(module, "main", None)
    if not callable(handler):
        raise Refused(f"The entrypoint {entrypoint} has no function main.")
    return handler


Adapter().serve()

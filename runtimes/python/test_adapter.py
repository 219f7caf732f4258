"""What the adapter does in its threads, without a server; crates/functions/tests runs this."""

import json
import pathlib
import queue
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest
import weakref

PATH = pathlib.Path(__file__).with_name("adapter.py")
# The last line, which takes requests from descriptor 3.
SERVE = "\nAdapter().serve()\n"
# How long a thread has to come where another one holds it up, and to end.
HELD_S, END_S = 0.05, 10


def loaded():
    text = PATH.read_text(encoding="utf-8")
    assert text.endswith(SERVE)
    adapter = types.ModuleType("adapter")
    exec(compile(text.removesuffix(SERVE), str(PATH), "exec"), vars(adapter))
    adapter.Wire = RecordedWire
    return adapter


class RecordedWire:
    """Keeps what would be sent."""

    def __init__(self, descriptor):
        self.sent = b""

    def send(self, frames):
        self.sent += frames


ADAPTER = loaded()
ANSWER = [ADAPTER.RESPONSE, ADAPTER.BODY]


def frames_of(rest):
    """Kind, number of the execution and payload of each."""
    frames = []
    while rest:
        length, kind, number = ADAPTER.HEAD.unpack_from(rest)
        end = ADAPTER.HEAD.size + length
        frames.append((kind, number, rest[ADAPTER.HEAD.size : end]))
        rest = rest[end:]
    return frames


class CancelledRun:
    """One run in a thread that is cancelled once the adapter is about to run its nth line."""

    def __init__(self, line):
        self.lines_left = line
        self.calls = 0
        self.adapter = ADAPTER.Adapter()
        self.adapter.limits = {"log_chars": 10, "body_bytes": 10}
        self.adapter.handler = self.handle
        head = {"headers": {}, "method": "POST", "path": "/"}
        self.run = ADAPTER.Execution(self.adapter, 1, head)
        self.adapter.runs[1] = self.run
        self.canceller = threading.Thread(target=self.adapter.cancel, args=(self.run,))
        thread = threading.Thread(target=self.execute)
        thread.start()
        thread.join(END_S)
        self.was_cancelled = self.canceller.ident is not None
        if self.was_cancelled:
            self.canceller.join(END_S)

    def handle(self, context):
        self.calls += 1
        return context.res.text("")

    def execute(self):
        sys.settrace(self.trace)
        self.adapter.execute(self.run)

    def trace(self, frame, event, _):
        if frame.f_code.co_filename != str(PATH):
            return None
        if event == "line":
            self.lines_left -= 1
            if self.lines_left == 0:
                self.canceller.start()
                # It waits where this thread holds a lock.
                self.canceller.join(HELD_S)
        return self.trace


class ReadAdapter:
    """Reads lists of runs, which are functions here."""

    def __init__(self):
        self.chunks = queue.SimpleQueue()
        self.apart = 0
        self.reader = ADAPTER.Reader(self)
        threading.Thread(target=self.reader.serve, daemon=True).start()

    def read(self, _):
        for run in self.chunks.get():
            self.reader.take(run)

    def execute(self, run):
        run()

    def call_apart(self, run):
        self.apart += 1
        threading.Thread(target=run, daemon=True).start()


class ReaderTurns(unittest.TestCase):
    def setUp(self):
        # On a busy machine any handler may take long: only where it shall is it seen.
        ADAPTER.LOOK = END_S
        self.adapter = ReadAdapter()

    def called(self, count, act=lambda: None):
        """The threads that call so many runs, which come at once."""
        threads = queue.SimpleQueue()

        def run():
            act()
            threads.put(threading.get_ident())

        self.adapter.chunks.put([run] * count)
        return [threads.get(timeout=END_S) for _ in range(count)]

    def test_quick_handlers_are_called_by_the_thread_that_reads(self):
        ADAPTER.QUICK = END_S
        threads = self.called(50) + self.called(50)
        self.assertEqual((set(threads), self.adapter.apart), ({self.adapter.reader.own}, 0))

    def test_slow_handlers_are_called_in_threads_for_a_while(self):
        ADAPTER.QUICK = -1
        seen = []
        # Two of them show it, later one is enough.
        for count in (1, 1, ADAPTER.APART_MIN, 1, 2 * ADAPTER.APART_MIN, 1):
            self.called(count)
            seen.append(self.adapter.apart // ADAPTER.APART_MIN)
        self.assertEqual(seen, [0, 0, 1, 1, 3, 3])

    def test_handler_that_waits_is_not_waited_for(self):
        ADAPTER.QUICK, ADAPTER.LOOK = END_S, HELD_S
        for _ in range(3):
            reader, event = self.adapter.reader.own, threading.Event()
            ended = queue.SimpleQueue()

            def wait(event=event, ended=ended):
                ended.put(event.wait(END_S))

            # What lets it go on was read with it, or comes later.
            self.adapter.chunks.put([wait, wait])
            self.adapter.chunks.put([event.set])
            self.assertEqual([ended.get(timeout=END_S) for _ in range(2)], [True, True])
            self.assertNotEqual(self.adapter.reader.own, reader)
            # Until it is tried again.
            self.called(self.adapter.reader.apart)
            self.assertEqual(self.called(1), [self.adapter.reader.own])


class ServedAdapter:
    """The adapter as a program: one thread calls what is read at once, however long it takes."""

    def __init__(self, code):
        self.folder = tempfile.TemporaryDirectory()
        pathlib.Path(self.folder.name, "main.py").write_text(code, encoding="utf-8")
        times = re.compile(r"^(QUICK|LOOK) = .*$", re.MULTILINE)
        text, count = times.subn(rf"\1 = {END_S}", PATH.read_text(encoding="utf-8"))
        assert count == 2
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(END_S)
        shell = ["/bin/sh", "-c", 'exec 3<&0 4>/dev/null </dev/null "$@"', "sh"]
        program = [*shell, sys.executable, "-I", "-B", "-W", "ignore", "-c", text]
        self.process = subprocess.Popen(program, stdin=theirs)
        theirs.close()
        limits = {"memory_mib": 64, "log_chars": 99, "body_bytes": 99, "concurrency": 9}
        setup = {"has_starts": True, "variables": {}, "limits": limits}
        setup |= {"folder": self.folder.name, "entrypoint": "main.py"}
        self.socket.sendall(ADAPTER.pieces(ADAPTER.SETUP, 0, json.dumps(setup).encode()))
        assert self.socket.recv(len(ADAPTER.frame(ADAPTER.STARTED, 0))) != b""

    def run(self, paths):
        """Sends requests at once. What comes of them, up to the end of the process."""
        sent = []
        for number, path in enumerate(paths, 1):
            head = {"headers": {}, "method": "POST", "path": path}
            sent.append(ADAPTER.pieces(ADAPTER.REQUEST, number, json.dumps(head).encode()))
            sent.append(ADAPTER.frame(ADAPTER.BODY, number, b"\1"))
        self.socket.sendall(b"".join(sent))
        self.socket.shutdown(socket.SHUT_WR)
        chunks = []
        while chunk := self.socket.recv(65536):
            chunks.append(chunk)
        self.socket.close()
        self.process.wait(END_S)
        self.folder.cleanup()
        return frames_of(b"".join(chunks))


class AnswersOfNeighbours(unittest.TestCase):
    """A handler runs after the answer of the one before it has been sent."""

    def kinds(self, act):
        """What comes of an execution, and of one that was read with it and does so."""
        code = f"import os\n\ndef main(context):\n    {act}\n    return context.res.text('ok')\n"
        frames = ServedAdapter(code).run(["/first", "/second"])
        return [[kind for kind, number, _ in frames if number == at] for at in (1, 2)]

    def test_handler_that_forks_does_not_send_them_again(self):
        first, second = self.kinds(
            "if context.req.path == '/second' and os.fork() == 0: print('child'); os._exit(0)"
        )
        self.assertEqual(first, ANSWER)
        # What the child prints comes before the answer or after it: no one waits for the child.
        self.assertIn(ADAPTER.LOG, second)
        self.assertEqual([kind for kind in second if kind != ADAPTER.LOG], ANSWER)

    def test_handler_that_ends_the_process_does_not_lose_them(self):
        first, second = self.kinds("context.req.path == '/second' and os._exit(7)")
        self.assertEqual((first, second), (ANSWER, []))


class RequestsAndResponses(unittest.TestCase):
    def test_status_of_any_kind_of_number_is_answered(self):
        class Status(int):
            def __format__(self, form):
                raise ValueError(form)

            __str__ = __repr__ = __format__

        adapter = ADAPTER.Adapter()
        adapter.limits = {"log_chars": 10, "body_bytes": 10}
        adapter.handler = lambda context: context.res.text("", Status(context.req.path))
        for path, status in (("201", 201), ("99", 500)):
            head = {"headers": {}, "method": "POST", "path": path}
            adapter.execute(ADAPTER.Execution(adapter, int(path), head))
            frames = frames_of(adapter.wire.sent)
            heads = [sent for kind, at, sent in frames if (kind, at) == (ANSWER[0], int(path))]
            self.assertEqual([json.loads(sent[1:])["status"] for sent in heads], [status])

    def test_kept_headers_are_bounded(self):
        kept = ADAPTER.headers_text.cache_info
        text = ADAPTER.check_headers({"a": "1"})
        count = kept().currsize
        # No limit counts these.
        for number in range(9):
            headers = {"A": 1, "X-Open-Runtimes-b": f"{number}" * 1_000_000}
            self.assertEqual(ADAPTER.check_headers(headers), text)
        for number in range(9):
            long = f"{number}" * ADAPTER.HEADERS_KEPT_MAX
            self.assertEqual(json.loads(ADAPTER.check_headers({"b": long}))["b"], long)
        self.assertEqual(kept().currsize, count)

    def test_address_is_the_received_one_whenever_it_is_read(self):
        received = {"host": "a.example:81", "x-forwarded-proto": "https"}
        head = {"headers": received, "method": "GET", "path": "/b?c=1&d=2"}
        request = ADAPTER.Request(head, b"")
        request.scheme, request.host, request.port = "http", "e.example", 80
        request.path, request.query_string = "/f", "g=3"
        received["host"] = "h.example"
        self.assertEqual(request.url, "https://a.example:81/b?c=1&d=2")
        self.assertEqual(request.query, {"c": "1", "d": "2"})
        for host, url in (("a:80", "http://a/"), ("[::1]:7", "http://[::1]:7/"), ("", "http:///")):
            head = {"headers": {"host": host}, "method": "GET", "path": "/"}
            self.assertEqual(ADAPTER.Request(head, b"").url, url)


class AdapterThreads(unittest.TestCase):
    def test_run_is_either_called_or_answered_as_cancelled(self):
        line, ends = 0, set()
        while True:
            line += 1
            cancelled = CancelledRun(line)
            if not cancelled.was_cancelled:
                break
            frames = frames_of(cancelled.adapter.wire.sent)
            heads = [json.loads(sent[1:]) for kind, _, sent in frames if kind == ADAPTER.RESPONSE]
            starts = [kind for kind, _, _ in frames if kind == ADAPTER.STARTED]
            self.assertEqual(len(heads), 1, f"at line {line}")
            end = (cancelled.calls, len(starts), heads[0]["status"])
            self.assertIn(end, [(1, 1, 200), (0, 0, 500)], f"at line {line}")
            ends.add(end)
        self.assertEqual(len(ends), 2, "it is cancelled before and after its start")

    def test_job_that_has_ended_is_let_go(self):
        class Job:
            def __call__(self):
                pass

        threads = ADAPTER.Threads(1)
        job = Job()
        watched = weakref.ref(job)
        threads.run(job)
        del job
        end = time.monotonic() + END_S
        while threads.free < 1 and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual(threads.free, 1)
        self.assertIsNone(watched())


if __name__ == "__main__":
    unittest.main()

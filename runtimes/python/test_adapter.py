"""What the adapter does in its threads, without a server; crates/functions/tests runs this."""

import json
import pathlib
import queue
import socket
import sys
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
    adapter.SocketWire, adapter.Wire = adapter.Wire, RecordedWire
    return adapter


class RecordedWire:
    """Keeps what would be sent."""

    def __init__(self, descriptor):
        self.sent = b""
        self.waiting = b""

    def send_soon(self, frames):
        self.waiting += frames

    def send(self, frames):
        self.sent += self.waiting + frames
        self.waiting = b""


ADAPTER = loaded()


def sent_frames(adapter):
    rest, frames = adapter.wire.sent, []
    while rest:
        length, kind, _ = ADAPTER.HEAD.unpack_from(rest)
        end = ADAPTER.HEAD.size + length
        frames.append((kind, rest[ADAPTER.HEAD.size : end]))
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
        self.wire = RecordedWire(None)
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

    def test_answers_of_what_was_read_at_once_leave_together(self):
        ADAPTER.QUICK = END_S
        wire, sent = self.adapter.wire, []

        def answer():
            sent.append(wire.sent)
            wire.send_soon(b"a")

        self.called(3, answer)
        self.until_sent(b"aaa")
        self.assertEqual(sent, [b"", b"", b""])

    def test_answer_does_not_wait_for_slow_handlers(self):
        ADAPTER.QUICK = -1
        wire, sent = self.adapter.wire, []

        def answer():
            sent.append(wire.sent)
            wire.send_soon(b"a")

        self.adapter.chunks.put([answer, answer])
        self.until_sent(b"aa")
        self.assertEqual(sent, [b"", b"a"])

    def test_answer_does_not_wait_for_a_handler_that_holds_up_its_thread(self):
        ADAPTER.QUICK, ADAPTER.LOOK = END_S, HELD_S
        wire, event = self.adapter.wire, threading.Event()
        self.addCleanup(event.set)

        def wait():
            event.wait(END_S)
            wire.send_soon(b"b")

        self.adapter.chunks.put([lambda: wire.send_soon(b"a"), wait])
        self.until_sent(b"a")
        # Its own does not wait for what comes next.
        event.set()
        self.until_sent(b"ab")

    def until_sent(self, frames):
        end = time.monotonic() + END_S
        while self.adapter.wire.sent != frames and time.monotonic() < end:
            time.sleep(0.001)
        self.assertEqual(self.adapter.wire.sent, frames)


class AdapterWire(unittest.TestCase):
    def test_what_waits_is_sent_first(self):
        ours, theirs = socket.socketpair()
        wire = ADAPTER.SocketWire(theirs.detach())
        ours.settimeout(0)
        wire.send_soon(b"a")
        wire.send_soon(b"b")
        self.assertRaises(BlockingIOError, ours.recv, 9)
        wire.send(b"c")
        self.assertEqual(ours.recv(9), b"abc")
        wire.send(b"")
        self.assertRaises(BlockingIOError, ours.recv, 9)
        ours.close()
        wire.socket.close()


class AdapterThreads(unittest.TestCase):
    def test_run_is_either_called_or_answered_as_cancelled(self):
        line, ends = 0, set()
        while True:
            line += 1
            cancelled = CancelledRun(line)
            if not cancelled.was_cancelled:
                break
            frames = sent_frames(cancelled.adapter)
            heads = [json.loads(sent[1:]) for kind, sent in frames if kind == ADAPTER.RESPONSE]
            starts = [kind for kind, _ in frames if kind == ADAPTER.STARTED]
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

"""Tries each way out of the jail, and answers with what came of it."""

import ctypes
import errno
import json
import mmap
import os
import resource
import socket
import subprocess
import time

libc = ctypes.CDLL(None, use_errno=True)
BOUNDS = resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE


def outcome(attempt):
    """`done`, or the name of the error."""
    try:
        result = attempt()
    except OSError as error:
        return errno.errorcode.get(error.errno, str(error))
    return "done" if result is None else result


def call(number, *arguments):
    def attempt():
        if libc.syscall(number, *arguments) < 0:
            raise OSError(ctypes.get_errno(), "")

    return outcome(attempt)


def read(path):
    def attempt():
        with open(path, "rb") as file:
            file.read(1)

    return outcome(attempt)


def write(path):
    def attempt():
        with open(path, "wb") as file:
            file.write(b"x")

    return outcome(attempt)


def connect(family, address, kind=socket.SOCK_STREAM):
    def attempt():
        with socket.socket(family, kind) as tried:
            tried.settimeout(2)
            tried.connect(address)

    return outcome(attempt)


def forks():
    """How many children there can be at once."""
    children = []
    while len(children) < 300:
        try:
            child = os.fork()
        except OSError as error:
            reason = errno.errorcode[error.errno]
            break
        if child == 0:
            time.sleep(60)
            os._exit(0)
        children.append(child)
    else:
        reason = "done"
    for child in children:
        os.kill(child, 9)
        os.waitpid(child, 0)
    return [reason, len(children)]


def groups():
    """Whether it stays in its group and gets none of its own; what comes of signals to groups."""
    group = os.getpgrp()
    os.setpgid(0, 0)
    stays = [os.getpgrp() == group, os.getpgrp() == os.getpid()]
    return stays + [outcome(lambda pid=pid: os.kill(pid, 0)) for pid in (0, -group)]


def open_files():
    files = []

    def attempt():
        while len(files) < 1000:
            files.append(os.open("/dev/null", os.O_RDONLY))

    reason = outcome(attempt)
    for file in files:
        os.close(file)
    return [reason, len(files) < 256]


def fill():
    written = []

    def attempt():
        for number in range(200):
            with open(f"/tmp/{number}", "wb") as file:
                written.append(number)
                file.write(b"x" * 1_000_000)

    reason = outcome(attempt)
    for number in written:
        os.unlink(f"/tmp/{number}")
    return reason


def entries():
    """How many files there can be, whatever their size."""
    made = []

    def attempt():
        while len(made) < 10_000:
            place = f"/tmp/entry{len(made)}"
            os.close(os.open(place, os.O_CREAT | os.O_WRONLY))
            made.append(place)

    reason = outcome(attempt)
    for place in made:
        os.unlink(place)
    return [reason, len(made) <= 4095]


def status(name):
    def attempt():
        with open("/proc/self/status") as lines:
            found = [line.split()[1] for line in lines if line.startswith(name)]
        return found[0]

    return outcome(attempt)


def badness():
    with open("/proc/self/oom_score_adj") as file:
        return file.read().strip()


def processes():
    """Whether no process of the host is among them."""
    return max(int(name) for name in os.listdir("/proc") if name.isdigit()) < 100


def daemon():
    """A child that outlives its parent and leaves its group."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.execv("/bin/sleep", ["sleep", "54321"])
        os._exit(0)


def shared(context):
    """Memory that the limit of a process's data does not count."""
    pages = mmap.mmap(-1, 1 << 30)
    for at in range(0, 1 << 30, 4096):
        pages[at] = 1
        if at % (1 << 24) == 0:
            time.sleep(0.01)
    return context.res.text("done")


def main(context):
    if context.req.path == "/shared":
        return shared(context)
    given = json.loads(context.req.body_text)
    secret, port = given["secret"], given["port"]
    found = {
        "secret": read(secret),
        "secret through the first process": read(f"/proc/1/root{secret}"),
        "shadow": read("/etc/shadow"),
        "own code": write("own.py"),
        "own code removed": outcome(lambda: os.unlink(__file__)),
        "adapter": write("/adapter/adapter.py"),
        "root": write("/x"),
        "usr": write("/usr/x"),
        "processes": outcome(processes),
        "environment of the first process": read("/proc/1/environ"),
        "memory of the first process": read("/proc/1/mem"),
        "mounts of its parent": read(f"/proc/{os.getppid()}/mountinfo"),
        "signal to the first process": outcome(lambda: os.kill(1, 9)),
        "ptrace": call(101, 16, 1, 0, 0),
        "process_vm_readv": call(310, 1, 0, 0, 0, 0, 0),
        "mount": call(165, b"none", b"/tmp", b"tmpfs", 0, 0),
        "mount by x32": call(165 | 0x40000000, b"none", b"/tmp", b"tmpfs", 0, 0),
        "unshare": call(272, 0x10000000),
        "clone": call(56, 0x10000000 | 17, 0, 0, 0, 0),
        "clone3": call(435, 0, 0),
        "setns": call(308, 0, 0),
        "chroot": call(161, b"/tmp"),
        "io_uring": call(425, 1, 0),
        "bpf": call(321, 0, 0, 0),
        "perf": call(298, 0, 0, 0, 0, 0),
        "keyring": call(250, 0, -3, 1),
        "clock": call(227, 0, 0),
        "module": call(175, 0, 0, 0),
        "memfd": call(319, b"x", 0),
        "shared memory": call(29, 0, 4096, 0o1600),
        "userfaultfd": call(323, 0),
        "packet socket": outcome(lambda: socket.socket(17, 3)),
        "vsock": outcome(lambda: socket.socket(40, 1)),
        "raw socket": outcome(lambda: socket.socket(2, 3, 1)),
        "host loopback": connect(socket.AF_INET, ("127.0.0.1", port)),
        "host loopback by IPv6": connect(socket.AF_INET6, ("::ffff:127.0.0.1", port)),
        "metadata": connect(socket.AF_INET, ("169.254.169.254", 80)),
        "metadata by UDP": connect(socket.AF_INET, ("169.254.169.254", 53), socket.SOCK_DGRAM),
        "outside": connect(socket.AF_INET, ("192.0.2.1", 80)),
        "abstract socket": connect(socket.AF_UNIX, "\0" + given["abstract"]),
        "path socket": connect(socket.AF_UNIX, given["path_socket"]),
        "session": outcome(lambda: os.setsid() and None),
        "weight of the session": write("/proc/self/autogroup"),
        "user": os.getuid() != 0 and outcome(lambda: os.setuid(0)),
        "capabilities": status("CapEff"),
        "bounding": status("NoNewPrivs"),
        "filter": status("Seccomp"),
        "set-user-id": subprocess.call(["/bin/su", "-c", "true"], stderr=-3, stdin=-3) != 0
        if os.path.exists("/bin/su")
        else True,
        "limits": outcome(lambda: raised()),
        "bounds": [resource.getrlimit(limit) for limit in BOUNDS],
        "badness": outcome(badness),
        "variables": sorted(os.environ),
    }
    if context.req.path in ("/full", "/reduced"):
        found["files"] = open_files()
        found["forks"] = forks()
        found["groups"] = groups()
    if context.req.path == "/full":
        found["fill"] = fill()
        found["entries"] = entries()
        daemon()
    return context.res.json(found)


def raised():
    try:
        resource.setrlimit(resource.RLIMIT_NPROC, (300, 300))
    except ValueError:
        return "EPERM"
    return "done"

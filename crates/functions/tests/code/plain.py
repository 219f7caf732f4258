"""Has no loop of its own, and hands on what another file makes to be awaited."""

import sys
import threading

import awaited


def stop(context):
    raise StopIteration


def whose(context):
    print(context.req.query["who"])
    return context.res.text(threading.current_thread() is threading.main_thread())


ROUTES = {
    "/text": lambda context: context.res.text("plain"),
    "/whose": whose,
    "/stop": stop,
    "/awaited": awaited.answer,
    "/never": awaited.never,
    "/fails": awaited.fails,
    # The word itself must not stand in this file.
    "/has-loop": lambda context: context.res.json("".join(["a", "syncio"]) in sys.modules),
}


def main(context):
    return ROUTES[context.req.path](context)

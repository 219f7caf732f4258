"""What the recorded conversation in `runtimes/frames` is held with."""

import asyncio
import os


async def main(context):
    req, res = context.req, context.res
    if req.path == "/wait":
        await asyncio.Event().wait()
    if req.path == "/length":
        return res.text(len(req.body_binary))
    context.log("one", os.environ["ONE"])
    context.error("two")
    return res.text("logged", 201, {"x-b": "2"})

"""What must be awaited, for a handler in a file that does not say so."""


async def answer(context):
    import asyncio

    await asyncio.sleep(0.01)
    print("after the wait")
    return context.res.text("awaited")


async def never(context):
    import asyncio

    await asyncio.Event().wait()


async def fails(context):
    raise ValueError("while it was awaited")

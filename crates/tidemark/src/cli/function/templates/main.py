def main(context):
    """Called for each run, many at once. The reference of functions says what is in `context`."""
    req, res = context.req, context.res
    context.log(f"{req.method} {req.path}")
    given = req.body_json if req.body_text else {}
    return res.json({"hello": "world", "given": given})

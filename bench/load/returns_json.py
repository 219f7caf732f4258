def main(context):
    """Returns JSON, as column E1 of the published load test does."""
    return context.res.json({"hello": "world", "given": context.req.body_json})

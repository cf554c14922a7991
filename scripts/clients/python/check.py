"""Runs a client's checks and reports each as a line of JSON on standard output."""

import asyncio
import inspect
import json
import os
import traceback

MODEL = os.environ["CLIENT_MODEL"]
# The demo model calls a tool when the prompt says so, and then answers with what the tool returned.
SUM_QUESTION = 'What is 17 + 25? Please call add with {"a":17,"b":25}'

# Asynchronous clients keep connections that belong to one event loop.
loop = asyncio.new_event_loop()


def check(feature, name):
    """Decorates a function that raises when the check fails. A failure does not stop the next check.

    The feature that it shows is plain, stream, tools or structured.
    """

    def run(function):
        try:
            result = function()
            if inspect.isawaitable(result):
                loop.run_until_complete(result)
            report = {"check": name, "feature": feature, "ok": True}
        except Exception:
            report = {"check": name, "feature": feature, "ok": False, "error": traceback.format_exc()}
        print("\n" + json.dumps(report), flush=True)
        return function

    return run

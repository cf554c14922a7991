import { Hono } from "hono";
import { expect, test } from "vitest";
import { z } from "zod";
import { readJson, readOptionalJson } from "./body.ts";
import type { Env } from "./context.ts";
import { asAuthError } from "./error-response.ts";

const schema = z.looseObject({});

test.each([readJson, readOptionalJson])(
  "if the client disconnects while sending the body, answers 400 and logs nothing: %o",
  async (read) => {
    const logged: string[] = [];
    const app = new Hono<Env>();
    app.post("/", async (c) => c.json((await read(c, schema)) ?? null));
    app.onError((error, c) => {
      const { status, code } = asAuthError(error, c, (line) => logged.push(line));
      return Response.json({ status, code });
    });
    const body = new ReadableStream({
      start(controller) {
        controller.enqueue(new TextEncoder().encode('{"email": "a@'));
        controller.error(new Error("aborted"));
      },
    });
    const init: RequestInit & { duplex: "half" } = { method: "POST", body, duplex: "half" };
    const answer = await app.request("/", init);
    expect(await answer.json()).toEqual({ status: 400, code: "bad_json" });
    expect(logged).toEqual([]);
  },
);

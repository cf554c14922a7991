import { createRequire } from "node:module";
import type { ServerBuild } from "@remix-run/node";
import { beforeAll, expect, test } from "vitest";
import { borrowFaultyWeb, type FaultyWeb } from "../../scripts/test/faulty-web.ts";

let { backend, web } = {} as FaultyWeb;

beforeAll(async () => {
  ({ backend, web } = await borrowFaultyWeb());
});

test("answers 404 at Remix's manifest endpoint", async () => {
  const { assets }: ServerBuild = createRequire(import.meta.url)("../../build/server/index.js");
  const response = await web.fetch(`/__manifest?version=${assets.version}&p=${"/a".repeat(3_700)}`);
  expect(response.status).toBe(404);
});

test.each(["/login", "/", "/no/such/page", "/auth/confirm", "/api/v1/auth/session", "/login.data"])(
  "forbids caching of %s, which reads the session",
  async (path) => {
    for (const cookie of [
      "",
      "sb-127-auth-token=garbage",
      await backend.cookieOf(await backend.session({ expiresIn: -10 })),
    ]) {
      const response = await web.fetch(path, { headers: { cookie } });
      await response.text();
      expect(response.headers.get("cache-control")).toBe("private, no-store");
    }
  },
);

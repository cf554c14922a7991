import { beforeAll, expect, test, vi } from "vitest";
import { borrowFaultyWeb, type FaultyWeb } from "../../scripts/test/faulty-web.ts";

let { backend, web } = {} as FaultyWeb;

beforeAll(async () => {
  ({ backend, web } = await borrowFaultyWeb());
});

test("a request that the visitor aborts is not logged as a server error", async () => {
  backend.state = "hang";
  const headers = { cookie: await backend.cookieOf(await backend.session()), "x-request-id": "left-1" };
  const leaving = new AbortController();
  const visit = web.fetch("/", { headers, signal: leaving.signal }).catch(() => null);
  await vi.waitUntil(() => backend.count("POST /rest/v1/rpc/device_session_state") === 1, { timeout: 10_000 });
  leaving.abort();
  await visit;
  await vi.waitUntil(() => web.output().includes("request=left-1"), { timeout: 10_000 });
  expect(web.output()).toMatch(/status=499 method=GET path="\/" .*request=left-1/);
  expect(web.output()).not.toContain("error request=left-1");
  backend.state = "ok";
});

test.each(["/login?_data=x", "/workspaces?_data=root", "/login?returnUrl=%2Fa&_data"])(
  "answers %s like any other page, because the data protocol of Remix is not supported",
  async (path) => {
    const before = web.output().length;
    const response = await web.fetch(path);
    expect([200, 302]).toContain(response.status);
    await response.text();
    expect(web.output().slice(before)).not.toMatch(/error|Error/);
  },
);

test("redirects a start page URL with extra slashes to the sign-in page", async () => {
  expect((await web.fetch("//")).headers.get("location")).toBe("/login");
});

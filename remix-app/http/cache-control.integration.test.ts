import { afterAll, beforeAll, expect, test } from "vitest";
import { type IdentityBackend, startIdentityBackend } from "../testing/identity-backend.ts";
import { startWeb, type WebProcess } from "../testing/web-process.ts";

let backend: IdentityBackend;
let web: WebProcess;
let manifest: string;

beforeAll(async () => {
  backend = await startIdentityBackend();
  web = await startWeb(backend.url);
  const home = await web.fetch("/", { headers: { cookie: await backend.vault.cookieOf(await backend.session()) } });
  const version = /\/assets\/manifest-(\w+)\.js/.exec(await home.text())?.[1];
  manifest = `/__manifest?p=%2F&version=${version}`;
});
afterAll(async () => {
  await web.stop();
  await backend.close();
});

test.each([
  [
    "that is about to expire",
    () => backend.session({ expiresIn: 10 }).then((session) => backend.vault.cookieOf(session)),
  ],
  ["that has expired", () => backend.session({ expiresIn: -10 }).then((session) => backend.vault.cookieOf(session))],
  ["that is not whole", async () => "sb-127-auth-token=garbage"],
  ["that is none", async () => ""],
])("the manifest of routes is everyone's: a session %s leaves nothing in it", async (_, cookie) => {
  const response = await web.fetch(manifest, { headers: { cookie: await cookie() } });
  expect([response.status, response.headers.getSetCookie()]).toEqual([200, []]);
  expect(await response.json()).toHaveProperty("root");
  expect(backend.count("POST /auth/v1/token")).toBe(0);
});

test("the manifest is read by GET and HEAD alone", async () => {
  expect((await web.fetch(manifest, { method: "HEAD" })).status).toBe(200);
  for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
    const response = await web.fetch(manifest, { method, headers: { "sec-fetch-site": "same-origin" } });
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD"]);
  }
});

test.each(["/login", "/", "/no/such/page", "/auth/confirm", "/api/v1/auth/session", "/login.data"])(
  "%s, which reads the session, is kept by no cache",
  async (path) => {
    for (const cookie of [
      "",
      "sb-127-auth-token=garbage",
      await backend.vault.cookieOf(await backend.session({ expiresIn: -10 })),
    ]) {
      const response = await web.fetch(path, { headers: { cookie } });
      await response.text();
      expect(response.headers.get("cache-control")).toBe("private, no-store");
    }
  },
);

import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { callAtOnce } from "../../remix-app/testing/at-once.ts";
import { type Browser, openBrowser } from "../../remix-app/testing/browser.ts";
import { freePort, startSatellite, type WebProcess } from "../../remix-app/testing/web-process.ts";
import { createApp, createPerson, mint, type Person, service, type TestApp } from "../../scripts/test/apps.ts";
import { query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";

const { base } = readStack();
const recorded = {
  nodeOptions: ["--import", new URL("../../remix-app/testing/record-connections.ts", import.meta.url).href],
};

/** Returns the hosts that a process has connected to so far. */
const connections = (process: WebProcess) => [
  ...new Set([...process.output().matchAll(/^connects to (.*)$/gm)].map(([, place]) => place)),
];

interface Passage {
  server: Server;
  url: string;
  asked: string[];
  /** If set, the proxy returns this status instead of the platform's response. */
  failing: number | null;
}

/** Starts a proxy in front of the platform that records requests and passes them on. */
async function openPassage(): Promise<Passage> {
  const asked: string[] = [];
  const server = createServer(async (request, response) => {
    asked.push(`${request.method} ${request.url}`);
    if (opened.failing) {
      response.writeHead(opened.failing).end();
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = Object.entries(request.headers).flatMap(([name, value]): [string, string][] =>
      /^(host|connection|content-length|transfer-encoding|expect)$/.test(name) ? [] : [[name, String(value)]],
    );
    const answer = await fetch(new URL(request.url ?? "", base), {
      method: request.method ?? "GET",
      headers,
      redirect: "manual",
      ...(chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}),
    });
    response.writeHead(answer.status, { "content-type": answer.headers.get("content-type") ?? "text/plain" });
    response.end(Buffer.from(await answer.arrayBuffer()));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const opened: Passage = { server, url, asked, failing: null };
  return opened;
}

let passage: Passage;
let satellite: WebProcess;
let app: TestApp;
let person: Person;

beforeAll(async () => {
  passage = await openPassage();
  const port = await freePort();
  const scopes = ["profile", "workspaces:read", "workspaces:write"];
  [person, app] = await Promise.all([createPerson(), createApp({ scopes, origins: [`http://127.0.0.1:${port}`] })]);
  satellite = await startSatellite({ app, centralUrl: base, centralApiUrl: passage.url, port, ...recorded });
});
afterAll(async () => {
  await satellite.stop();
  passage.server.close();
  await service.auth.admin.deleteUser(person.id);
});

async function enter(): Promise<Browser> {
  const browser = openBrowser(satellite.base);
  const done = await browser.post("/verify-token", { token: await mint(person, app), nextUrl: "/" });
  expect(done.status).toBe(303);
  return browser;
}

describe("a satellite's calls to the platform", () => {
  test("a satellite's process connects only to the platform", async () => {
    const stranger = openBrowser(satellite.base);
    for (const path of ["/", "/sign-in", "/w/1", "/login", "/assets/none.js"]) await stranger.get(path);
    const link = `/verify-token?token=${await mint(person, app)}&nextUrl=/&state=other`;
    expect((await stranger.get(link)).words).toContain(`Continue as ${person.email}`);
    await stranger.postJson("/api/auth/verify-app-token", { token: "nonsense" });

    const browser = await enter();
    const home = await browser.get("/");
    expect(home.words).toContain(`Signed in as ${person.email}`);
    const [, workspace = ""] = /href="(\/w\/[0-9a-f-]{36})"/.exec(home.text) ?? [];
    expect((await browser.post(workspace, { name: "Scanned" })).location).toBe(`${workspace}?renamed`);
    await query("update private.app_sessions set expires_at = now() + interval '10 minutes' where user_id = $1", [
      person.id,
    ]);
    await browser.get("/");
    await browser.post("/sign-out", {});

    expect(connections(satellite)).toEqual([new URL(passage.url).host]);
    const calls = new Set(passage.asked.map((line) => line.replace(/[0-9a-f-]{36}/, "{id}")));
    expect([...calls].sort()).toEqual([
      "GET /api/v1/workspaces",
      "PATCH /api/v1/workspaces/{id}",
      "POST /api/v1/auth/app-sessions/introspect",
      "POST /api/v1/auth/app-sessions/refresh",
      "POST /api/v1/auth/app-sessions/revoke",
      "POST /api/v1/auth/cross-app-tokens/validate",
    ]);
  });

  test("a satellite's session that expires soon is refreshed only once for concurrent requests", async () => {
    const browser = await enter();
    await query(
      "update private.app_sessions set expires_at = now() + interval '59 minutes' where user_id = $1 and revoked_at is null",
      [person.id],
    );
    passage.asked.length = 0;
    const held = browser.cookie();
    const answers = await callAtOnce(() =>
      fetch(`${satellite.base}/`, { headers: { accept: "text/html", cookie: held } }),
    );
    const texts = await Promise.all(answers.map((answer) => answer.text()));
    expect(texts.filter((text) => !text.includes(person.email))).toEqual([]);
    // Each of the two sessions was refreshed once. All requests got the same cookies, and later requests needed no
    // refresh.
    expect(passage.asked.filter((line) => line.endsWith("/app-sessions/refresh"))).toHaveLength(2);
    const kept = answers.map((answer) => answer.headers.getSetCookie().map((line) => line.split(";")[0]));
    const next = [...new Set(kept.map((pairs) => pairs.join("; ")))].filter((pairs) => pairs !== "");
    expect(next).toEqual([expect.stringMatching(/^platform_app_session=.+; platform_central_session=.+$/)]);
    const later = await openBrowser(satellite.base, { cookie: next[0] ?? "" }).get("/");
    expect(later.words).toContain(`Signed in as ${person.email}`);
    expect(passage.asked.filter((line) => line.endsWith("/app-sessions/refresh"))).toHaveLength(2);
  });

  test.each([502, 503])(
    "a satellite reports an outage if the platform returns %i, and keeps its session cookies",
    async (status) => {
      const browser = await enter();
      const held = browser.cookie();
      passage.failing = status;
      try {
        const home = await browser.get("/");
        const verified = await browser.postJson("/api/auth/verify-app-token", { token: "any" });
        expect([home.status, verified.status, JSON.parse(verified.text).code]).toEqual([503, 503, "AUTH_UNAVAILABLE"]);
      } finally {
        passage.failing = null;
      }
      expect(browser.cookie()).toBe(held);
      expect((await browser.get("/")).words).toContain(`Signed in as ${person.email}`);
    },
  );

  test("a satellite does not refresh a session that expires in more than an hour", async () => {
    const browser = await enter();
    await query(
      "update private.app_sessions set expires_at = now() + interval '61 minutes' where user_id = $1 and revoked_at is null",
      [person.id],
    );
    passage.asked.length = 0;
    await browser.get("/");
    expect(passage.asked).toEqual(["POST /api/v1/auth/app-sessions/introspect", "GET /api/v1/workspaces"]);
  });
});

test("a satellite answers a form of 70 KB with 413 and a body that is not a form with 400, and logs no stack", async () => {
  const browser = openBrowser(satellite.base);
  await browser.post("/verify-token", { token: await mint(person, app), nextUrl: "/" });
  const [, page = ""] = /href="(\/w\/[0-9a-f-]{36})"/.exec((await browser.get("/")).text) ?? [];
  const post = async (body: BodyInit, type = "application/x-www-form-urlencoded") => {
    const headers = { "sec-fetch-site": "same-origin", cookie: browser.cookie(), "content-type": type };
    return (await satellite.fetch(page, { method: "POST", headers, body, duplex: "half" } as RequestInit)).status;
  };
  const large = `name=${"x".repeat(70_000)}`;
  expect([await post(large), await post(new Blob([large]).stream())]).toEqual([413, 413]);
  for (const [body, type] of [
    ["--b\r\nnonsense", "multipart/form-data; boundary=b"],
    ["x", "multipart/form-data"],
    ["{}", "application/json"],
  ] as const) {
    expect(await post(body, type)).toBe(400);
  }
  expect(satellite.output()).not.toMatch(/^ +at /m);
});

test("a session cookie of 5,000 characters is cleared, not answered with 503", async () => {
  const long = "x".repeat(5_000);
  for (const cookie of [`platform_app_session=${long}`, `platform_app_session=a; platform_central_session=${long}`]) {
    const response = await satellite.fetch("/", { headers: { accept: "text/html", cookie } });
    expect([response.status, await response.text()]).toEqual([200, expect.stringContaining("Sign in with your")]);
    expect(response.headers.getSetCookie().join()).toMatch(/platform_app_session=;.*Max-Age=0/);
  }
});

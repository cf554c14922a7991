import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connect } from "./agents.ts";
import { signIn, signOut } from "./login.ts";
import { escapeUnprintable } from "./printable.ts";
import { Store } from "./store.ts";
import { chooseWorkspace } from "./workspaces.ts";

type Answer = { status?: number; body: object };

let server: Server;
let url: string;
let store: Store;
let answers: Record<string, (calls: number) => Answer>;
let calls: Record<string, number[]>;

const hour = 3_600_000;
const device = { device_code: "d", user_code: "ABCD", expires_in: 60, interval: 1 };

beforeEach(async () => {
  store = new Store(await mkdtemp(join(tmpdir(), "gatehouse-hostile-")));
  calls = {};
  server = createServer(async (request, response) => {
    for await (const _ of request);
    const path = request.url?.split("?")[0] ?? "";
    const times = [...(calls[path] ?? []), performance.now()];
    calls[path] = times;
    const { status = 200, body } = answers[path]?.(times.length) ?? { status: 404, body: {} };
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  answers = {
    "/oauth/device_authorization": () => ({ body: { ...device, verification_uri: `${url}/device` } }),
    "/oauth/token": () => ({ body: { access_token: "a", refresh_token: "r", expires_in: 3_600 } }),
    "/oauth/userinfo": () => ({ body: { sub: "s", email: "ann@example.com" } }),
    "/oauth/revoke": () => ({ body: {} }),
    "/api/v1/workspaces": () => ({ body: { workspaces: [{ id: "w", name: "Acme" }], nextCursor: null } }),
    "/api/v1/workspaces/w/ai/agents": () => ({ body: { state: "connected", connection: { id: "c" } } }),
  };
});
afterEach(async () => {
  server.close();
  await rm(store.folder, { recursive: true });
});

const begin = () => signIn(store, { url, clientId: "gatehouse", print: () => {} });
const login = () => ({
  url,
  clientId: "gatehouse",
  account: "ann@example.com",
  accessToken: "a",
  accessExpiresAt: Date.now() + hour,
  refreshToken: "r",
});

describe("signing in", () => {
  // RFC 8628, 3.2: the interval is the minimum number of seconds between polls.
  test.for([-5, 0, 0.001])("waits at least a second between polls for the interval %s", async (interval) => {
    answers["/oauth/device_authorization"] = () => ({
      body: { ...device, verification_uri: `${url}/device`, interval },
    });
    answers["/oauth/token"] = (count) =>
      count < 2
        ? { status: 400, body: { error: "authorization_pending" } }
        : { body: { access_token: "a", refresh_token: "r", expires_in: 3_600 } };
    const began = performance.now();
    await begin();
    const times = [began, ...(calls["/oauth/token"] ?? [])];
    for (const [index, time] of times.slice(1).entries()) expect(time - (times[index] ?? 0)).toBeGreaterThan(950);
  });

  test.for([
    "javascript:alert(1)",
    "file:///etc/passwd",
    "data:text/html,x",
    "http://example.com/device",
    "ssh://-oProxyCommand=x/",
    "/device",
    "",
  ])("refuses the verification address %j", async (address) => {
    for (const field of ["verification_uri", "verification_uri_complete"]) {
      answers["/oauth/device_authorization"] = () => ({
        body: { ...device, verification_uri: `${url}/device`, [field]: address },
      });
      await expect(begin()).rejects.toMatchObject({ kind: "refused" });
    }
    expect(calls["/oauth/token"]).toBeUndefined();
  });
});

test.for([
  ["\u001b[2J\u001b]0;x\u0007", "\\u001b[2J\\u001b]0;x\\u0007"],
  ["a\nSigned out.", "a\\u000aSigned out."],
  ["\u009b31m", "\\u009b31m"],
  ["a\u202eb\u200bc", "a\\u202eb\\u200bc"],
  ["Größe 東京 🙂", "Größe 東京 🙂"],
] as const)("prints the name %j harmlessly", ([text, shown]) => {
  expect(escapeUnprintable(text)).toBe(shown);
});

test("stops reading workspaces after a hundred pages", async () => {
  answers["/api/v1/workspaces"] = (count) => ({ body: { workspaces: [], nextCursor: `next-${count}` } });
  const answer = chooseWorkspace(login(), { requested: "acme", connectedId: undefined });
  await expect(answer).rejects.toMatchObject({ kind: "refused" });
  expect(calls["/api/v1/workspaces"]).toHaveLength(100);
});

test.for([
  { gatewayUrl: "http://example.com/functions" },
  { gatewayUrl: "javascript:alert(1)" },
  { gatewayUrl: "//example.com" },
  { secret: "ttr_ai_x\u001b[2J" },
  { secret: "x; rm -rf ~" },
  { expiresAt: "soon" },
])("connects no agent to a platform that issues %j", async (wrong) => {
  await store.writeLogin(login());
  const key = { secret: "ttr_ai_x", expiresAt: new Date(Date.now() + hour).toISOString(), gatewayUrl: url };
  answers["/api/v1/workspaces/w/ai/agents/c/keys"] = () => ({ body: { ...key, ...wrong } });
  const answer = connect(store, { tool: "claude", workspace: undefined, model: undefined, limit: undefined });
  await expect(answer).rejects.toMatchObject({ kind: "refused" });
  expect(await readdir(store.folder)).toEqual(["login.json"]);
});

test.for([
  ["answers 500", { status: 500, body: {} }],
  ["answers 429", { status: 429, body: { error: "slow_down" } }],
  ["no longer knows the client", { status: 401, body: { error: "invalid_client" } }],
  ["answers something else", { status: 404, body: {} }],
  ["is gone", undefined],
] as [string, Answer | undefined][])(
  "signs out on this computer if the platform %s, and says so",
  async ([, answer]) => {
    await store.writeLogin(login());
    await store.writeKey("claude", "ttr_ai_x");
    if (answer) answers["/oauth/revoke"] = () => answer;
    else await new Promise((resolve) => server.close(resolve));
    const { fault } = await signOut(store);
    expect(fault).toContain("127.0.0.1");
    expect(await readdir(store.folder)).toEqual([]);
  },
);

test("reports no fault when the platform ends the sign-in", async () => {
  await store.writeLogin(login());
  expect(await signOut(store)).toMatchObject({ url, fault: null });
});

import { mkdtemp, rm } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readToken } from "./agents.ts";
import { signIn } from "./login.ts";
import { withLock } from "./private-files.ts";
import { type Login, Store } from "./store.ts";

const hour = 3_600_000;
/** Responses of a platform that approves each sign-in immediately, and whose API returns 429. */
const answers: Record<string, object> = {
  "/oauth/device_authorization": {
    device_code: "d",
    user_code: "ABCD",
    verification_uri: "http://127.0.0.1/device",
    expires_in: 60,
    interval: 0,
  },
  "/oauth/token": { access_token: "new", refresh_token: "new-refresh", expires_in: 3_600 },
  "/oauth/userinfo": { sub: "s", email: "ann@example.com" },
  "/oauth/revoke": {},
};
let server: Server;
let url: string;
let store: Store;
let revoked: string[];

beforeEach(async () => {
  store = new Store(await mkdtemp(join(tmpdir(), "gatehouse-login-")));
  revoked = [];
  server = createServer(async (request, response) => {
    let body = "";
    for await (const piece of request) body += piece;
    if (request.url === "/oauth/revoke") revoked.push(new URLSearchParams(body).get("token") ?? "");
    const answer = answers[request.url ?? ""];
    response.writeHead(answer ? 200 : 429, { "content-type": "application/json" });
    response.end(JSON.stringify(answer ?? { detail: "Too many attempts." }));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterEach(async () => {
  server.close();
  await rm(store.folder, { recursive: true });
});

const loginWith = (refreshToken: string): Login => ({
  url,
  clientId: "gatehouse",
  account: "ann@example.com",
  accessToken: "old",
  accessExpiresAt: Date.now() + hour,
  refreshToken,
});

test("a gatehouse sign-in waits for a token refresh in progress, and then revokes the refreshed token", async () => {
  await store.writeLogin(loginWith("old-refresh"));
  let signingIn: Promise<Login> | undefined;
  await withLock(store.folder, async () => {
    signingIn = signIn(store, { url, clientId: "gatehouse", print: () => {} });
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect((await store.readLogin())?.refreshToken).toBe("old-refresh");
    await store.writeLogin(loginWith("refreshed"));
  });
  await signingIn;
  expect((await store.readLogin())?.refreshToken).toBe("new-refresh");
  expect(revoked).toEqual(["refreshed"]);
});

test("an agent still gets its valid key when the platform returns 429", async () => {
  await store.writeLogin(loginWith("old-refresh"));
  await store.writeKey("claude", "ttr_ai_x");
  await store.writeConnection("claude", {
    url,
    workspaceId: "w",
    workspaceName: "Acme",
    connectionId: "c",
    gatewayUrl: url,
    keyExpiresAt: Date.now() + hour,
    configuration: null,
  });
  expect(await readToken(store, "claude")).toBe("ttr_ai_x");
});

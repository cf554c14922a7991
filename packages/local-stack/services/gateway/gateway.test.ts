import { once } from "node:events";
import {
  Agent,
  createServer,
  request as httpRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { Socket } from "node:net";
import { text } from "node:stream/consumers";
import { createAdaptorServer, type ServerType } from "@hono/node-server";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createDataApi, type DataApi } from "../data-api/data-api.ts";
import { createGateway } from "./app.ts";
import { createTokenVerifier } from "./user-tokens.ts";

const publishable = "sb_publishable_gateway_test";
const secret = "sb_secret_gateway_test";
const nowhere = "http://127.0.0.1:9";

let service: Server;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let origin: string;
let dataApi: DataApi;
const servers: (Server | ServerType)[] = [];

async function listen<T extends Server | ServerType>(server: T): Promise<string> {
  servers.push(server);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("no port");
  return `http://127.0.0.1:${address.port}`;
}

async function startGateway(services: { identity: string; functions: string }): Promise<string> {
  const config = {
    port: 0,
    host: "127.0.0.1",
    identityUrl: services.identity,
    functionsUrl: services.functions,
    databaseUrl: "",
    schemas: ["public"],
    keys: { publishable, secret },
    roleTokens: { publishable: "anon.role.token", secret: "service.role.token" },
    issuer: "http://127.0.0.1/auth/v1",
  };
  const jwksUrl = new URL("/.well-known/jwks.json", services.identity);
  const verify = createTokenVerifier({ jwksUrl, issuer: config.issuer, audience: "authenticated" });
  return listen(
    createAdaptorServer({ fetch: createGateway({ config, dataApi, verify }).fetch, overrideGlobalObjects: false }),
  );
}

/** Responds with the request as received. */
function echo(request: IncomingMessage, response: ServerResponse): void {
  let body = "";
  request.on("data", (chunk) => (body += chunk));
  request.on("end", () => {
    const { method, url, headers } = request;
    response
      .setHeader("content-type", "application/json")
      .setHeader("access-control-allow-origin", "https://service.test");
    response.end(JSON.stringify({ method, url, headers, body }));
  });
}

type Echo = { method: string; url: string; headers: Record<string, string>; body: string };
const ask = async (path: string, init?: RequestInit): Promise<Echo> => (await fetch(origin + path, init)).json();

beforeAll(async () => {
  dataApi = createDataApi({ databaseUrl: "postgres://unused@127.0.0.1:9/none", schemas: ["public"] });
  service = createServer((request, response) => answer(request, response));
  const url = await listen(service);
  origin = await startGateway({ identity: url, functions: url });
});

afterAll(async () => {
  for (const server of servers) {
    if ("closeAllConnections" in server) server.closeAllConnections();
    server.close();
  }
  await dataApi.close();
});

beforeEach(() => {
  answer = echo;
});

describe("API keys", () => {
  test.each(["/auth/v1/settings", "/auth/v1/health", "/rest/v1/notes"])("%s requires an API key", async (path) => {
    const response = await fetch(origin + path);
    expect(response.status).toBe(401);
    expect(response.headers.get("sb-error-code")).toBe("UNAUTHORIZED_MISSING_API_KEY");
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(await response.json()).toEqual({
      message: "No API key found in request",
      hint: "No `apikey` request header or url param was found.",
    });
  });

  test.each(["/auth/v1/settings", "/rest/v1/notes"])("%s refuses an unknown API key", async (path) => {
    for (const key of ["sb_secret_other", `${publishable}x`, "anon.role.token"]) {
      const response = await fetch(origin + path, { headers: { apikey: key } });
      expect(response.status).toBe(401);
      expect(await response.json()).toMatchObject({ message: "Invalid API key" });
    }
  });

  test("the secret key is refused in a browser", async () => {
    const headers = { apikey: secret, "user-agent": "Mozilla/5.0 (X11; Linux x86_64)" };
    const response = await fetch(`${origin}/auth/v1/settings`, { headers });
    expect(response.status).toBe(401);
    expect(await response.json()).toMatchObject({ message: "Forbidden use of secret API key in browser" });
  });

  test.each([
    "/auth/v1/verify?token=t&type=signup",
    "/auth/v1/callback?code=c",
    "/auth/v1/authorize?provider=github",
    "/auth/v1/.well-known/jwks.json",
  ])("%s needs no API key", async (path) => {
    expect((await ask(path)).url).toBe(path.slice("/auth/v1".length));
  });

  test.each(["/auth/v1/verify/../admin/users", "/auth/v1/verify/%2e%2e/admin/users", "/auth/v1/verifyx"])(
    "%s cannot be used to bypass the API key",
    async (path) => {
      const status = await new Promise((resolve) => {
        const { port } = new URL(origin);
        httpRequest({ port, host: "127.0.0.1", path }, (response) => resolve(response.resume().statusCode)).end();
      });
      expect(status).toBe(401);
    },
  );
});

describe("requests to Supabase Auth", () => {
  test("replaces an opaque API key in the apikey or Authorization header with the identity backend's role token", async () => {
    const authorizationOf = async (headers: Record<string, string>) =>
      (await ask("/auth/v1/admin/users", { headers })).headers.authorization;
    expect(await authorizationOf({ apikey: publishable })).toBe("Bearer anon.role.token");
    expect(await authorizationOf({ apikey: secret })).toBe("Bearer service.role.token");
    expect(await authorizationOf({ apikey: secret, authorization: `Bearer ${publishable}` })).toBe(
      "Bearer anon.role.token",
    );
    expect(await authorizationOf({ apikey: publishable, authorization: "Bearer a.user.token" })).toBe(
      "Bearer a.user.token",
    );
    expect(await authorizationOf({ apikey: publishable, authorization: "Bearer " })).toBe("Bearer anon.role.token");
  });

  test("refuses an unknown opaque API key in the Authorization header", async () => {
    const headers = { apikey: publishable, authorization: "Bearer sb_secret_guess" };
    expect((await fetch(`${origin}/auth/v1/user`, { headers })).status).toBe(401);
  });

  test("accepts an API key in the query and does not forward it", async () => {
    const { url, headers } = await ask(`/auth/v1/settings?apikey=${publishable}&a=%20b`);
    expect(url).not.toContain("apikey");
    expect(headers).not.toHaveProperty("apikey");
  });

  test("trusts a client address stated in a request only if the request has the secret key", async () => {
    const visitor = { "sb-forwarded-for": "203.0.113.7" };
    expect((await ask("/auth/v1/token", { headers: { ...visitor, apikey: secret } })).headers).toMatchObject(visitor);
    for (const headers of [{ ...visitor, apikey: publishable }, visitor]) {
      expect((await ask("/auth/v1/verify", { headers })).headers).not.toHaveProperty("sb-forwarded-for");
    }
  });

  test("the gateway sets the forwarded headers itself and ignores the client's", async () => {
    const forged = { "x-forwarded-for": "203.0.113.7", "x-forwarded-host": "evil.test", "x-forwarded-proto": "https" };
    const { headers } = await ask("/auth/v1/settings", { headers: { ...forged, apikey: publishable } });
    expect(headers).toMatchObject({
      "x-forwarded-for": "127.0.0.1",
      "x-forwarded-host": new URL(origin).host,
      "x-forwarded-proto": "http",
    });
  });

  test("lets other origins read the response and Supabase's own headers, overriding the service's CORS headers", async () => {
    const response = await fetch(`${origin}/auth/v1/settings`, { headers: { apikey: publishable } });
    expect(response.headers.get("access-control-allow-origin")).toBe("*");
    expect(response.headers.get("access-control-expose-headers")).toContain("X-Supabase-Api-Version");
  });

  test.each(["auth", "rest"])("answers a preflight for /%s/v1 without an API key", async (api) => {
    const asked = "apikey,authorization,content-profile,prefer,x-client-info,x-supabase-api-version,x-retry-count";
    const response = await fetch(`${origin}/${api}/v1/anything`, {
      method: "OPTIONS",
      headers: {
        origin: "https://app.test",
        "access-control-request-method": "PATCH",
        "access-control-request-headers": asked,
      },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-methods")).toContain("PATCH");
    const allowed = response.headers.get("access-control-allow-headers")?.split(", ");
    expect(allowed).toEqual(expect.arrayContaining(asked.split(",")));
  });
});

describe("Functions", () => {
  test("functions need no API key, and receive the request without its sb-forwarded-for header", async () => {
    const headers = { authorization: "Bearer ttr_ai_key", "x-request-id": "r1", "sb-forwarded-for": "203.0.113.7" };
    const reached = await ask("/functions/v1/chat/completions?x=a%20b", { method: "POST", headers, body: "raw" });
    expect(reached).toMatchObject({ method: "POST", url: "/functions/v1/chat/completions?x=a%20b", body: "raw" });
    expect(reached.headers).toMatchObject({ authorization: "Bearer ttr_ai_key", "x-request-id": "r1" });
    expect(reached.headers).not.toHaveProperty("sb-forwarded-for");
  });

  test("functions keep their own CORS headers, including for preflights", async () => {
    const response = await fetch(`${origin}/functions/v1/chat`, {
      method: "OPTIONS",
      headers: { origin: "https://app.test", "access-control-request-method": "POST" },
    });
    expect(response.status).toBe(200);
    expect(response.headers.get("access-control-allow-origin")).toBe("https://service.test");
    expect(response.headers.get("access-control-allow-headers")).toBeNull();
  });

  test("returns a function's status, headers and cookies unchanged, without following redirects", async () => {
    answer = (_request, response) => {
      response.writeHead(307, {
        location: "/elsewhere",
        "set-cookie": ["a=1", "b=2"],
        connection: "x-hop",
        "x-hop": "1",
      });
      response.end();
    };
    const response = await fetch(`${origin}/functions/v1/move`, { redirect: "manual" });
    expect(response.status).toBe(307);
    expect(response.headers.get("location")).toBe("/elsewhere");
    expect(response.headers.getSetCookie()).toEqual(["a=1", "b=2"]);
    expect(response.headers.get("x-hop")).toBeNull();
  });

  test("functions receive the complete body of a POST or DELETE request without a Content-Length", async () => {
    for (const method of ["POST", "DELETE"]) {
      const body = new ReadableStream({
        start(controller) {
          for (const part of ["one,", "two"]) controller.enqueue(new TextEncoder().encode(part));
          controller.close();
        },
      });
      const init = { method, body, duplex: "half" } as RequestInit;
      expect((await ask("/functions/v1/upload", init)).body).toBe("one,two");
    }
  });

  test("streams a function's response chunk by chunk, sending the first bytes before the last exist", async () => {
    let finish: (() => void) | undefined;
    answer = (_request, response) => {
      response.writeHead(200, { "content-type": "text/event-stream" });
      response.write("data: 1\n\n");
      finish = () => response.end("data: 2\n\n");
    };
    const response = await fetch(`${origin}/functions/v1/stream`);
    const reader = response.body?.getReader();
    const first = await reader?.read();
    expect(Buffer.from(first?.value ?? []).toString()).toBe("data: 1\n\n");
    finish?.();
    const second = await reader?.read();
    expect(Buffer.from(second?.value ?? []).toString()).toBe("data: 2\n\n");
  });

  test.each(["before the answer", "in the middle of the answer"])(
    "ends the request to a function when the client disconnects %s",
    async (when) => {
      const closed = vi.fn();
      const reached = new Promise<void>((resolve) => {
        answer = (_request, response) => {
          response.once("close", () => closed(response.writableFinished));
          if (when !== "before the answer") response.write("begun");
          resolve();
        };
      });
      const client = new AbortController();
      const asked = fetch(`${origin}/functions/v1/slow`, { signal: client.signal });
      await reached;
      if (when !== "before the answer") await (await asked).body?.getReader().read();
      client.abort();
      await asked.catch(() => undefined);
      await vi.waitFor(() => expect(closed).toHaveBeenCalledWith(false));
    },
  );

  test("a function that reads only part of a body does not block the client's next request", async () => {
    answer = (request, response) => {
      request.once("data", () => {
        request.pause();
        response.end("enough");
      });
    };
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    // The upload is only slightly larger than the buffers on the way to the function. The bytes that do not fit must
    // arrive within half a second.
    const upload = Buffer.alloc(8_000_000);
    try {
      const sockets = new Set<Socket | undefined>();
      for (let calls = 0; calls < 3; calls += 1) {
        const call = httpRequest(`${origin}/functions/v1/upload`, { agent, method: "POST" });
        const sent = once(call, "finish");
        call.end(upload);
        const [response] = (await once(call, "response")) as [IncomingMessage];
        sockets.add(call.socket ?? undefined);
        expect(await text(response)).toBe("enough");
        await sent;
      }
      expect(sockets.size).toBe(1);
    } finally {
      agent.destroy();
    }
  });

  test("answers 503 if a service switches to another protocol", async () => {
    const switching = createServer().on("upgrade", (_request, socket) => {
      socket.end("HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n");
    });
    const url = await listen(switching);
    const gateway = await startGateway({ identity: url, functions: url });
    const headers = { connection: "upgrade", upgrade: "websocket" };
    const call = httpRequest(`${gateway}/functions/v1/socket`, { headers }).end();
    const [response] = (await once(call, "response")) as [IncomingMessage];
    expect(response.statusCode).toBe(503);
    expect(await text(response)).toContain("message");
  });

  test("cuts off the client's response if the service cuts off its response", async () => {
    answer = (_request, response) => {
      response.write("half of it");
      setTimeout(() => response.destroy(), 20);
    };
    const response = await fetch(`${origin}/functions/v1/broken`);
    await expect(response.text()).rejects.toThrow();
  });
});

describe("Unreachable services", () => {
  test("a call to an unreachable service gets a JSON error that pages of other origins can read", async () => {
    const lonely = await startGateway({ identity: nowhere, functions: nowhere });
    const auth = await fetch(`${lonely}/auth/v1/token`, {
      method: "POST",
      body: "{}",
      headers: { apikey: publishable },
    });
    expect(auth.status).toBe(503);
    expect(auth.headers.get("access-control-allow-origin")).toBe("*");
    expect(await auth.json()).toMatchObject({
      code: "service_unavailable",
      message: expect.stringContaining("identity"),
    });
    const functions = await fetch(`${lonely}/functions/v1/chat/completions`, { method: "POST", body: "{}" });
    expect(functions.status).toBe(503);
    expect(await functions.json()).toMatchObject({ message: expect.stringContaining("functions") });
  });

  test("answers with PostgREST's error code if the database is unreachable", async () => {
    const response = await fetch(`${origin}/rest/v1/notes`, { headers: { apikey: publishable } });
    expect(response.status).toBe(503);
    expect(await response.json()).toMatchObject({ code: "PGRST002" });
  });

  test("returns 404 for a path without a service", async () => {
    expect((await fetch(`${origin}/storage/v1/object`)).status).toBe(404);
    expect((await fetch(`${origin}/health`)).status).toBe(200);
  });
});

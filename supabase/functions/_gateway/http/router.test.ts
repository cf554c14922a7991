import { describe, expect, test } from "vitest";
import { createAiKey } from "../../_shared/ai-key.ts";
import { createHandler as createChat } from "../../chat/handler.ts";
import { createHandler as createModels } from "../../models/handler.ts";
import { createRunStarter } from "../admission/begin-runs.ts";
import { createCredentialReader } from "../admission/credentials.ts";
import { createRefusedCalls } from "../admission/refused-calls.ts";
import type { Gateway } from "../calls/gateway.ts";
import { createDatabase } from "../database/database.ts";
import { createCooldowns } from "../providers/cooldowns.ts";
import { timeLimitsOf } from "../providers/limits.ts";
import { createOpenRuns } from "../runs/open-runs.ts";
import { createSettlements } from "../runs/settlements.ts";
import { createBodyReader } from "./body.ts";
import { createBodyMemory } from "./body-memory.ts";

/** Creates a gateway without a database. Calls that need the database get 503, and all others are answered. */
function gateway(): Gateway {
  const database = createDatabase({ url: "postgres://gateway@127.0.0.1:9/postgres" });
  const waitUntil = () => {};
  const now = () => performance.now();
  return {
    database,
    beginRun: createRunStarter({ database, waitUntil }),
    providers: new Map(),
    cooldowns: createCooldowns({ now: () => 0 }),
    limits: timeLimitsOf({ totalSeconds: 1, isHosted: false }),
    readBody: createBodyReader(createBodyMemory(64 * 1024 * 1024)),
    readCredential: createCredentialReader(async () => ({ status: "unavailable" }), { identityHeaders: {} }),
    addressOf: () => undefined,
    isWebServer: () => false,
    watchEnvelope: () => () => {},
    waitForEnvelope: async () => ({ state: "over" }),
    stopping: new AbortController().signal,
    refusedCalls: createRefusedCalls({ record: database.recordRefusedCalls, waitUntil, report: () => {} }),
    settlements: createSettlements({ settle: database.settleRuns, waitUntil, report: () => {} }),
    openRuns: createOpenRuns({ heartbeat: database.heartbeatRuns, waitUntil }),
    now,
    waitUntil,
    report: () => {},
    telemetry: {},
  };
}

const chat = createChat(gateway());
const models = createModels(gateway());
const hello = JSON.stringify({ model: "m", messages: [{ role: "user", content: "hello" }] });

async function post(options: { path?: string; key?: string; body?: BodyInit; headers?: Record<string, string> } = {}) {
  const headers: Record<string, string> = { "content-type": "application/json", ...options.headers };
  if (options.key !== undefined) headers.authorization = `Bearer ${options.key}`;
  const response = await chat(
    new Request(`http://f${options.path ?? "/chat/completions"}`, {
      method: "POST",
      headers,
      body: options.body ?? hello,
    }),
  );
  return { response, error: (await response.json()).error };
}

describe("the order of a request's checks", () => {
  test("answers 404 for an unknown path before any other check", async () => {
    const { response, error } = await post({ path: "/chat/other" });
    expect(response.status).toBe(404);
    expect(error).toMatchObject({ code: "not_found", type: "invalid_request_error", param: null });
  });

  test("ignores trailing slashes in a path", async () => {
    expect((await post({ path: "/chat/completions/" })).error.code).toBe("invalid_api_key");
    expect((await post({ path: "/chat/completions//" })).error.code).toBe("invalid_api_key");
    expect((await models(new Request("http://f/models/"))).status).toBe(401);
    expect((await post({ path: "/chat/" })).error.code).toBe("not_found");
    expect((await post({ path: "/chat//completions" })).error.code).toBe("not_found");
  });

  test("answers 405 with a list of the allowed methods", async () => {
    for (const method of ["GET", "HEAD", "PUT", "DELETE"]) {
      const response = await chat(new Request("http://f/chat/completions", { method }));
      expect([response.status, response.headers.get("allow")]).toEqual([405, "POST, OPTIONS"]);
    }
    const response = await models(new Request("http://f/models", { method: "POST" }));
    expect([response.status, response.headers.get("allow")]).toEqual([405, "GET, HEAD, OPTIONS"]);
  });

  // Codex falls back to HTTP on a 426: codex-rs/core/src/client.rs of github.com/openai/codex.
  test("answers a WebSocket request with 426", async () => {
    const headers = { connection: "Upgrade", upgrade: "WebSocket" };
    const response = await chat(new Request("http://f/chat/completions", { headers }));
    expect(response.status).toBe(426);
    expect((await response.json()).error).toMatchObject({
      code: "invalid_request",
      message: expect.stringContaining("HTTP"),
    });
    expect((await chat(new Request("http://f/chat/other", { headers }))).status).toBe(404);
  });

  test("answers OPTIONS with 204 and no CORS headers", async () => {
    const response = await chat(
      new Request("http://f/chat/completions", { method: "OPTIONS", headers: { origin: "https://evil.test" } }),
    );
    expect(response.status).toBe(204);
    expect([...response.headers.keys()].filter((name) => name.startsWith("access-control"))).toEqual([]);
  });

  test("answers 401 for a key with bad syntax before reading the body", async () => {
    for (const key of [undefined, "", "sk-1", "ttr_ai_abcdefghijkl_x", `${(await createAiKey()).text}x`]) {
      const { response, error } = await post({ key, body: "x".repeat(9 * 1024 * 1024) });
      expect([response.status, error.code]).toEqual([401, "invalid_api_key"]);
    }
  });

  test("refuses an oversized body with 413 before it checks the credential", async () => {
    const { text: key } = await createAiKey();
    const { response, error } = await post({ key, body: "x".repeat(8 * 1024 * 1024 + 1) });
    expect([response.status, error.code]).toEqual([413, "payload_too_large"]);
  });

  test("answers 503 for any body if the database is missing, because the credential is checked before the body is parsed", async () => {
    const { text: key } = await createAiKey();
    for (const changes of [{ body: "{" }, { headers: { "content-type": "text/plain" } }, {}]) {
      const { response, error } = await post({ key, ...changes });
      expect([response.status, error.code]).toEqual([503, "service_unavailable"]);
    }
  });
});

describe("every answer", () => {
  test("an answer carries the request's id, or a new id if the request's is invalid or missing", async () => {
    const given = await post({ headers: { "x-request-id": "my:id-1" } });
    expect(given.response.headers.get("x-request-id")).toBe("my:id-1");
    expect(given.error.request_id).toBe("my:id-1");
    for (const headers of [undefined, { "x-request-id": "bad id" }]) {
      const { response, error } = await post({ headers });
      expect(response.headers.get("x-request-id")).toMatch(/^req_[0-9a-f]{32}$/);
      expect(error.request_id).toBe(response.headers.get("x-request-id"));
    }
  });

  test("every answer forbids caching", async () => {
    expect((await post()).response.headers.get("cache-control")).toBe("private, no-store");
  });

  test("answers 404 for a path that can't be decoded", async () => {
    expect((await models(new Request("http://f/models/%E0%A4%A"))).status).toBe(404);
  });
});

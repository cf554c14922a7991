import { randomUUID } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import type OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createApp, handOver, mint, type Person, service } from "../../../../scripts/test/apps.ts";
import { readStack } from "../../../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../tests/gateway/tenant.ts";
import { createAppToken, createMember } from "../../../tests/gateway/tenant-callers.ts";
import { createAiCredential } from "../../_shared/ai-key.ts";

let tenant: GatewayTenant;
let member: Person;
let appToken: string;
let workspace: Record<string, string>;
beforeAll(async () => {
  tenant = await createGatewayTenant();
  member = await createMember(tenant);
  appToken = (await createAppToken(tenant, member)).token;
  workspace = { "X-Platform-Workspace-Id": tenant.workspaceId };
});
afterAll(() => tenant.close());

const hello: OpenAI.ChatCompletionCreateParamsNonStreaming = {
  model: "demo-chat",
  messages: [{ role: "user", content: "hello" }],
};

function clientOf(apiKey: string, headers: Record<string, string> = workspace): OpenAI {
  return tenant.client.withOptions({ apiKey, defaultHeaders: headers });
}

/** Reads a stream to its end and calls `act` after the second event. @returns the text of the stream */
async function readWhile(client: OpenAI, headers: Record<string, string>, act: () => Promise<unknown>) {
  const stream = await client.chat.completions.create(
    { model: "demo-chat", stream: true, messages: [{ role: "user", content: "[[words=20 pace=20]]" }] },
    { headers },
  );
  let [text, events] = ["", 0];
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta.content ?? "";
    events += 1;
    if (events === 2) await act();
  }
  return text;
}

describe("a credential that becomes invalid during a call", () => {
  test("lets a call finish if its credential becomes invalid, charges it once, and refuses the next call", async () => {
    const other = await createGatewayTenant();
    const ended: [OpenAI, () => Promise<unknown>, object][] = [
      [
        clientOf(other.key, {}),
        () => other.db.query("update ai.keys set revoked_at = now() where id = $1", [other.keyId]),
        { status: 401, code: "invalid_api_key" },
      ],
      [
        clientOf(appToken),
        () => tenant.db.query("update ai.app_tokens set revoked_at = now() where user_id = $1", [member.id]),
        { status: 401, code: "invalid_api_key" },
      ],
      [
        clientOf(member.accessToken),
        () =>
          tenant.db.query("delete from public.workspace_members where user_id = $1 and workspace_id = $2", [
            member.id,
            tenant.workspaceId,
          ]),
        { status: 403, code: "insufficient_scope" },
      ],
    ];
    for (const [client, end, refusal] of ended) {
      const requestId = randomUUID();
      const text = await readWhile(client, { "x-request-id": requestId }, end);
      expect(text.split(" ")).toHaveLength(20);
      const owner = client === ended[0]?.[0] ? other : tenant;
      const { run, truth } = await owner.accountOf(requestId);
      expect([run.status, run.usage_source, truth.length]).toEqual(["succeeded", "provider", 1]);
      await expect(client.chat.completions.create(hello)).rejects.toMatchObject(refusal);
    }
    await other.close();
    member = await createMember(tenant);
    appToken = (await createAppToken(tenant, member)).token;
  });
});

test("keys keep working after their workspace loses its approval", async () => {
  const approved = await createGatewayTenant();
  await approved.db.query("delete from ai.key_approvals where workspace_id = $1", [approved.workspaceId]);
  expect((await approved.client.chat.completions.create(hello)).choices).toHaveLength(1);
  await approved.close();
});

describe("credentials are read from the Authorization header only", () => {
  const askWith = async (headers: Record<string, string>, query = "") => {
    const response = await fetch(`${tenant.client.baseURL}/models${query}`, { headers });
    return [response.status, ((await response.json()) as { error?: { code: string } }).error?.code];
  };
  const refused = [401, "invalid_api_key"];

  test("ignores keys in a cookie, an API key header or the query, with or without a bad bearer token", async () => {
    const bearer = { authorization: `Bearer ${(await createAiCredential("key")).text}` };
    const elsewhere: [Record<string, string>, string?][] = [
      [{ cookie: `sb-127-auth-token=${member.accessToken}; authorization=Bearer ${tenant.key}` }],
      [{ apikey: tenant.key, "x-api-key": tenant.key, "api-key": tenant.key }],
      [{}, `?key=${tenant.key}&api_key=${tenant.key}&access_token=${member.accessToken}`],
    ];
    for (const [headers, query] of elsewhere) {
      expect(await askWith({ ...workspace, ...headers }, query)).toEqual(refused);
      expect(await askWith({ ...workspace, ...headers, ...bearer }, query)).toEqual(refused);
    }
  });

  test.for([
    (key: string) => `Basic ${btoa(`${key}:`)}`,
    (key: string) => key,
    (key: string) => `Bearer ${key} ${key}`,
    (key: string) => `Bearer ${key},${key}`,
    (key: string) => `Bearer ${key.slice(0, -1)}`,
    (key: string) => `Bearer ${key}A`,
    (key: string) => `Bearer ${key.toUpperCase()}`,
    (key: string) => `Bearer ${key.replace("ttr_ai_", "ttr_app_")}`,
    () => "Bearer",
    () => `Bearer ${"a".repeat(9_000)}.b.c`,
  ])("refuses a malformed Authorization header (%#)", async (spell) => {
    expect(await askWith({ authorization: spell(tenant.key) })).toEqual(refused);
  });

  test("accepts the Authorization scheme regardless of letter case", async () => {
    expect((await askWith({ authorization: `bEARER   ${tenant.key}` }))[0]).toBe(200);
  });
});

describe("credentials of other APIs are refused", () => {
  const { supabase } = readStack();

  test("refuses satellite sessions, handoff tokens, refresh tokens, and the Supabase project's own keys", async () => {
    const scopes = ["profile", "workspaces:read", "workspaces:write"];
    const satellite = await createApp({ scopes });
    const { appSession, centralSession } = await handOver(member, satellite);
    const external = await createApp({ kind: "external", scopes: ["ai:use"], workspaceId: tenant.workspaceId });
    const tokens = [
      appSession.token,
      centralSession.token,
      await mint(member, satellite),
      await mint(member, external),
      external.secret,
      supabase.publishableKey,
      supabase.secretKey,
      (await createAiCredential("app_token")).text,
    ];
    for (const token of tokens) {
      await expect(clientOf(token).chat.completions.create(hello)).rejects.toMatchObject({
        status: 401,
        code: "invalid_api_key",
      });
    }
  });

  test("refuses sessions in a deleted workspace, and sessions of banned or deleted users", async () => {
    const other = await createGatewayTenant();
    const [left, banned, gone] = [await createMember(other), await createMember(other), await createMember(other)];
    const asked = async ({ accessToken }: Person) => {
      const client = clientOf(accessToken, { "X-Platform-Workspace-Id": other.workspaceId });
      return client.chat.completions.create(hello).then(
        () => "answered",
        ({ status, code }) => `${status} ${code}`,
      );
    };
    expect([await asked(left), await asked(banned), await asked(gone)]).toEqual(["answered", "answered", "answered"]);
    await other.db.query("update auth.users set banned_until = now() + interval '1 day' where id = $1", [banned.id]);
    await service.auth.admin.deleteUser(gone.id);
    expect([await asked(banned), await asked(gone)]).toEqual(["401 invalid_api_key", "401 invalid_api_key"]);
    await other.db.query("update public.workspaces set deleted_at = now() where id = $1", [other.workspaceId]);
    expect(await asked(left)).toBe("403 insufficient_scope");
    await expect(other.client.chat.completions.create(hello)).rejects.toMatchObject({ code: "invalid_api_key" });
    await other.close();
  });
});

test("takes equally long to refuse any well-formed credential", async () => {
  const spare = await createGatewayTenant();
  const dead = await createGatewayTenant();
  const { token: revokedToken } = await createAppToken(tenant, member);
  await spare.db.query("update ai.keys set expires_at = now() where id = $1", [spare.keyId]);
  await dead.db.query("update ai.keys set revoked_at = now() where id = $1", [dead.keyId]);
  await tenant.db.query(
    "update ai.app_tokens set revoked_at = now() where id = (select id from ai.app_tokens where user_id = $1 order by created_at desc limit 1)",
    [member.id],
  );
  const kinds: Record<string, string> = {
    "unknown key": (await createAiCredential("key")).text,
    "expired key": spare.key,
    "revoked key": dead.key,
    "unknown token": (await createAiCredential("app_token")).text,
    "revoked token": revokedToken,
  };
  const times = new Map<string, number[]>(Object.keys(kinds).map((kind) => [kind, []]));
  for (let round = 0; round < 40; round++) {
    for (const [kind, key] of Object.entries(kinds)) {
      const started = performance.now();
      const response = await fetch(`${tenant.client.baseURL}/chat/completions`, {
        method: "POST",
        headers: { ...workspace, authorization: `Bearer ${key}`, "content-type": "application/json" },
        body: JSON.stringify(hello),
      });
      await response.text();
      times.get(kind)?.push(performance.now() - started);
      expect(response.status).toBe(401);
    }
  }
  const at = (list: number[], share: number) => list.toSorted((a, b) => a - b)[Math.floor(list.length * share)] ?? 0;
  const all = [...times.values()].flat();
  for (const [kind, list] of times) {
    const median = at(list, 0.5);
    expect([kind, median >= at(all, 0.05) && median <= at(all, 0.95)]).toEqual([kind, true]);
  }
  await Promise.all([spare.close(), dead.close()]);
});

describe("tenant isolation", () => {
  test("tenants with the same request id, idempotency key and body each get their own run", async () => {
    const other = await createGatewayTenant();
    const headers = { "x-request-id": randomUUID(), "idempotency-key": "the-same" };
    const clients = [tenant.client, other.client, clientOf(member.accessToken), clientOf(appToken)];
    const answers = await Promise.all(clients.map((client) => client.chat.completions.create(hello, { headers })));
    const runs = answers.map((answer) => (answer as unknown as { platform: { run_id: string } }).platform.run_id);
    expect(new Set(runs).size).toBe(4);
    const owners = await tenant.db.query<{ workspace_id: string }>(
      "select workspace_id from ai.runs where id = any ($1) order by id",
      [runs.toSorted()],
    );
    const expected = runs.map((id, n) => ({ id, workspace_id: n === 1 ? other.workspaceId : tenant.workspaceId }));
    expect(owners).toEqual(
      expected.toSorted((a, b) => (a.id < b.id ? -1 : 1)).map(({ workspace_id }) => ({ workspace_id })),
    );
    await other.close();
  });

  test("no body field or label can change which tenant a run belongs to", async () => {
    const other = await createGatewayTenant();
    const requestId = randomUUID();
    await tenant.client.chat.completions.create(
      { ...hello, user: other.workspaceId, metadata: { workspace_id: other.workspaceId, app_id: other.keyId } },
      {
        headers: {
          "x-request-id": requestId,
          "X-Platform-Operation": `workspace:${other.workspaceId}`,
          "X-Platform-Entity-Id": other.keyId,
        },
      },
    );
    const { run } = await tenant.accountOf(requestId);
    expect(run).toMatchObject({ workspace_id: tenant.workspaceId, key_id: tenant.keyId, app_id: null });
    await other.close();
  });

  test("answers a header that names another tenant's workspace exactly like one that names no existing workspace", async () => {
    const other = await createGatewayTenant();
    for (const [key, code] of [
      [tenant.key, "workspace_mismatch"],
      [appToken, "workspace_mismatch"],
      [member.accessToken, "insufficient_scope"],
    ] as const) {
      const answers = await Promise.all(
        [other.workspaceId, randomUUID(), "nonsense"].map(async (id) => {
          const headers = { "X-Platform-Workspace-Id": id, "x-request-id": "same" };
          const error = await clientOf(key, headers)
            .chat.completions.create(hello)
            .catch((refusal) => refusal);
          return [error.status, error.error];
        }),
      );
      expect(answers[0]).toMatchObject([403, { code }]);
      expect([answers[1], answers[2]]).toEqual([answers[0], answers[0]]);
    }
    await other.close();
  });
});

test("no log of the stack contains a credential, a prompt or an answer", async () => {
  const said = `never-logged-${randomUUID()}`;
  for (const key of [tenant.key, appToken, member.accessToken]) {
    await clientOf(key).chat.completions.create({ ...hello, messages: [{ role: "user", content: said }] });
    const failing = { model: "demo-error-500", messages: [{ role: "user" as const, content: said }] };
    await expect(clientOf(key).chat.completions.create(failing)).rejects.toMatchObject({ status: 502 });
  }
  const folder = path.join(path.dirname(process.env.GATEHOUSE_STACK ?? ""), "logs");
  const logs = readdirSync(folder).filter((name) => /^(functions|gateway|web)/.test(name));
  expect(logs.length).toBeGreaterThan(0);
  for (const name of logs) {
    const text = readFileSync(path.join(folder, name), "utf8");
    for (const secret of [tenant.key, appToken, member.accessToken, said]) expect(text.includes(secret)).toBe(false);
  }
});

import { createClient } from "@supabase/supabase-js";
import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { readStack } from "../../../scripts/test/stack.ts";

const { base, supabase } = readStack();
const admin = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } }).auth.admin;
const database = new Client({ connectionString: supabase.dbUrl });

interface Caller {
  id: string;
  token: string;
  workspaceId: string;
}

async function createCaller(): Promise<Caller> {
  const email = `${crypto.randomUUID()}@keys.test`;
  const password = "correct horse battery";
  const { data, error } = await admin.createUser({ email, password, email_confirm: true });
  if (error) throw error;
  const client = createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false } });
  const signedIn = await client.auth.signInWithPassword({ email, password });
  const { rows } = await database.query("select id from public.workspaces where personal_user_id = $1", [data.user.id]);
  return { id: data.user.id, token: signedIn.data.session?.access_token ?? "", workspaceId: rows[0].id };
}

const approve = ({ workspaceId }: Caller) =>
  database.query("insert into ai.key_approvals (workspace_id) values ($1) on conflict do nothing", [workspaceId]);

async function call({ token }: Pick<Caller, "token">, path: string, init: { method?: string; body?: unknown } = {}) {
  const response = await fetch(`${base}/api/v1/workspaces/${path}`, {
    method: init.method ?? "GET",
    headers: { Authorization: `Bearer ${token}`, "Content-Type": "application/json" },
    ...(init.body === undefined ? {} : { body: JSON.stringify(init.body) }),
  });
  const text = await response.text();
  return { status: response.status, headers: response.headers, body: text ? JSON.parse(text) : null };
}

let owner: Caller;
let stranger: Caller;

beforeAll(async () => {
  await database.connect();
  [owner, stranger] = [await createCaller(), await createCaller()];
});
afterAll(async () => {
  await Promise.all([owner, stranger].map(({ id }) => admin.deleteUser(id)));
  await database.end();
});

describe("the keys API", () => {
  test("creating keys requires the platform's approval, but listing them does not", async () => {
    const refused = await call(owner, `${owner.workspaceId}/ai/keys`, { method: "POST", body: { name: "K" } });
    expect(refused).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
    const listed = await call(owner, `${owner.workspaceId}/ai/keys`);
    expect(listed).toMatchObject({ status: 200, body: { approval: null, keys: [], nextCursor: null } });
  });

  test("the keys API returns a secret when a key is created or rotated, and never again", async () => {
    await approve(owner);
    const path = `${owner.workspaceId}/ai/keys`;
    const made = await call(owner, path, { method: "POST", body: { name: "K", monthlyBudgetUsd: 2.5, strict: true } });
    const limits = { budget: { limitUsd: 2.5, spentUsd: 0 }, strict: true };
    expect(made).toMatchObject({ status: 201, body: { key: { name: "K", ...limits } } });
    expect(made.headers.get("cache-control")).toBe("private, no-store");
    expect(made.body.secret).toMatch(/^ttr_ai_/);
    const rotated = await call(owner, `${path}/${made.body.key.id}/rotate`, {
      method: "POST",
      body: { overlapSeconds: 60 },
    });
    expect(rotated).toMatchObject({ status: 201, body: { key: limits } });
    const again = await call(owner, `${path}/${made.body.key.id}/rotate`, { method: "POST", body: {} });
    expect(again).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    const text = JSON.stringify((await call(owner, path)).body);
    expect(text).not.toContain(made.body.secret);
    expect(text).not.toContain(rotated.body.secret);
    expect((await call(owner, `${path}/${rotated.body.key.id}`, { method: "DELETE" })).status).toBe(204);
  });

  test("the keys API changes a key unless it has changed since the given version, and refuses to let it do more without the approval", async () => {
    await approve(owner);
    const path = `${owner.workspaceId}/ai/keys`;
    const made = await call(owner, path, { method: "POST", body: { name: "K", requestsPerMinute: 5 } });
    const { id, version } = made.body.key;
    const change = (body: object) => call(owner, `${path}/${id}`, { method: "PATCH", body });
    const changed = await change({ name: "Renamed", monthlyBudgetUsd: 1.5, version });
    expect(changed).toMatchObject({
      status: 200,
      body: { key: { id, name: "Renamed", requestsPerMinute: 5, budget: { limitUsd: 1.5, spentUsd: 0 } } },
    });
    expect(await change({ name: "Late", version })).toMatchObject({ status: 409, body: { code: "CONFLICT" } });
    await database.query("delete from ai.key_approvals where workspace_id = $1", [owner.workspaceId]);
    expect(await change({ requestsPerMinute: 6 })).toMatchObject({ status: 403, body: { code: "FORBIDDEN" } });
    expect(await change({ requestsPerMinute: 4 })).toMatchObject({
      status: 200,
      body: { key: { requestsPerMinute: 4 } },
    });
    for (const body of [
      { entityId: "x" },
      { externalAppId: null },
      { expiresAt: "2001-01-01T00:00:00Z" },
      { name: "" },
    ])
      expect(await change(body), JSON.stringify(body)).toMatchObject({ status: 400 });
  });

  test("the keys API paginates keys with an opaque cursor", async () => {
    await approve(owner);
    const path = `${owner.workspaceId}/ai/keys`;
    for (const name of ["one", "two", "three"]) await call(owner, path, { method: "POST", body: { name } });
    const seen: string[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const page: Awaited<ReturnType<typeof call>> = await call(
        owner,
        `${path}?limit=2${cursor && `&cursor=${cursor}`}`,
      );
      seen.push(...page.body.keys.map(({ id }: { id: string }) => id));
      cursor = page.body.nextCursor;
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.length).toBeGreaterThanOrEqual(3);
    expect((await call(owner, `${path}?cursor=zzz`)).status).toBe(400);
  });

  test.each([
    { name: "" },
    { name: "K\0" },
    { name: "K\ud83d" },
    { name: "K", overlap: 1 },
    { name: "K", strict: "yes" },
    { name: "K", requestsPerMinute: 0 },
    { name: "K", monthlyBudgetUsd: -1 },
    { name: "K", allowedAddresses: ["example.com"] },
    { name: "K", allowedAddresses: ["192.0.2.7/24"] },
    { name: "K", expiresAt: "2001-01-01T00:00:00Z" },
    { name: "K", externalAppId: "00000000-0000-4000-8000-000000000000" },
    [],
  ])("the keys API rejects the body %j", async (body) => {
    await approve(owner);
    const answer = await call(owner, `${owner.workspaceId}/ai/keys`, { method: "POST", body });
    expect(answer).toMatchObject({ status: 400, body: { code: "INVALID_REQUEST" } });
  });

  test("the keys API rejects a key whose model list has an unknown model, and names the model", async () => {
    await approve(owner);
    const body = { name: "K", allowedModels: ["demo-chat", "gpt-4o-typo"] };
    const answer = await call(owner, `${owner.workspaceId}/ai/keys`, { method: "POST", body });
    expect(answer).toMatchObject({
      status: 400,
      body: {
        code: "INVALID_REQUEST",
        param: "allowedModels",
        detail: "allowedModels: The model “gpt-4o-typo” doesn’t exist.",
      },
    });
  });

  test("the keys API returns 404 for keys of another workspace", async () => {
    await approve(owner);
    const made = await call(owner, `${owner.workspaceId}/ai/keys`, { method: "POST", body: { name: "Mine" } });
    const id = made.body.key.id;
    for (const [path, method] of [
      [`${owner.workspaceId}/ai/keys`, "GET"],
      [`${owner.workspaceId}/ai/keys`, "POST"],
      [`${owner.workspaceId}/ai/keys/${id}`, "DELETE"],
      [`${stranger.workspaceId}/ai/keys/${id}`, "DELETE"],
      [`${stranger.workspaceId}/ai/keys/${id}`, "PATCH"],
      [`${stranger.workspaceId}/ai/keys/nonsense`, "DELETE"],
    ] as const)
      expect(
        (
          await call(stranger, path, {
            method,
            ...(method === "GET" || method === "DELETE" ? {} : { body: { name: "K" } }),
          })
        ).status,
      ).toBe(404);
  });
});

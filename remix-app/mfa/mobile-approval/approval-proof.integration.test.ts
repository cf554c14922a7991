import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cookieWithoutApproval, enterApproved } from "../../../scripts/test/approved-browser.ts";
import { createApp, type TestApp } from "../../../scripts/test/apps.ts";
import {
  createPerson,
  deletePerson,
  insertAuthenticators,
  type Person,
  query,
  type SignedInBrowser,
} from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { openGateway } from "../../../supabase/tests/gateway/in-process.ts";
import { createPricedModel } from "../../../supabase/tests/gateway/priced-model.ts";
import { answerWell, startScriptedProvider } from "../../../supabase/tests/gateway/scripted-provider.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";
import { hmac } from "../../crypto/derived-key.ts";
import { approvalProofKey, createApprovalProof } from "../../session/approval-proof.ts";
import { accessTokenOf, openBrowser } from "../../testing/browser.ts";
import { newAddress } from "../../testing/visitor.ts";

const { ai, base, supabase } = readStack();
const env = { SUPABASE_SECRET_KEY: supabase.secretKey };
let tenant: GatewayTenant;
let app: TestApp;
let person: Person;
let browser: SignedInBrowser;
let sessionId: string;

async function join(who: Person): Promise<void> {
  await tenant.db.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = 'member'`,
    [tenant.workspaceId, who.id],
  );
}

const people: Person[] = [];
async function approvedMember() {
  const person = await createPerson();
  people.push(person);
  await join(person);
  const [authenticator] = await insertAuthenticators(person, ["Phone"]);
  if (!authenticator) throw new Error("no app");
  const browser = await enterApproved(person, authenticator);
  return { person, authenticator, browser, sessionId: (await browser.session()).sessionId };
}

beforeAll(async () => {
  [tenant, app] = await Promise.all([
    createGatewayTenant(),
    createApp({ scopes: ["profile", "workspaces:read", "workspaces:write"] }),
  ]);
  ({ person, browser, sessionId } = await approvedMember());
});
afterAll(async () => {
  for (const one of people) await deletePerson(one);
  await tenant.close();
});

type Visitor = Pick<SignedInBrowser, "get" | "postJson">;
const hello = { model: "demo-chat", messages: [{ role: "user", content: "hello" }] };
const playground = (endpoint: string, body: object) => (visitor: Visitor) =>
  visitor.postJson(`/api/v1/workspaces/${tenant.workspaceId}/ai/playground/${endpoint}`, body);

/** Browser actions that an approval on a phone allows, each with the status and a part of the expected answer. */
const deeds: [string, (visitor: Visitor) => ReturnType<Visitor["get"]>, number, () => string][] = [
  ["lists its workspaces", (visitor) => visitor.get("/api/v1/workspaces"), 200, () => tenant.workspaceId],
  ["opens the studio", (visitor) => visitor.get(`/workspaces/${tenant.workspaceId}/ai`), 200, () => "No requests yet"],
  [
    "opens the playground with its models",
    (visitor) => visitor.get(`/workspaces/${tenant.workspaceId}/ai/playground`),
    200,
    () => "demo-chat",
  ],
  ["chats", playground("chat", hello), 200, () => "hello"],
  ["streams a chat", playground("chat", { ...hello, stream: true }), 200, () => "data: [DONE]"],
  ["creates embeddings", playground("embeddings", { model: "demo-embedding", input: "hello" }), 200, () => "embedding"],
  ["creates speech", playground("speech", { model: "demo-speech", input: "hello", voice: "alloy" }), 200, () => ""],
  [
    "hands its sign-in over to an app",
    (visitor) => visitor.postJson("/api/v1/auth/cross-app-tokens", { targetApp: app.name }),
    201,
    () => "xat_",
  ],
  ["asks for a QR code", (visitor) => visitor.postJson("/api/v1/auth/qr-login/challenges", {}), 201, () => "secret"],
];

describe.each(deeds)("a browser whose sign-in was approved on a phone %s", (_, deed, status, part) => {
  test("a browser approved on a phone is refused without the approval's cookie", async () => {
    const answer = await deed(browser);
    expect(answer.status, answer.text).toBe(status);
    expect(answer.text).toContain(part());
    expect(JSON.stringify([...answer.headers]) + answer.text).not.toMatch(/\d{10}\.[0-9a-f]{64}/);
    const refused = await deed(openBrowser(base, { cookie: cookieWithoutApproval(browser) }));
    if (refused.status === 302) expect(refused.location).toMatch(/^\/mfa\?/);
    else expect([refused.status, JSON.parse(refused.text).code]).toEqual([403, "MFA_REQUIRED"]);
  });
});

/** Calls that anyone with the session's token can make. */
const calls: Record<string, (token: string, headers: Record<string, string>) => Promise<"let in" | "refused">> = {
  "a table of the Data API": async (token, headers) => {
    const response = await atDataApi("workspaces?select=id", { token, headers });
    expect(response.status).toBe(200);
    return (await response.json()).length > 0 ? "let in" : "refused";
  },
  "a function of the Data API": async (token, headers) => {
    const body = JSON.stringify({ name: "Proof" });
    const response = await atDataApi("rpc/create_workspace", { token, headers, body });
    if (!response.ok) expect(response.status).toBe(403);
    return response.ok ? "let in" : "refused";
  },
  ...Object.fromEntries(
    Object.entries({
      "chat/completions": hello,
      responses: { model: "demo-chat", input: "hello" },
      embeddings: { model: "demo-embedding", input: "hello" },
      "audio/speech": { model: "demo-speech", input: "hello", voice: "alloy" },
      models: undefined,
      key: undefined,
    }).map(([path, body]) => [
      `the gateway's /${path}`,
      async (token: string, headers: Record<string, string>) => {
        const response = await fetch(`${ai}/v1/${path}`, {
          method: body ? "POST" : "GET",
          headers: {
            authorization: `Bearer ${token}`,
            "x-platform-workspace-id": tenant.workspaceId,
            ...(body ? { "content-type": "application/json" } : {}),
            ...headers,
          },
          ...(body ? { body: JSON.stringify(body) } : {}),
        });
        const text = await response.text();
        if (response.ok) return "let in" as const;
        expect([response.status, JSON.parse(text).error.code]).toEqual([403, "MFA_REQUIRED"]);
        return "refused" as const;
      },
    ]),
  ),
};

function atDataApi(
  path: string,
  { token, headers, body }: { token: string; headers: Record<string, string>; body?: string },
): Promise<Response> {
  return fetch(`${supabase.url}/rest/v1/${path}`, {
    method: body ? "POST" : "GET",
    headers: {
      apikey: supabase.publishableKey,
      authorization: `Bearer ${token}`,
      ...(body ? { "content-type": "application/json" } : {}),
      ...headers,
    },
    ...(body ? { body } : {}),
  });
}

const proofAged = (session: string, seconds: number) => {
  const second = Math.floor(Date.now() / 1000) - seconds;
  return `${second}.${hmac(approvalProofKey(env, session), `${session} ${second}`).toString("hex")}`;
};

describe.each(Object.entries(calls))("access token of a phone-approved session at %s", (_, call) => {
  test("the access token of a phone-approved session needs a proof from our server", async () => {
    const token = accessTokenOf(browser);
    expect(await call(token, {})).toBe("refused");
    expect(await call(token, { cookie: browser.cookie() })).toBe("refused");
    expect(await call(token, { "x-mfa-approval": createApprovalProof(env, sessionId) })).toBe("let in");
  });

  test.each([
    ["is too old", () => proofAged(sessionId, 65)],
    ["belongs to another session", () => proofAged(randomUUID(), 0)],
    ["is forged", () => `${proofAged(sessionId, 0).slice(0, -1)}x`],
  ])("refuses the access token of a phone-approved session with a proof that %s", async (_, proof) => {
    expect(await call(accessTokenOf(browser), { "x-mfa-approval": proof() })).toBe("refused");
  });
});

test("an approval proof is refused once the phone's authenticator is removed", async () => {
  const { person, authenticator, browser, sessionId } = await approvedMember();
  const call = calls["a table of the Data API"] as (typeof calls)[string];
  const proof = { "x-mfa-approval": createApprovalProof(env, sessionId) };
  expect(await call(accessTokenOf(browser), proof)).toBe("let in");
  await insertAuthenticators(person, ["Spare"]);
  await query("delete from auth.mfa_factors where id = $1", [authenticator.factorId]);
  expect(await call(accessTokenOf(browser), proof)).toBe("refused");
});

test("an approval opens pages only with its cookie", async () => {
  const { browser } = await approvedMember();
  const path = "/api/v1/workspaces";
  expect((await browser.get(path)).status).toBe(200);
  const headers = { authorization: `Bearer ${accessTokenOf(browser)}`, "x-forwarded-for": newAddress() };
  const asBearer = await fetch(new URL(path, base), { headers });
  const withoutCookie = await openBrowser(base, { cookie: cookieWithoutApproval(browser) }).get(path);
  for (const [status, body] of [
    [asBearer.status, await asBearer.json()],
    [withoutCookie.status, JSON.parse(withoutCookie.text)],
  ]) {
    expect([status, body]).toMatchObject([403, { code: "MFA_REQUIRED" }]);
  }
});

test("our server ignores an approval proof in the headers of a visitor's request", async () => {
  const proof = { "x-mfa-approval": createApprovalProof(env, sessionId), "x-forwarded-for": newAddress() };
  const credentials: Record<string, string>[] = [
    { cookie: cookieWithoutApproval(browser) },
    { authorization: `Bearer ${accessTokenOf(browser)}` },
  ];
  for (const credential of credentials) {
    const response = await fetch(new URL("/api/v1/workspaces", base), { headers: { ...credential, ...proof } });
    expect([response.status, await response.json()]).toMatchObject([403, { code: "MFA_REQUIRED" }]);
  }
});

test("the gateway neither forwards an approval proof to a provider nor stores it", async () => {
  const sent: string[] = [];
  const provider = await startScriptedProvider((response, call) => {
    sent.push(...call.request.rawHeaders);
    answerWell(response, call);
  });
  const lines: string[] = [];
  const settings = {
    AI_LOG: "json",
    AI_PROVIDER_SPY_KIND: "openai",
    AI_PROVIDER_SPY_API_KEY: "spy",
    AI_PROVIDER_SPY_BASE_URL: provider.url,
  };
  const gateway = await openGateway(settings, (line) => lines.push(line));
  const model = await createPricedModel(tenant, { providers: ["spy"] });
  const proof = createApprovalProof(env, sessionId);
  const client = gateway.clientOf(accessTokenOf(browser), {
    "x-platform-workspace-id": tenant.workspaceId,
    "x-mfa-approval": proof,
  });
  await client.chat.completions.create({ model, messages: [{ role: "user", content: "hello" }] });
  await gateway.settled();
  expect([provider.calls, lines.length > 0]).toEqual([1, true]);
  expect(sent.join("\n")).not.toMatch(/x-mfa-approval/i);
  const runs = await query("select to_jsonb(r) as run from ai.runs r where actor_id = $1", [person.id]);
  expect(runs.length).toBeGreaterThan(0);
  expect([sent, lines, JSON.stringify(runs)].join("\n")).not.toContain(proof);
  await gateway.close();
  provider.close();
});

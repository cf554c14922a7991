import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createPerson, deletePerson, enter, type Person, requireMfa } from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { createGatewayTenant, type GatewayTenant } from "../../../supabase/tests/gateway/tenant.ts";
import { expectTruth } from "../../../supabase/tests/gateway/truth.ts";
import { accessTokenOf } from "../../testing/browser.ts";
import { newAddress } from "../../testing/visitor.ts";

const { ai, base } = readStack();
const origin = { origin: base, "sec-fetch-site": "same-origin" };

let tenant: GatewayTenant;
const people: Person[] = [];
let member: Awaited<ReturnType<typeof enter>>;

beforeAll(async () => {
  tenant = await createGatewayTenant();
  member = await signedInMember();
});
afterAll(async () => {
  for (const person of people) await deletePerson(person);
  await tenant.close();
});

async function signedInMember({ role = "member", before = async (_: Person) => {} } = {}) {
  const person = await createPerson();
  people.push(person);
  await tenant.db.query(
    `insert into public.workspace_members (workspace_id, user_id, role_id)
     select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = $3`,
    [tenant.workspaceId, person.id, role],
  );
  const browser = await enter(person);
  await before(person);
  return browser;
}

interface Call {
  cookie?: string;
  endpoint?: string;
  workspaceId?: string;
  headers?: Record<string, string>;
  body?: unknown;
  signal?: AbortSignal;
  method?: string;
}

function ask({
  endpoint = "chat",
  workspaceId,
  headers = {},
  body = chat("hello"),
  signal,
  cookie,
  method,
}: Call = {}) {
  const url = `${base}/api/v1/workspaces/${workspaceId ?? tenant.workspaceId}/ai/playground/${endpoint}`;
  const post = method === "GET" ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) };
  return fetch(url, {
    method: method ?? "POST",
    headers: {
      cookie: cookie ?? member.cookie(),
      "x-forwarded-for": newAddress(),
      "content-type": "application/json",
      ...origin,
      ...headers,
    },
    ...post,
    ...(signal ? { signal } : {}),
  });
}

const settings = { model: "demo-chat", format: "text" };

const chat = (content: string, more: object = {}) => ({
  model: "demo-chat",
  messages: [{ role: "user", content }],
  ...more,
});

const codeOf = async (response: Response) => {
  const body = await response.json();
  return [response.status, body.code ?? body.error?.code];
};

describe("the playground's gateway route", () => {
  test("a playground call runs as the member and is billed to the workspace as a run with the feature playground", async () => {
    const requestId = randomUUID();
    const other = await createGatewayTenant();
    const headers = {
      "x-request-id": requestId,
      "x-platform-workspace-id": other.workspaceId,
      "x-platform-operation": "mine",
      "x-platform-entity-id": "mine",
    };
    const response = await ask({ headers });
    const body = await response.json();
    expect(body.choices[0].message.content).toContain("hello");
    const account = await tenant.accountOf(requestId);
    expectTruth(account);
    expect(account.run).toMatchObject({
      feature: "playground",
      credential_source: "session",
      execution_mode: "interactive",
      entity_id: null,
    });
    expect(Object.fromEntries(response.headers)).toMatchObject({
      "x-request-id": requestId,
      "cache-control": "private, no-store",
      "content-type": expect.stringContaining("application/json"),
    });
    await other.close();
  });

  test("the playground streams the gateway's bytes as they arrive", async () => {
    const body = { ...chat("Grüße, 日本 😀 [[words=100]]"), model: "demo-paced", stream: true };
    const straight = await fetch(`${ai}/v1/chat/completions`, {
      method: "POST",
      headers: {
        authorization: `Bearer ${accessTokenOf(member)}`,
        "x-platform-workspace-id": tenant.workspaceId,
        "content-type": "application/json",
      },
      body: JSON.stringify(body),
    });
    const response = await ask({ body });
    expect(response.headers.get("content-type")).toBe(straight.headers.get("content-type"));
    const arrivals: { at: number; text: string }[] = [];
    const decoder = new TextDecoder();
    const reader = response.body?.getReader();
    for (let read = await reader?.read(); read && !read.done; read = await reader?.read()) {
      arrivals.push({ at: performance.now(), text: decoder.decode(read.value, { stream: true }) });
    }
    const content = (text: string) =>
      text.replace(/event: response\.completed\ndata: .*\n/, "").replaceAll(/"created":\d+/g, '"created":0');
    expect(content(arrivals.map(({ text }) => text).join(""))).toBe(content(await straight.text()));
    // A hundred words arrive 20 ms apart, so an unbuffered stream takes more than a second, even if a busy machine
    // reads several chunks together.
    const [first, last] = [arrivals[0], arrivals.at(-1)];
    expect((last?.at ?? 0) - (first?.at ?? 0)).toBeGreaterThan(1_000);
    expect(arrivals.length).toBeGreaterThan(10);
  });

  test("the playground cancels the provider's call when the page is left, and meters the usage", async () => {
    const requestId = randomUUID();
    const leaving = new AbortController();
    const body = { ...chat("continue"), model: "demo-paced", stream: true };
    const response = await ask({ body, headers: { "x-request-id": requestId }, signal: leaving.signal });
    const reader = response.body?.getReader();
    for (let read = 0; read < 5; read += 1) await reader?.read();
    leaving.abort();
    const { run, truth, charged } = await tenant.accountOf(requestId);
    expect([run.status, run.http_status, run.feature]).toEqual(["cancelled", 499, "playground"]);
    expect(truth[0]?.aborted).toBe(true);
    expect(run.usage_source).toBe("estimated_partial");
    expect(run.output_tokens).toBeGreaterThan(0);
    expect(charged).toBe(run.billed_credits);
  });

  test("the playground serves chat, speech and embeddings, but no other gateway routes", async () => {
    const speech = await ask({ endpoint: "speech", body: { input: "Hello" } });
    expect([speech.status, speech.headers.get("content-type")]).toEqual([200, "audio/wav"]);
    expect(speech.headers.get("x-platform-run-id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(
      Buffer.from(await speech.arrayBuffer())
        .subarray(0, 4)
        .toString(),
    ).toBe("RIFF");
    const embeddings = await ask({ endpoint: "embeddings", body: { model: "demo-embedding", input: ["a"] } });
    expect((await embeddings.json()).data).toHaveLength(1);
    for (const endpoint of ["responses", "toString", "chat%2Fcompletions", "..%2F..%2Fusage"]) {
      expect((await ask({ endpoint })).status).toBe(404);
    }
    const get = await ask({ method: "GET" });
    expect([get.status, get.headers.get("allow")]).toEqual([405, "POST"]);
  });

  test("the playground passes on the gateway's refusals with the request id", async () => {
    const requestId = randomUUID();
    const headers = { "x-request-id": requestId };
    const refused = await ask({ headers, body: chat("x", { model: "no-such-model" }) });
    expect([refused.status, (await refused.json()).error]).toMatchObject([
      404,
      { code: "model_not_found", request_id: requestId },
    ]);
    expect(await codeOf(await ask({ body: "{" }))).toEqual([400, "invalid_json"]);
    expect(await codeOf(await ask({ headers: { "content-type": "text/plain" } }))).toEqual([415, "invalid_request"]);
    expect(await codeOf(await ask({ body: chat("x", { stream: true, model: "demo-error-500" }) }))).toEqual([
      502,
      "provider_error",
    ]);
  });

  test("the playground says which limit is reached, and when to retry", async () => {
    const poor = await createGatewayTenant({ credits: "0.00000001" });
    await poor.db.query(
      `insert into public.workspace_members (workspace_id, user_id, role_id)
       select workspace_id, $2, id from public.workspace_roles where workspace_id = $1 and name = 'member'`,
      [poor.workspaceId, people[0]?.id],
    );
    expect(await codeOf(await ask({ workspaceId: poor.workspaceId }))).toEqual([402, "insufficient_credits"]);
    await poor.db.query("insert into ai.workspace_policies (workspace_id, requests_per_minute) values ($1, 1)", [
      poor.workspaceId,
    ]);
    await ask({ workspaceId: poor.workspaceId });
    const limited = await ask({ workspaceId: poor.workspaceId });
    expect(Number(limited.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(await codeOf(limited)).toEqual([429, "rate_limit_exceeded"]);
    await poor.close();
  });

  test("the playground accepts bodies of 64 KiB, and not one byte more", async () => {
    const bodyOf = (bytes: number) => {
      const frame = JSON.stringify(chat(""));
      return JSON.stringify(chat("x".repeat(bytes - frame.length)));
    };
    expect((await ask({ body: bodyOf(64 * 1024) })).status).toBe(200);
    expect(await codeOf(await ask({ body: bodyOf(64 * 1024 + 1) }))).toEqual([413, "PAYLOAD_TOO_LARGE"]);
  });
});

describe("requests that the playground refuses", () => {
  test("the playground refuses requests from other sites, with any content type", async () => {
    const requestId = randomUUID();
    const crossing: Record<string, string>[] = [
      { "sec-fetch-site": "cross-site", origin: "https://evil.test" },
      { "sec-fetch-site": "same-site" },
      { "sec-fetch-site": "cross-site", "content-type": "text/plain" },
    ];
    for (const headers of crossing) {
      expect(await codeOf(await ask({ headers: { ...headers, "x-request-id": requestId } }))).toEqual([
        403,
        "CSRF_REJECTED",
      ]);
    }
    expect(await tenant.db.query("select from ai.runs where request_id = $1", [requestId])).toEqual([]);
  });

  test("the playground refuses anonymous callers, strangers, and members whose role lacks use_ai_studio", async () => {
    expect(await codeOf(await ask({ cookie: "" }))).toEqual([401, "UNAUTHENTICATED"]);
    await tenant.db.query(
      "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'reader', '{}')",
      [tenant.workspaceId],
    );
    const reader = await signedInMember({ role: "reader" });
    expect(await codeOf(await ask({ cookie: reader.cookie() }))).toEqual([403, "FORBIDDEN"]);
    for (const page of ["playground", "models"])
      expect((await reader.get(`/workspaces/${tenant.workspaceId}/ai/${page}`)).status).toBe(403);
    const other = await createGatewayTenant();
    expect(await codeOf(await ask({ workspaceId: other.workspaceId }))).toEqual([404, "NOT_FOUND"]);
    await other.close();
  });

  test("the playground refuses a request from a page that was opened before the browser switched accounts", async () => {
    const requestId = randomUUID();
    const call = { "x-request-id": requestId, "x-page-account": randomUUID() };
    expect(await codeOf(await ask({ headers: call }))).toEqual([409, "CONFLICT"]);
    const other = await createGatewayTenant();
    expect(await codeOf(await ask({ headers: call, workspaceId: other.workspaceId }))).toEqual([409, "CONFLICT"]);
    await other.close();
    expect(await tenant.db.query("select from ai.runs where request_id = $1", [requestId])).toEqual([]);
    const { id } = (await member.session()).user;
    expect((await ask({ headers: { ...call, "x-page-account": id } })).status).toBe(200);

    const page = `/workspaces/${tenant.workspaceId}/ai/playground`;
    for (const kind of ["chat", "speech", "embeddings"]) {
      const { text } = await member.get(`${page}?kind=${kind}`);
      const [form = ""] = /<form[^>]* aria-label="(Chat|Speech|Embeddings)".*?<\/form>/s.exec(text) ?? [];
      expect(form, kind).toContain(`name="pageAccount" value="${id}"`);
    }
    const ofAnother = { ...settings, prompt: "hello", pageAccount: randomUUID() };
    expect((await member.post(page, ofAnother)).status).toBe(409);
  });

  test("the playground refuses members with a pending second factor", async () => {
    const owing = await signedInMember({ before: requireMfa });
    expect(await codeOf(await ask({ cookie: owing.cookie() }))).toEqual([403, "MFA_REQUIRED"]);
    const page = await owing.get(`/workspaces/${tenant.workspaceId}/ai/playground`);
    expect([page.status, page.location]).toEqual([302, expect.stringMatching(/^\/mfa/)]);
  });
});

describe("the playground page without JavaScript", () => {
  const page = (kind = "chat") => `/workspaces/${tenant.workspaceId}/ai/playground?kind=${kind}`;

  test("the playground page contains neither token nor key, and offers the models that the workspace can use", async () => {
    const { status, text } = await member.get(page("speech"));
    expect(status).toBe(200);
    expect(text).toContain("demo-speech");
    expect(text).toContain("Kore");
    expect(text).not.toContain(accessTokenOf(member));
    expect(text).not.toMatch(/sb_secret_|ttr_ai_/);
  });

  test("the playground opens with the model in the URL, if the workspace can use it", async () => {
    const firstModel = async (model: string) =>
      /<option value="([^"]*)"/.exec((await member.get(`${page()}&model=${model}`)).text)?.[1];
    expect(await firstModel("demo-long")).toBe("demo-long");
    expect(await firstModel("demo-speech")).toBe("demo-chat");
  });

  test("the models' page lists what the gateway lists, with prices only where provider cost is visible", async () => {
    const models = `/workspaces/${tenant.workspaceId}/ai/models`;
    const shown = await member.get(models);
    const { data } = await tenant.client.models.list();
    const named = [...shown.text.matchAll(/data-copies="([^"]+)"/g)].map(([, id]) => id);
    expect(named).toEqual(data.slice(0, 15).map(({ id }) => id));
    expect(shown.words).toContain("$0.15 1,800 credits");
    expect(shown.text).toContain(`/workspaces/${tenant.workspaceId}/ai/playground?kind=chat&amp;model=demo-chat`);
    expect((await member.get(`${models}?kind=speech`)).text).not.toContain("demo-chat");
    const hides = (hidden: boolean) =>
      tenant.db.query(
        `insert into ai.workspace_policies (workspace_id, provider_cost_visible) values ($1, $2)
         on conflict (workspace_id) do update set provider_cost_visible = excluded.provider_cost_visible`,
        [tenant.workspaceId, !hidden],
      );
    await hides(true);
    const { text, words } = await member.get(models);
    await hides(false);
    expect(text).toContain("demo-chat");
    expect(words).not.toMatch(/\$0\.15|1,800/);
  });

  test("the playground without JavaScript returns the whole answer, continues the conversation, and keeps typed values on failure", async () => {
    const tools = JSON.stringify([{ type: "function", function: { name: "weather" } }]);
    const first = await member.post(page(), { ...settings, tools, prompt: 'call weather with {"city":"Rome"}' });
    expect(first.words).toContain("Calls weather");
    expect(first.words).toContain("Result of weather");
    const [, conversation = ""] = /name="conversation" value="([^"]*)"/.exec(first.text) ?? [];
    const carried = conversation.replaceAll("&quot;", '"').replaceAll("&#x27;", "'").replaceAll("&amp;", "&");
    const second = await member.post(page(), {
      ...settings,
      tools,
      conversation: carried,
      result0: "sunny <b>now</b>",
    });
    expect(second.words).toContain("The tool answered: sunny");
    expect(second.text).not.toContain("<b>now</b>");
    const failed = await member.post(page(), { ...settings, model: "demo-error-500", prompt: "remember me" });
    expect(failed.words).toContain("provider failed. Try again");
    expect(failed.text).toMatch(/<textarea[^>]*name="prompt"[^>]*>remember me/);
    const wrong = await member.post(page(), { ...settings, temperature: "9", prompt: "x" });
    expect([wrong.status, wrong.words]).toEqual([400, expect.stringContaining("Enter a temperature from 0 to 2")]);
  });

  test("the playground plays short speech within the page", async () => {
    const fields = { model: "demo-speech", voice: "Puck", format: "wav" };
    const { text } = await member.post(page("speech"), { ...fields, input: "Hello" });
    expect(text).toMatch(/<audio[^>]*src="data:audio\/wav;base64,UklGR/);
    const long = await member.post(page("speech"), { ...fields, input: "x".repeat(1_001) });
    expect([long.status, long.words]).toEqual([400, expect.stringContaining("at most 1000 characters")]);
    const { words } = await member.post(page("embeddings"), { model: "demo-embedding", input: "one\none\ntwo" });
    expect(words).toContain("256 dimensions per vector");
    expect(words).toContain("1.000");
  });
});

test("the playground chat omits models of the Messages API, and links to that API", async () => {
  const page = await fetch(`${base}/workspaces/${tenant.workspaceId}/ai/playground?kind=chat`, {
    headers: { cookie: member.cookie(), "x-forwarded-for": newAddress() },
  });
  const html = await page.text();
  expect(html).toContain('<option value="demo-chat"');
  expect(html).not.toContain('<option value="demo-messages"');
  expect(html).toContain('<a href="/docs/api/gateway/text#createMessage" class="link">the Messages API</a>');
});

import { randomUUID } from "node:crypto";
import { existsSync, readdirSync } from "node:fs";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { enterApproved } from "../../scripts/test/approved-browser.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { accessTokenOf } from "../testing/browser.ts";

const { ai, supabase } = readStack();

describe.each([
  ["an AAL1 token of an account that requires MFA", (person: Person) => enter(person)],
  ["a token of a sign-in approved on a phone, without the approval's cookie", enterApproved],
] as const)("API access with %s", (_, arrive) => {
  let person: Person;
  let accessToken: string;
  let workspaceId: string;

  beforeAll(async () => {
    person = await createPerson();
    const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
      person.id,
    ]);
    workspaceId = workspace?.id ?? "";
    const [app] = await insertAuthenticators(person, ["Phone"]);
    if (!app) throw new Error("no app");
    await requireMfa(person);
    accessToken = accessTokenOf(await arrive(person, app));
  });
  afterAll(() => deletePerson(person));

  interface DataAnswer {
    status: number;
    body: unknown;
  }

  /** Calls the Data API directly, like a phone with the publishable key. */
  async function atDataApi(path: string, { method = "GET", schema = "public", body = "" } = {}): Promise<DataAnswer> {
    const response = await fetch(`${supabase.url}/rest/v1/${path}`, {
      method,
      headers: {
        apikey: supabase.publishableKey,
        authorization: `Bearer ${accessToken}`,
        "accept-profile": schema,
        "content-profile": schema,
        "content-type": "application/json",
        prefer: "return=representation",
      },
      ...(body ? { body } : {}),
    });
    const text = await response.text();
    return { status: response.status, body: text === "" ? null : JSON.parse(text) };
  }

  /** Returns whether an answer reveals no data: it has a 4xx status or no rows. */
  const holdsNothing = ({ status, body }: DataAnswer) =>
    status >= 400 ? status < 500 : body === null || (Array.isArray(body) && body.length === 0);

  /** Reads all objects from the catalogue, so that new ones are tested too. */
  const relations = () =>
    query<{ schema: string; name: string; key: string }>(
      `select n.nspname as schema, c.relname as name, (
       select a.attname from pg_attribute a
       where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped order by a.attnum limit 1
     ) as key
     from pg_class c join pg_namespace n on n.oid = c.relnamespace
     where n.nspname in ('public', 'private', 'ai') and c.relkind in ('r', 'p', 'v', 'm')`,
      [],
    );
  const functions = () =>
    query<{ schema: string; name: string; arguments: Record<string, string> }>(
      `select n.nspname as schema, p.proname as name, coalesce((
       select jsonb_object_agg(p.proargnames[a.position], case
         when t.typname = 'uuid' then $1::text
         when t.typtype = 'e' then (select e.enumlabel from pg_enum e where e.enumtypid = t.oid limit 1)
         when t.typcategory = 'N' then '1'
         when t.typcategory = 'B' then 'true'
         when t.typcategory = 'D' then now()::text
         when t.typname in ('json', 'jsonb') then '{}'
         else 'x'
       end)
       from unnest(p.proargtypes) with ordinality as a (type, position)
       join pg_type t on t.oid = a.type
       where p.proargnames[a.position] <> ''
     ), '{}') as arguments
     from pg_proc p join pg_namespace n on n.oid = p.pronamespace
     where n.nspname in ('public', 'private', 'ai') and p.prorettype <> 'trigger'::regtype`,
      [workspaceId],
    );

  describe("direct calls to the Data API", () => {
    test("a token without proven MFA can neither read nor change a row of any table through the Data API", async () => {
      const found = await relations();
      const answers = await Promise.all(
        found.flatMap(({ schema, name, key }) => [
          atDataApi(`${name}?limit=1`, { schema }).then((answer) => ({ call: `read ${schema}.${name}`, answer })),
          // Names one person's row, because without a filter a wrong policy would let the call change every row.
          ...["PATCH", "DELETE"].map(async (method) => ({
            call: `${method} ${schema}.${name}`,
            answer: await atDataApi(`${name}?${key}=eq.${person.id}`, {
              method,
              schema,
              body: JSON.stringify({ [key]: person.id }),
            }),
          })),
          atDataApi(name, { method: "POST", schema, body: JSON.stringify({ [key]: person.id }) }).then((answer) => ({
            call: `insert into ${schema}.${name}`,
            answer,
          })),
        ]),
      );
      expect(answers.filter(({ answer }) => !holdsNothing(answer))).toEqual([]);
      expect(answers.filter(({ call, answer }) => call.startsWith("insert") && answer.status < 400)).toEqual([]);
      expect(found.length).toBeGreaterThan(40);
      const own = await query("select from public.profiles where id = $1", [person.id]);
      expect(own).toHaveLength(1);
    });

    test("a token without proven MFA gets data only from the Data API functions that report the session and the policy", async () => {
      const found = await functions();
      const answers = await Promise.all(
        found.map(async ({ schema, name, arguments: given }) => ({
          call: `${schema}.${name}`,
          answer: await atDataApi(`rpc/${name}`, { method: "POST", schema, body: JSON.stringify(given) }),
        })),
      );
      const answered = answers.filter(({ answer }) => !holdsNothing(answer) && answer.body !== false);
      expect(answered.map(({ call }) => call).sort()).toEqual([
        "public.device_session_state",
        "public.required_mfa_enforcement_version",
        "public.session_state",
        "public.workspace_session_state",
      ]);
      const state = answers.find(({ call }) => call === "public.session_state")?.answer.body;
      expect(state).toMatchObject({ policy: { state: "required", satisfied: false } });
      expect(found.length).toBeGreaterThan(100);
      expect(await query("select from public.workspaces where created_by = $1", [person.id])).toHaveLength(1);
    });
  });

  /** A request for each function of the gateway. The key is the function's folder. */
  const calls: Record<string, { path: string; body?: object }> = {
    audio: { path: "audio/speech", body: { input: "Hello" } },
    chat: { path: "chat/completions", body: { model: "demo-chat", messages: [{ role: "user", content: "Hi" }] } },
    embeddings: { path: "embeddings", body: { model: "demo-embedding", input: "Hi" } },
    envelopes: { path: `envelopes/${randomUUID()}` },
    generate: { path: "generate", body: { prompt: "Hi" } },
    key: { path: "key" },
    models: { path: "models" },
    "provider-costs": {
      path: "provider-costs",
      body: {
        provider: "demo",
        externalRunId: "run-1",
        amountUsd: 1,
        occurredAt: "2026-01-01T00:00:00Z",
        observedAt: "2026-01-01T00:00:00Z",
      },
    },
    "provider-invoices": {
      path: "provider-invoices",
      body: {
        provider: "demo",
        reference: "invoice-1",
        issuedOn: "2026-01-01",
        reviewedAt: "2026-01-02T00:00:00Z",
        amountUsd: 1,
      },
    },
    messages: {
      path: "messages",
      body: { model: "demo-messages", max_tokens: 10, messages: [{ role: "user", content: "Hi" }] },
    },
    responses: { path: "responses", body: { model: "demo-chat", input: "Hi" } },
    usage: { path: "usage" },
  };

  describe("calls to the AI gateway", () => {
    const atGateway = async ({ path, body }: { path: string; body?: object }) => {
      const response = await fetch(`${ai}/v1/${path}`, {
        method: body ? "POST" : "GET",
        headers: {
          authorization: `Bearer ${accessToken}`,
          "x-platform-workspace-id": workspaceId,
          ...(body ? { "content-type": "application/json" } : {}),
        },
        ...(body ? { body: JSON.stringify(body) } : {}),
      });
      const text = await response.text();
      return { path, status: response.status, code: text ? JSON.parse(text).error?.code : undefined };
    };
    const forbidden = ["MFA_REQUIRED", "credential_not_bound"];

    test("every gateway function answers 403 to a token without a second factor", async () => {
      const folders = readdirSync("supabase/functions", { withFileTypes: true })
        .filter((entry) => entry.isDirectory() && !entry.name.startsWith("_"))
        .map(({ name }) => name);
      // The other folders have no handler and always answer 404.
      const served = folders.filter((name) => existsSync(`supabase/functions/${name}/handler.ts`));
      // Only our own web server may call `providers`.
      expect(served.sort()).toEqual([...Object.keys(calls), "providers"].sort());
      expect(await atGateway({ path: "providers" })).toMatchObject({ status: 401, code: "invalid_api_key" });
      const answers = await Promise.all(Object.values(calls).map(atGateway));
      expect(answers.filter(({ status, code }) => status !== 403 || !forbidden.includes(code))).toEqual([]);
      expect(answers.filter(({ code }) => code === "MFA_REQUIRED").length).toBeGreaterThanOrEqual(6);
      expect(await query("select from ai.runs where workspace_id = $1", [workspaceId])).toEqual([]);
    });

    test("the gateway answers 503 if it can't read the account's MFA policy", async () => {
      await query(
        `with writer as (select set_config('gatehouse.required_mfa_writer', 'on', true))
       update auth.users set raw_app_meta_data = raw_app_meta_data || '{"platform_required_mfa": []}'
       from writer where id = $1`,
        [person.id],
      );
      expect(await atGateway(calls.chat as { path: string; body: object })).toMatchObject({
        status: 503,
        code: "AUTH_UNAVAILABLE",
      });
    });
  });
});

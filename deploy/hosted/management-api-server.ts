import { createHash, randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { Ajv } from "ajv";
import { z } from "zod";
import { backendSecretHash } from "./project.ts";

/** Shapes of the Management API; `source` in the file names their origin. */
const recorded = z
  .object({
    schemas: z.record(z.string(), z.record(z.string(), z.unknown())),
    responses: z.object({
      project: z.record(z.string(), z.unknown()),
      entitlements: z.array(z.unknown()),
      auth: z.record(z.string(), z.unknown()),
      postgrest: z.record(z.string(), z.unknown()),
      pooler: z.unknown(),
      apiKey: z.record(z.string(), z.unknown()),
    }),
  })
  .parse(JSON.parse(readFileSync(new URL("management-api.fixture.json", import.meta.url), "utf8")));

const ajv = new Ajv({ strict: false, formats: { email: /^[^\s@]+@[^\s@]+$/, uuid: /^[0-9a-f-]{36}$/ } });
/** Like the API, refuses fields that it does not know, and wrong types. */
const validators = new Map(
  Object.entries(recorded.schemas).map(([name, schema]) => [
    name,
    ajv.compile({ additionalProperties: false, ...schema }),
  ]),
);

export const projectRef = "abcdefghijklmnopqrst";
export const accessToken = "sbp_0102030405060708090a0b0c0d0e0f1011121314";

interface Answer {
  status: number;
  body?: unknown;
  headers?: Record<string, string>;
}
type Fault = Answer | "disconnect";

const object = z.record(z.string(), z.unknown());
const keyBody = z.object({ type: z.string(), name: z.string() });
const secretsBody = z.array(z.object({ name: z.string(), value: z.string() }));
const queryBody = z.object({ query: z.string() });
const metadata = z.object({ name: z.string(), verify_jwt: z.boolean() });

/** A local Management API with one project, as Supabase creates it. */
export async function startManagementApi() {
  const { project, auth, postgrest, apiKey } = recorded.responses;
  const state = {
    project: { ...project, ref: projectRef, id: projectRef, organization_slug: "acme" } as Record<string, unknown>,
    plan: "pro",
    entitlements: [...recorded.responses.entitlements],
    auth: { ...auth },
    postgrest: { ...postgrest },
    secrets: new Map<string, string>(),
    functions: new Map<string, Record<string, unknown>>(),
    keys: [] as Record<string, unknown>[],
    signingKeys: [] as { id: string; algorithm: string; status: string }[],
    migrations: [] as string[],
    hasCron: false,
    gatewayVerifier: undefined as string | undefined,
  };
  const requests: string[] = [];
  /** The faults of the next requests whose method and path match. */
  const faults: { matches: RegExp; fault: Fault; isDone?: boolean }[] = [];

  const now = "2026-11-30T00:00:00.000Z";
  const signingKey = (status: string, algorithm: string) => {
    const key = { id: randomUUID(), algorithm, status, created_at: now, updated_at: now };
    state.signingKeys.push(key);
    return key;
  };

  function updateAuth(fields: Record<string, unknown>): Answer {
    for (const [name, value] of Object.entries(fields))
      state.auth[name] =
        value === "" ? null : /_(pass|secret)$/.test(name) ? backendSecretHash(projectRef, String(value)) : value;
    return { status: 200, body: state.auth };
  }

  function runQuery({ query }: z.output<typeof queryBody>): Answer {
    const verifier = /^alter role gateway password '(SCRAM-SHA-256\$\S+)'$/.exec(query)?.[1];
    if (verifier) state.gatewayVerifier = verifier;
    else if (/^create extension if not exists pg_cron\b/.test(query)) state.hasCron = true;
    else return { status: 400, body: { message: "Failed to run sql query: unexpected statement" } };
    return { status: 201, body: [] };
  }

  function readOnlyQuery({ query }: z.output<typeof queryBody>): Answer {
    if (query.includes("has_history"))
      return { status: 201, body: [{ has_cron: state.hasCron, has_history: state.migrations.length > 0 }] };
    return { status: 201, body: state.migrations.map((version) => ({ version })) };
  }

  async function deployFunction(request: IncomingMessage, url: URL): Promise<Answer> {
    const form = await new Response(new Blob([new Uint8Array(await bytesOf(request))]), {
      headers: { "content-type": request.headers["content-type"] ?? "" },
    }).formData();
    const { name, verify_jwt } = metadata.parse(JSON.parse(String(form.get("metadata"))));
    const bundle = createHash("sha256");
    for (const file of form.getAll("file")) if (typeof file !== "string") bundle.update(await file.bytes());
    const version = Number(state.functions.get(name)?.version ?? 0) + 1;
    const facts = {
      id: randomUUID(),
      slug: url.searchParams.get("slug") ?? name,
      name,
      status: "ACTIVE",
      version,
      created_at: 1,
      updated_at: 1,
    };
    const fn = { ...facts, verify_jwt, ezbr_sha256: bundle.digest("hex") };
    if (url.searchParams.get("bundleOnly") !== "true") state.functions.set(fn.slug, fn);
    return { status: 201, body: fn };
  }

  const base = `/v1/projects/${projectRef}`;
  const routes: Record<string, (body: unknown) => Answer> = {
    [`GET ${base}`]: () => ({ status: 200, body: state.project }),
    "GET /v1/organizations/acme": () => ({
      status: 200,
      body: { id: "acme", name: "Acme", plan: state.plan, opt_in_tags: [], allowed_release_channels: ["ga"] },
    }),
    "GET /v1/organizations/acme/entitlements": () => ({ status: 200, body: { entitlements: state.entitlements } }),
    [`GET ${base}/config/auth`]: () => ({ status: 200, body: state.auth }),
    [`PATCH ${base}/config/auth`]: (body) => refused("UpdateAuthConfigBody", body) ?? updateAuth(object.parse(body)),
    [`GET ${base}/postgrest`]: () => ({ status: 200, body: state.postgrest }),
    [`PATCH ${base}/postgrest`]: (body) =>
      refused("V1UpdatePostgrestConfigBody", body) ?? {
        status: 200,
        body: Object.assign(state.postgrest, body),
      },
    [`GET ${base}/secrets`]: () => ({
      status: 200,
      body: [...state.secrets].map(([name, value]) => ({
        name,
        value: createHash("sha256").update(value).digest("hex"),
        updated_at: now,
      })),
    }),
    [`POST ${base}/secrets`]: (body) => {
      const fault = refused("CreateSecretBody", body);
      if (!fault) for (const { name, value } of secretsBody.parse(body)) state.secrets.set(name, value);
      return fault ?? { status: 201 };
    },
    [`GET ${base}/functions`]: () => ({ status: 200, body: [...state.functions.values()] }),
    [`PUT ${base}/functions`]: (body) => {
      for (const fn of z.array(object).parse(body))
        state.functions.set(String(fn.slug), { created_at: 1, updated_at: 1, ...fn });
      return { status: 200, body: { functions: [...state.functions.values()] } };
    },
    [`GET ${base}/api-keys`]: () => ({ status: 200, body: state.keys }),
    [`POST ${base}/api-keys`]: (body) => {
      const fault = refused("CreateApiKeyBody", body);
      if (fault) return fault;
      const { type, name } = keyBody.parse(body);
      const key = { ...apiKey, type, name, id: randomUUID(), api_key: `sb_${type}_${"x".repeat(22)}_12345678` };
      state.keys.push(key);
      return { status: 201, body: key };
    },
    [`GET ${base}/config/auth/signing-keys`]: () => ({ status: 200, body: { keys: state.signingKeys } }),
    [`POST ${base}/config/auth/signing-keys/legacy`]: () => ({ status: 201, body: signingKey("in_use", "HS256") }),
    [`POST ${base}/config/auth/signing-keys`]: (body) => {
      const { algorithm, status } = z.record(z.string(), z.string()).parse(body);
      return (
        refused("CreateSigningKeyBody", body) ?? { status: 201, body: signingKey(status ?? "standby", algorithm ?? "") }
      );
    },
    [`PATCH ${base}/config/auth/signing-keys/:id`]: (body) => refused("UpdateSigningKeyBody", body) ?? { status: 200 },
    [`GET ${base}/config/database/pooler`]: () => ({ status: 200, body: recorded.responses.pooler }),
    [`POST ${base}/database/query`]: (body) => refused("V1RunQueryBody", body) ?? runQuery(queryBody.parse(body)),
    [`POST ${base}/database/query/read-only`]: (body) =>
      refused("V1ReadOnlyQueryBody", body) ?? readOnlyQuery(queryBody.parse(body)),
  };

  function rotate(id: string): void {
    for (const key of state.signingKeys)
      key.status = key.id === id ? "in_use" : key.status === "in_use" ? "previously_used" : key.status;
  }

  async function answer(request: IncomingMessage): Promise<Fault> {
    const url = new URL(request.url ?? "/", "http://localhost");
    const line = `${request.method} ${url.pathname}`;
    requests.push(line);
    const index = faults.findIndex(({ matches }) => matches.test(line));
    const [planned] = index < 0 ? [] : faults.splice(index, 1);
    if (planned && !planned.isDone) return planned.fault;
    if (request.headers.authorization !== `Bearer ${accessToken}`)
      return { status: 401, body: { message: "Unauthorized" } };
    if (line === `POST ${base}/functions/deploy`) return deployFunction(request, url);
    const id = /\/signing-keys\/([0-9a-f-]{36})$/.exec(url.pathname)?.[1];
    const route = routes[id ? line.replace(id, ":id") : line];
    if (!route) return { status: 404, body: { message: `Cannot ${line}` } };
    const text = (await bytesOf(request)).toString();
    const outcome = route(text ? JSON.parse(text) : undefined);
    if (id && outcome.status === 200) rotate(id);
    return planned?.fault ?? outcome;
  }

  const server = createServer(async (request, response) => {
    const outcome = await answer(request);
    if (outcome === "disconnect") response.destroy();
    else send(response, outcome);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    address: `http://127.0.0.1:${port}`,
    state,
    requests,
    faults,
    close: () => {
      server.closeAllConnections();
      server.close();
    },
  };
}

function refused(schema: string, body: unknown): Answer | undefined {
  const validate = validators.get(schema);
  if (validate?.(body)) return undefined;
  return {
    status: 400,
    body: {
      message: (validate?.errors ?? []).map(
        ({ instancePath, message, params }) => `${instancePath} ${message} ${JSON.stringify(params)}`,
      ),
    },
  };
}

async function bytesOf(request: IncomingMessage): Promise<Buffer> {
  return Buffer.concat(await request.toArray());
}

function send(response: ServerResponse, { status, body, headers }: Answer): void {
  response.writeHead(status, { "content-type": "application/json; charset=utf-8", ...headers });
  response.end(body === undefined ? "" : JSON.stringify(body));
}

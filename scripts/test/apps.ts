import { randomBytes } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import { hashToBytea } from "../../remix-app/apps/opaque-tokens.ts";
import { basicAuthorization } from "../../remix-app/http/authorization.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { insertAccount, query } from "./people.ts";
import { readStack } from "./stack.ts";

const { base, supabase } = readStack();
const quiet = { auth: { persistSession: false, autoRefreshToken: false } };

/** A client of the Data API that uses the server's own key. */
export const service = createClient(supabase.url, supabase.secretKey, quiet);

/** A confirmed account with a session. */
export interface Person {
  id: string;
  email: string;
  password: string;
  accessToken: string;
}

/** A registered app, with its secret in plain text. */
export interface TestApp {
  id: string;
  name: string;
  secret: string;
}

/** Creates an account and signs it in at the identity backend. */
export async function createPerson(): Promise<Person> {
  const id = crypto.randomUUID();
  const credentials = { email: `${id.slice(0, 8)}@integration.gatehouse.test`, password: `correct horse ${id}` };
  const accountId = await insertAccount(credentials);
  return { ...credentials, id: accountId, ...(await signInAgain(credentials)) };
}

/** Starts another session of an account. */
export async function signInAgain(person: Pick<Person, "email" | "password">): Promise<{ accessToken: string }> {
  const client = createClient(supabase.url, supabase.publishableKey, {
    ...quiet,
    global: { headers: { apikey: supabase.secretKey, "Sb-Forwarded-For": newAddress() } },
  });
  const { data, error } = await client.auth.signInWithPassword(person);
  if (error) throw error;
  return { accessToken: data.session.access_token };
}

/** Ends a session as the identity backend does when its user signs out. */
export async function signOut({ accessToken }: Pick<Person, "accessToken">): Promise<void> {
  const { error } = await service.auth.admin.signOut(accessToken, "local");
  if (error) throw error;
}

/** Registers a new app for a test. */
export async function createApp(options: {
  kind?: "internal" | "external";
  scopes: string[];
  workspaceId?: string;
  displayName?: string;
  origins?: string[];
}): Promise<TestApp> {
  const { kind = "internal", scopes, workspaceId, displayName = "Test", origins = [] } = options;
  const name = `app-${randomBytes(8).toString("hex")}`;
  const secret = randomBytes(32).toString("base64url");
  // An earlier test may have used the same port and left its app registered.
  await query("delete from private.app_origins where origin = any ($1)", [origins]);
  const apps = service.schema("private");
  const registered = await apps.rpc("register_app", {
    app_name: name,
    display_name: displayName,
    kind,
    origins,
    scopes,
    secret_hash: hashToBytea(secret),
    reason: "test",
  });
  if (registered.error) throw registered.error;
  if (workspaceId) {
    const link = { app_name: name, workspace_id: workspaceId, linked: true, reason: "test" };
    const linked = await apps.rpc("set_app_workspace", link);
    if (linked.error) throw linked.error;
  }
  return { id: registered.data, name, secret };
}

interface Answer {
  status: number;
  headers: Headers;
  body: never;
}

/** Sends JSON to the platform. @returns the response's JSON, or its text if it is not JSON */
export async function send(
  path: string,
  { method = "POST", body, headers = {} }: { method?: string; body?: unknown; headers?: Record<string, string> } = {},
): Promise<Answer> {
  const response = await fetch(new URL(path, base), {
    method,
    redirect: "manual",
    headers: {
      "x-forwarded-for": newAddress(),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  const isJson = response.headers.get("content-type")?.includes("json") ?? false;
  return { status: response.status, headers: response.headers, body: (isJson ? JSON.parse(text) : text) as never };
}

export function bearer(token: string): Record<string, string> {
  return { authorization: `Bearer ${token}` };
}

/** Calls the platform as an app's server. */
export function asApp(app: Pick<TestApp, "name" | "secret">, path: string, body: unknown): Promise<Answer> {
  return send(path, { body, headers: { authorization: basicAuthorization(app) } });
}

export const paths = {
  mint: "/api/v1/auth/cross-app-tokens",
  validate: "/api/v1/auth/cross-app-tokens/validate",
  introspect: "/api/v1/auth/app-sessions/introspect",
  refresh: "/api/v1/auth/app-sessions/refresh",
  revoke: "/api/v1/auth/app-sessions/revoke",
  exchange: "/api/v1/auth/app-token/exchange",
} as const;

/** Mints a cross-app token for a person. */
export async function mint(person: Pick<Person, "accessToken">, app: TestApp): Promise<string> {
  const { status, body } = await send(paths.mint, {
    body: { targetApp: app.name },
    headers: bearer(person.accessToken),
  });
  if (status !== 201) throw new Error(`minting answered ${status}: ${JSON.stringify(body)}`);
  return (body as { token: string }).token;
}

/** The data that an app stores about a person after {@link handOver}. */
export interface Held {
  userId: string;
  sid: string;
  appSession: { token: string; expiresAt: string };
  centralSession: { token: string; expiresAt: string };
}

/** Hands a person over to an app. */
export async function handOver(person: Pick<Person, "accessToken">, app: TestApp): Promise<Held> {
  return (await asApp(app, paths.validate, { token: await mint(person, app) })).body;
}

import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from "jose";
import type { StoredSession } from "../../remix-app/session/cookies.ts";
import { startWeb, type WebProcess } from "../../remix-app/testing/web-process.ts";
import { keepSession, signAsStack, vaultSettings } from "./keep-session.ts";
import { createPerson, deletePerson, type Person, query } from "./people.ts";
import { readStack } from "./stack.ts";

/** How a part of the backend behaves: it answers, fails, or never answers. */
type Behaviour = "ok" | "down" | "hang";

export interface TokenOptions {
  /** An existing session; a new one by default. */
  sessionId?: string;
  /** Seconds from now; negative for a token that has expired. */
  expiresIn?: number;
  issuer?: string;
  audience?: string;
  kid?: string;
  algorithm?: "ES256" | "HS256";
  foreignKey?: boolean;
  /** How long ago the session verified a password. */
  provenSecondsAgo?: number;
  /** How long ago the session verified an authenticator code. If absent, the session has verified none. */
  codeSecondsAgo?: number;
}

/**
 * A simulated Supabase Auth whose behaviour the test sets, in front of the stack's real Data API and database. It
 * answers `/auth/v1` itself, with its own tokens, and forwards `/rest/v1` unless the test asks for a failure there.
 */
export interface IdentityBackend {
  url: string;
  /** The account that signs in at this backend. */
  person: Person;
  /** Switches to a new account, for a test that changes the account. */
  newPerson(): Promise<Person>;
  /** Requests received, as `METHOD path`, except those of the web server's schedule. */
  calls: string[];
  /** The query of the last call of each path. */
  queries: Map<string, string>;
  /** The headers of the last call of each path. */
  headers: Map<string, IncomingMessage["headers"]>;
  /** The body of the last request that sends an email, by path. */
  bodies: Map<string, unknown>;
  jwks: Behaviour | "empty";
  user: Behaviour | "refused";
  /** The response to a token request: a session, or a status with an error code. */
  refresh: Behaviour | { status: number; code: string };
  /** The response to `/verify`, which redeems an emailed link. */
  verify: Behaviour;
  logout: Behaviour;
  /** The response to sign-ups and requests for an email. */
  mails: Behaviour | { status: number; code: string };
  /** The response of `session_state`, `device_session_state` and `workspace_session_state`. */
  state: Behaviour | "nonsense";
  /** The response of `begin_attempt`. */
  attempts: Behaviour | "nonsense" | object;
  /** The response of the device vault's functions. */
  vault: "ok" | "down";
  /** How many of the next calls to the vault fail. */
  vaultMisses: number;
  /** The response to every Data API call that no other field covers. */
  rows: "ok" | "down" | unknown[];
  accessToken(options?: TokenOptions): Promise<string>;
  /**
   * Returns the tokens of a session. Inserts a new session into the database unless `sessionId` names an existing one.
   */
  session(options?: TokenOptions): Promise<StoredSession>;
  /** Ends all sessions of the account, only in the database. */
  endSessions(): Promise<void>;
  /** Returns the Cookie header of a browser that signed in with this session. */
  cookieOf(session: StoredSession, options?: { origin?: string }): Promise<string>;
  count(call: string): number;
  /** Settings of a server whose Supabase project is this backend. */
  env: Record<"NODE_ENV" | "BASE_URL" | "SUPABASE_URL" | "SUPABASE_PUBLISHABLE_KEY" | "SUPABASE_SECRET_KEY", string>;
  /** Starts a web server with `env`. */
  startWeb(options?: NonNullable<Parameters<typeof startWeb>[1]>): Promise<WebProcess>;
  /** Ends all faults and forgets the calls so far. */
  reset(): void;
  close(): Promise<void>;
}

const refreshDelayMs = 50;
/** The behaviour without faults. */
const works = {
  jwks: "ok",
  user: "ok",
  refresh: "ok",
  verify: "ok",
  logout: "ok",
  mails: "ok",
  state: "ok",
  attempts: "ok",
  vault: "ok",
  vaultMisses: 0,
  rows: "ok",
} as const;
const scheduled = /\/rpc\/(sweep_\w+|delete_expired\w*|roll_up_usage|record_provider_outages|claim_due_mails)$/;
const ofVault =
  /\/rpc\/(open_account_device|store_account_session|discard_account_session|sign_in_account|sign_out_device)$/;
const ofState = /\/rpc\/((device|workspace)_)?session_state$/;
/** Headers that apply to one connection only. */
const ofConnection = ["host", "connection", "keep-alive", "content-length", "content-encoding", "transfer-encoding"];
const internalError = { code: "XX000", message: "internal text" };

/** Starts the backend with a new account. */
export async function startIdentityBackend(): Promise<IdentityBackend> {
  const { base, supabase } = readStack();
  const own = await generateKeyPair("ES256", { extractable: true });
  const foreign = await generateKeyPair("ES256");
  const publicKey = { ...(await exportJWK(own.publicKey)), kid: "k1", use: "sig", alg: "ES256" };
  const people = [await createPerson()];
  const secrets = {
    SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
    SUPABASE_SECRET_KEY: supabase.secretKey,
    ...vaultSettings(),
  };
  let refreshes = 0;

  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const backend: IdentityBackend = {
    url,
    get person() {
      return people.at(-1) as Person;
    },
    async newPerson() {
      people.push(await createPerson());
      return backend.person;
    },
    calls: [],
    queries: new Map(),
    headers: new Map(),
    bodies: new Map(),
    ...works,
    accessToken: async (options = {}) => signToken(options.sessionId ?? (await startSession(options)), options),
    session: async (options = {}) => sessionOf(options.sessionId ?? (await startSession(options)), options),
    endSessions: () => query("delete from auth.sessions where user_id = $1", [backend.person.id]).then(() => {}),
    cookieOf: keepSession,
    count: (call) => backend.calls.filter((seen) => seen === call).length,
    env: { NODE_ENV: "test", BASE_URL: base, SUPABASE_URL: url, ...secrets },
    startWeb: ({ env = {}, ...place } = {}) => startWeb(url, { ...place, env: { ...secrets, ...env } }),
    reset() {
      Object.assign(backend, works);
      backend.calls.length = 0;
      for (const seen of [backend.queries, backend.headers, backend.bodies]) seen.clear();
    },
    async close() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
      await Promise.all(people.map(deletePerson));
    },
  };

  async function startSession({ codeSecondsAgo }: TokenOptions = {}): Promise<string> {
    const id = crypto.randomUUID();
    await query(
      `insert into auth.sessions (id, user_id, created_at, updated_at, aal, factor_id)
       select $1, u.id, now(), now(), case when $3 then 'aal2' else 'aal1' end::auth.aal_level, f.id
       from auth.users u left join auth.mfa_factors f on f.user_id = u.id and $3
       where u.id = $2`,
      [id, backend.person.id, codeSecondsAgo !== undefined],
    );
    return id;
  }

  function signToken(sessionId: string, options: TokenOptions): Promise<string> {
    const { expiresIn = 3600, issuer = `${url}/auth/v1`, audience = "authenticated", kid = "k1" } = options;
    const { provenSecondsAgo = 0, codeSecondsAgo, algorithm = "ES256" } = options;
    const nowSeconds = Math.floor(Date.now() / 1000);
    const code = codeSecondsAgo === undefined ? [] : [{ method: "totp", timestamp: nowSeconds - codeSecondsAgo }];
    const token = new SignJWT({
      role: "authenticated",
      email: backend.person.email,
      session_id: sessionId,
      aal: codeSecondsAgo === undefined ? "aal1" : "aal2",
      amr: [...code, { method: "password", timestamp: nowSeconds - provenSecondsAgo }],
    })
      .setProtectedHeader({ alg: algorithm, kid })
      .setSubject(backend.person.id)
      .setIssuer(issuer)
      .setAudience(audience)
      .setIssuedAt(nowSeconds - 10)
      .setExpirationTime(nowSeconds + expiresIn);
    if (algorithm === "HS256") return token.sign(new TextEncoder().encode(JSON.stringify(publicKey)));
    return token.sign(options.foreignKey ? foreign.privateKey : own.privateKey);
  }

  async function sessionOf(sessionId: string, options: TokenOptions = {}): Promise<StoredSession> {
    return {
      access_token: await signToken(sessionId, options),
      refresh_token: `refresh-${refreshes} ${sessionId} ${crypto.randomUUID()}`,
      expires_in: 3600,
      expires_at: Math.floor(Date.now() / 1000) + (options.expiresIn ?? 3600),
      token_type: "bearer",
    };
  }

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = "", search = ""] = (request.url ?? "").split("?");
    if (!scheduled.test(path)) backend.calls.push(`${request.method} ${path}`);
    backend.queries.set(path, search);
    backend.headers.set(path, request.headers);
    const send = (status: number, body: unknown) => {
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    };
    const body = await bodyOf(request);
    if (path.startsWith("/rest/v1/")) return answerData({ path, request, body, response, send });

    const sendError = ({ status, code }: { status: number; code: string }) => {
      response.setHeader("X-Supabase-Api-Version", "2024-01-01");
      send(status, { code, message: "the backend's own words" });
    };
    const { id, email } = backend.person;
    if (path.endsWith("/jwks.json")) {
      if (!fails(response, backend.jwks)) send(200, { keys: backend.jwks === "empty" ? [] : [publicKey] });
    } else if (path === "/auth/v1/user") {
      if (backend.user === "refused") send(403, { code: "bad_jwt", message: "no" });
      else if (!fails(response, backend.user)) send(200, { id, email });
    } else if (path === "/auth/v1/token") {
      if (typeof backend.refresh === "object") sendError(backend.refresh);
      else if (!fails(response, backend.refresh)) {
        refreshes += 1;
        await new Promise((resolve) => setTimeout(resolve, refreshDelayMs));
        const [, sessionId = await startSession()] = String(JSON.parse(body).refresh_token ?? "").split(" ");
        send(200, { ...(await sessionOf(sessionId)), provider_token: "not for browsers", user: { id, email } });
      }
    } else if (path === "/auth/v1/logout") {
      if (!fails(response, backend.logout)) response.writeHead(204).end();
    } else if (["/auth/v1/otp", "/auth/v1/recover", "/auth/v1/resend", "/auth/v1/signup"].includes(path)) {
      backend.bodies.set(path, JSON.parse(body));
      if (typeof backend.mails === "object") sendError(backend.mails);
      else if (!fails(response, backend.mails)) {
        send(200, path === "/auth/v1/signup" ? { id, email, identities: [] } : {});
      }
    } else if (path === "/auth/v1/verify") {
      if (!fails(response, backend.verify)) {
        send(200, { ...(await backend.session()), user: { id, email } });
      }
    } else send(404, {});
  }

  async function answerData({ path, request, body, response, send }: DataCall): Promise<void> {
    if (scheduled.test(path)) return send(200, []);
    if (ofState.test(path)) {
      if (backend.state === "nonsense") {
        response.writeHead(200, { "Content-Type": "application/json" }).end("{");
        return;
      }
      if (fails(response, backend.state)) return;
    } else if (ofVault.test(path)) {
      const missed = backend.vaultMisses > 0;
      if (missed) backend.vaultMisses -= 1;
      if (missed || backend.vault === "down") return send(500, internalError);
    } else if (path.endsWith("/rpc/begin_attempt")) {
      if (backend.attempts === "nonsense") return send(200, null);
      if (typeof backend.attempts === "object") return send(200, backend.attempts);
      if (fails(response, backend.attempts)) return;
    } else if (backend.rows === "down") return send(500, internalError);
    else if (backend.rows !== "ok") return send(200, backend.rows);
    const { status, headers, text } = await forward({ request, body, to: supabase.url });
    response.setHeaders(headers).writeHead(status).end(text);
  }

  return backend;
}

interface DataCall {
  path: string;
  request: IncomingMessage;
  body: string;
  response: ServerResponse;
  send: (status: number, body: unknown) => void;
}

/** Simulates a failure: "down" responds with 500, and "hang" never responds. @returns false for any other behaviour */
function fails(response: ServerResponse, behaviour: string): boolean {
  if (behaviour === "down") response.writeHead(500).end();
  return behaviour === "down" || behaviour === "hang";
}

/**
 * Forwards a call to the stack. Replaces a user's token with one that the stack has issued, since the stack accepts no
 * other issuer.
 */
async function forward({ request, body, to }: { request: IncomingMessage; body: string; to: string }) {
  const { method = "GET", url = "/" } = request;
  const headers = new Headers(request.headers as Record<string, string>);
  for (const name of ofConnection) headers.delete(name);
  const token = headers.get("authorization")?.replace("Bearer ", "") ?? "";
  if (token.split(".").length === 3) {
    headers.set("authorization", `Bearer ${await signAsStack({ ...decodeJwt(token), iss: `${to}/auth/v1` })}`);
  }
  const init = method === "GET" || method === "HEAD" ? {} : { body };
  const response = await fetch(`${to}${url}`, { method, headers, ...init });
  const answered = new Headers(response.headers);
  for (const name of ofConnection) answered.delete(name);
  return { status: response.status, headers: answered, text: await response.text() };
}

async function bodyOf(request: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return text || "{}";
}

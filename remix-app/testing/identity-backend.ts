import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import type { StoredSession } from "../identity/session-cookie.ts";
import { createVaultBackend, type VaultBackend } from "./vault-backend.ts";

/** How one part of the backend behaves: as it should, refusing the connection's request, or never answering. */
type Behaviour = "ok" | "down" | "hang";

export interface TokenOptions {
  /** Seconds from now; negative for a token that has expired. */
  expiresIn?: number;
  issuer?: string;
  audience?: string;
  kid?: string;
  algorithm?: "ES256" | "HS256";
  foreignKey?: boolean;
  /** How long ago the session proved who it is. */
  provenSecondsAgo?: number;
  /** How long ago it proved a code of an authenticator; left out, it never did. */
  codeSecondsAgo?: number;
}

/** What a web server asks by the clock, whoever visits it. */
const ofTheSchedule = /\/rpc\/(sweep_\w+|delete_expired|roll_up_usage|claim_outgoing_mails)$/;

/** A small identity backend and Data API on a port of its own, to be told how to fail. */
export interface IdentityBackend {
  url: string;
  /** Requests seen, as `METHOD path`. */
  calls: string[];
  /** The query of the last call of each path. */
  queries: Map<string, string>;
  /** Headers of the last call of each path. */
  headers: Map<string, IncomingMessage["headers"]>;
  /** The body of the last request for a mail, by path. */
  bodies: Map<string, unknown>;
  jwks: Behaviour | "empty";
  user: Behaviour | "refused";
  /** What a refresh answers: a session, a status with an error code, or nothing. */
  refresh: Behaviour | { status: number; code: string };
  /** What becomes of a link from a mail. */
  verify: Behaviour;
  logout: Behaviour;
  /** What is answered to sign-ups, and to those who ask for a mail with a link. */
  mails: Behaviour | { status: number; code: string };
  state: Behaviour | "over" | "banned" | "refused" | "malformed-policy" | "nonsense" | "unsatisfied" | "enrolled";
  /** Whether attempts can be counted, and what is answered about each. */
  attempts: Behaviour | "nonsense" | object;
  /** What every table holds, or how reading one fails. */
  rows: "down" | unknown[];
  /** The accounts that browsers hold. */
  vault: VaultBackend;
  accessToken(options?: TokenOptions): Promise<string>;
  session(options?: TokenOptions): Promise<StoredSession>;
  count(call: string): number;
  close(): Promise<void>;
}

export const testUser = { id: "6f1c1b52-6e64-4b0a-9a39-0c5f3b8f7f11", email: "ada@example.com" };
const sessionId = "0b9dbb1c-5a0c-4f7e-8f0f-0f8b62a2d7aa";
const refreshDelayMs = 50;

/** Starts the backend. */
export async function startIdentityBackend(): Promise<IdentityBackend> {
  const own = await generateKeyPair("ES256", { extractable: true });
  const foreign = await generateKeyPair("ES256");
  const publicKey = { ...(await exportJWK(own.publicKey)), kid: "k1", use: "sig", alg: "ES256" };
  let refreshes = 0;

  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;

  const backend: IdentityBackend = {
    url,
    calls: [],
    queries: new Map(),
    headers: new Map(),
    bodies: new Map(),
    jwks: "ok",
    user: "ok",
    refresh: "ok",
    verify: "ok",
    logout: "ok",
    mails: "ok",
    state: "ok",
    attempts: "ok",
    rows: [],
    vault: createVaultBackend({ userId: testUser.id, sessionId }),
    async accessToken(options = {}) {
      const { expiresIn = 3600, issuer = `${url}/auth/v1`, audience = "authenticated", kid = "k1" } = options;
      const nowSeconds = Math.floor(Date.now() / 1000);
      const token = new SignJWT({
        role: "authenticated",
        email: testUser.email,
        session_id: sessionId,
        aal: "aal1",
        amr: [
          ...(options.codeSecondsAgo === undefined
            ? []
            : [{ method: "totp", timestamp: nowSeconds - options.codeSecondsAgo }]),
          { method: "password", timestamp: nowSeconds - (options.provenSecondsAgo ?? 0) },
        ],
      })
        .setProtectedHeader({ alg: options.algorithm ?? "ES256", kid })
        .setSubject(testUser.id)
        .setIssuer(issuer)
        .setAudience(audience)
        .setIssuedAt(nowSeconds - 10)
        .setExpirationTime(nowSeconds + expiresIn);
      if (options.algorithm === "HS256") return token.sign(new TextEncoder().encode(JSON.stringify(publicKey)));
      return token.sign(options.foreignKey ? foreign.privateKey : own.privateKey);
    },
    async session(options = {}) {
      const expiresIn = options.expiresIn ?? 3600;
      return {
        access_token: await backend.accessToken(options),
        refresh_token: `refresh-${refreshes}`,
        expires_in: 3600,
        expires_at: Math.floor(Date.now() / 1000) + expiresIn,
        token_type: "bearer",
      };
    },
    count: (call) => backend.calls.filter((seen) => seen === call).length,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [path = "", query = ""] = (request.url ?? "").split("?");
    if (!ofTheSchedule.test(path)) backend.calls.push(`${request.method} ${path}`);
    backend.queries.set(path, query);
    backend.headers.set(path, request.headers);
    const send = (status: number, body: unknown) => {
      response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(body));
    };
    const sendError = ({ status, code }: { status: number; code: string }) => {
      response.setHeader("X-Supabase-Api-Version", "2024-01-01");
      send(status, { code, message: "the backend's own words" });
    };
    const fail = (behaviour: string) => {
      if (behaviour === "down") response.writeHead(500).end();
      return behaviour === "down" || behaviour === "hang";
    };
    if (path.endsWith("/jwks.json")) {
      if (!fail(backend.jwks)) send(200, { keys: backend.jwks === "empty" ? [] : [publicKey] });
    } else if (path === "/auth/v1/user") {
      if (backend.user === "refused") send(403, { code: "bad_jwt", message: "no" });
      else if (!fail(backend.user)) send(200, testUser);
    } else if (path === "/auth/v1/token") {
      if (typeof backend.refresh === "object") sendError(backend.refresh);
      else if (!fail(backend.refresh)) {
        refreshes += 1;
        await new Promise((resolve) => setTimeout(resolve, refreshDelayMs));
        send(200, { ...(await backend.session()), provider_token: "not for browsers", user: testUser });
      }
    } else if (path === "/auth/v1/logout") {
      if (!fail(backend.logout)) response.writeHead(204).end();
    } else if (["/auth/v1/recover", "/auth/v1/resend", "/auth/v1/signup"].includes(path)) {
      backend.bodies.set(path, await bodyOf(request));
      if (typeof backend.mails === "object") sendError(backend.mails);
      else if (!fail(backend.mails)) send(200, path === "/auth/v1/signup" ? { ...testUser, identities: [] } : {});
    } else if (path === "/auth/v1/verify") {
      if (!fail(backend.verify)) send(200, { ...(await backend.session()), user: testUser });
    } else if (path === "/rest/v1/rpc/session_state") {
      if (backend.state === "refused") send(401, { code: "PGRST301" });
      else if (backend.state === "over") send(200, { alive: false });
      else if (backend.state === "nonsense") response.writeHead(200, { "Content-Type": "application/json" }).end("{");
      else if (!fail(backend.state)) send(200, factsAs(backend.state));
    } else if (path === "/rest/v1/rpc/device_session_state") {
      const { device_id } = (await bodyOf(request)) as { device_id: string };
      const device = backend.vault.stateOf(device_id, {
        alive: backend.state !== "over" && backend.state !== "banned",
      });
      if (backend.state === "refused") send(401, { code: "PGRST301" });
      else if (backend.state === "over") send(200, { alive: false, device });
      else if (backend.state === "nonsense") response.writeHead(200, { "Content-Type": "application/json" }).end("{");
      else if (!fail(backend.state)) send(200, { ...factsAs(backend.state), device });
    } else if (backend.vault.answers(path)) {
      const missed = backend.vault.misses > 0;
      if (missed) backend.vault.misses -= 1;
      if (missed || backend.vault.down) send(500, { code: "XX000", message: "internal text" });
      else send(200, backend.vault.answer(path, (await bodyOf(request)) as never));
    } else if (path === "/rest/v1/rpc/begin_attempt") {
      if (backend.attempts === "nonsense") send(200, null);
      else if (typeof backend.attempts === "object") send(200, backend.attempts);
      else if (!fail(backend.attempts)) {
        send(200, { allowed: true, attemptId: crypto.randomUUID(), needsBotChallenge: false });
      }
    } else if (path.startsWith("/rest/v1/")) {
      if (backend.rows === "down") send(500, { code: "XX000", message: "internal text" });
      else send(200, backend.rows);
    } else send(404, {});
  }
  return backend;
}

async function bodyOf(request: IncomingMessage): Promise<unknown> {
  let text = "";
  for await (const chunk of request) text += chunk;
  return JSON.parse(text || "{}");
}

function factsAs(state: IdentityBackend["state"]) {
  return {
    alive: true,
    sessionId,
    notAfter: null,
    aal: "aal1",
    user: { ...testUser, displayName: "Ada", avatarUrl: null, banned: state === "banned", deleted: false },
    hasVerifiedFactor: state === "enrolled",
    policy: {
      state: state === "malformed-policy" ? "malformed" : "optional",
      required: state === "unsatisfied",
      satisfied: state !== "unsatisfied",
      byApproval: false,
    },
    infrastructureAdmin: false,
  };
}

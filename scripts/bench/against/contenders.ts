import path from "node:path";
import pg from "pg";
import { z } from "zod";
import { basicAuthorization } from "../../../remix-app/http/authorization.ts";
import { readStackFile } from "../../test/stack.ts";
import { superuserUrl } from "../../test/start-stack.ts";
import type { Call } from "../gateway/call.ts";
import { makeLogFiles } from "../gateway/database-state.ts";
import { requireDurability } from "../gateway/gateway.ts";
import { startServer } from "../gateway/service-process.ts";
import { otherTarget, ourTarget } from "../gateway/targets.ts";
import { portkeyLabel, startPortkey } from "../peers/portkey.ts";
import { startUpstream } from "../upstream/upstream.ts";
import { createWebCalls, type PreparedCall, signIn, webOf } from "../web/pages.ts";
import { startWebServer } from "../web/traced-web.ts";
import { createCallers } from "./callers.ts";

/** A server of the comparison. Only our gateways have a database. A peer has some of the calls. */
export type Contender = {
  label: string;
  pid: number;
  calls: Partial<Record<string, PreparedCall>>;
  database?: { client: pg.Client; superuser: pg.Client; postgresPid: number };
  /** @throws Error if the server has restarted since it was opened */
  requireSameProcess: () => void;
  close: () => Promise<unknown>;
};

/** Prepares the gateway of a running stack for load, with an upstream of its own in place of the stack's provider. */
export async function openStackGateway(options: {
  label: string;
  stackFile: string;
  workspaces: number;
  complain: (text: string) => void;
}): Promise<Contender> {
  const { label, stackFile, workspaces, complain } = options;
  const stack = readStackFile(stackFile);
  const [client, superuser] = [await connect(stack.supabase.dbUrl), await connect(await superuserUrl(stackFile))];
  await requireDurability(client);
  await makeLogFiles(superuser);
  const calls = await createCallers(client, {
    stack,
    workspaces,
    complain: (text) => complain(`${label}: ${text}`),
  });
  const upstream = await startUpstream(Number(new URL(stack.provider).port));
  const { pid } = ourTarget(stack, []);
  const postgresPid = stack.services.find(({ name }) => name === "postgres")?.pid ?? 0;
  return {
    label,
    pid,
    calls,
    database: { client, superuser, postgresPid },
    requireSameProcess() {
      if (ourTarget(readStackFile(stackFile), []).pid === pid) return;
      throw new Error(`The functions of ${label} restarted under the load: see the stack's log.`);
    },
    close: () => Promise.all([upstream.stop(), client.end(), superuser.end()]),
  };
}

/** Prepares the web server of a running stack for load. */
export async function openStackWeb({ label, stackFile }: { label: string; stackFile: string }): Promise<Contender> {
  const stack = readStackFile(stackFile);
  const { pid } = webOf(stack);
  return {
    label,
    pid,
    calls: await createWebCalls(stack),
    requireSameProcess() {
      if (webOf(readStackFile(stackFile)).pid === pid) return;
      throw new Error(`The web server of ${label} restarted under the load: see the stack's log.`);
    },
    close: async () => {},
  };
}

/** Starts two processes of the web server against a running stack. */
export async function openTwoProcesses(stackFile: string): Promise<Contender> {
  // The imported module reads GATEHOUSE_STACK when it is loaded.
  process.env.GATEHOUSE_STACK = stackFile;
  const { appSettings, vaultSettings } = await import("../../test/keep-session.ts");
  const stack = readStackFile(stackFile);
  const env = { ...vaultSettings(), ...appSettings(), BASE_URL: stack.base, WEB_PROCESSES: "2" };
  const { pid, url, stop } = await startWebServer(stack, { env });
  const calls = await createWebCalls(stack, url);
  return { label: "two processes", pid, calls, requireSameProcess() {}, close: stop };
}

const oidcProviderTokens = z.object({ accessToken: z.string(), refreshToken: z.string() });
const installTimeoutMs = 120_000;

/** Starts `oidc-provider`, installed below `.local/` if it is missing. */
export async function openOidcProvider(): Promise<Contender> {
  const program = path.resolve(import.meta.dirname, "../processes/oidc-provider.ts");
  const { pid, url, ask, stop } = await startServer({ args: () => [program], startTimeoutMs: installTimeoutMs });
  const { accessToken, refreshToken } = oidcProviderTokens.parse(await ask("tokens"));
  const call = (path: string, options: Partial<Call>): Call => ({
    ...{ url: url + path, method: "GET", headers: {}, authorizations: [] },
    ...options,
  });
  return {
    label: "oidc-provider",
    pid,
    calls: {
      discovery: call("/.well-known/openid-configuration", {}),
      keys: call("/jwks", {}),
      userinfo: call("/me", { authorizations: [`Bearer ${accessToken}`] }),
      token: call("/token", {
        method: "POST",
        authorizations: [basicAuthorization({ name: "bench", secret: "bench" })],
        form: { grant_type: "refresh_token", refresh_token: refreshToken },
      }),
    },
    requireSameProcess() {},
    close: stop,
  };
}

/**
 * Takes the Supabase Auth of a running stack, whose `/user` is compared with our session endpoint.
 * @throws Error unless IDENTITY_BIN names its program, because the stack's own identity server is not Supabase's
 */
export async function openSupabaseAuth(stackFile: string): Promise<Contender> {
  if (!process.env.IDENTITY_BIN) throw new Error("IDENTITY_BIN does not name its program.");
  const stack = readStackFile(stackFile);
  const { pid, port } = stack.services.find(({ name }) => name === "identity") ?? { pid: 0, port: 0 };
  const { email = "", password = "" } = stack.users.find(({ role }) => role === "user") ?? {};
  const { access_token } = await signIn(stack, { email, password });
  const session: Call = {
    url: `http://127.0.0.1:${port}/user`,
    method: "GET",
    headers: {},
    authorizations: [`Bearer ${access_token}`],
  };
  return { label: "Supabase Auth", pid, calls: { session }, requireSameProcess() {}, close: async () => {} };
}

async function connect(connectionString: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString });
  // The next query reports a lost connection.
  client.on("error", () => undefined);
  await client.connect();
  return client;
}

/** Starts Portkey in front of an upstream of its own. */
export async function openPortkey(signal: AbortSignal): Promise<Contender> {
  const upstream = await startUpstream();
  const server = await startPortkey(signal).catch(async (error: unknown) => {
    await upstream.stop();
    throw error;
  });
  const { pid, call } = otherTarget("portkey", { ...server, upstream: upstream.url });
  return {
    label: portkeyLabel,
    pid,
    calls: { keys: call },
    requireSameProcess() {},
    close: () => Promise.all([server.stop(), upstream.stop()]),
  };
}

/** The statements that Postgres has executed for the gateway since the last reset. */
export type Statements = {
  /** Statements that the gateway sent. */
  sent: number;
  /** Those, and the statements within the functions that they called. Requires `track = all`. */
  all: number;
  /** Time that Postgres took for the statements that the gateway sent. */
  sentMs: number;
};

/** Sets whether `pg_stat_statements` also counts the statements within functions, which slows Postgres down. */
export async function trackFunctions(superuser: pg.Client, tracks: boolean): Promise<void> {
  await superuser.query(
    tracks ? "alter system set pg_stat_statements.track = 'all'" : "alter system reset pg_stat_statements.track",
  );
  await superuser.query("select pg_reload_conf()");
}

export async function resetStatements(superuser: pg.Client): Promise<void> {
  await superuser.query("select extensions.pg_stat_statements_reset()");
}

/** Reads the statements, without those that other roles sent. */
export async function readStatements(superuser: pg.Client): Promise<Statements> {
  const { rows } = await superuser.query<Statements>(
    `select
       coalesce(sum(s.calls) filter (where s.toplevel), 0)::float8 as sent,
       coalesce(sum(s.calls), 0)::float8 as all,
       coalesce(sum(s.total_exec_time) filter (where s.toplevel), 0) as "sentMs"
     from extensions.pg_stat_statements s join pg_roles r on r.oid = s.userid
     where not s.toplevel or r.rolname = 'gateway'`,
  );
  const [row] = rows;
  if (!row) throw new Error("Postgres has no statements.");
  return row;
}

import type { AuthenticatorApp } from "../../remix-app/testing/authenticator-app.ts";
import { openBrowser } from "../../remix-app/testing/browser.ts";
import { createAiKey } from "../../supabase/functions/_shared/ai-key.ts";
import { enterApproved } from "../test/approved-browser.ts";
import { asApp, bearer, createApp, createPerson as createSignedInPerson, handOver, mint, paths } from "../test/apps.ts";
import { openCommandLinePhone } from "../test/command-line-phone.ts";
import { createDeviceClient } from "../test/device-requests.ts";
import { openCommandLine, signInByCommand } from "../test/gatehouse-command.ts";
import { createOpenidClient, refresh, signInAt, userinfo } from "../test/openid.ts";
import { createPerson, insertAuthenticators, type Person, query, requireMfa, signIn } from "../test/people.ts";
import { readStack } from "../test/stack.ts";

const { ai, satellites } = readStack();
const signInsAtOnce = 4;

/** Something that an account holds. `check` returns undefined if it still works, otherwise what was answered. */
export type Held = { what: string; check: () => Promise<string | undefined> };

/** Creates what must work through every upgrade and rollback: sessions, keys and tokens. */
export async function createHeld(webSessions: number): Promise<Held[]> {
  const sessions: Held[] = [];
  while (sessions.length < webSessions) {
    sessions.push(...(await Promise.all(Array.from({ length: signInsAtOnce }, holdWebSession))));
  }
  const rest = await Promise.all([
    ...[holdApproval(), holdPhone(), holdSatelliteSession(), holdAppSession(), holdAppToken(), holdOpenidLogin()],
    ...[holdKeys(), holdCodingAgent()],
  ]);
  return [...sessions, ...rest.flat()];
}

async function holdWebSession(): Promise<Held> {
  const person = await createPerson();
  const browser = await signIn(person);
  return { what: "a session", check: async () => differs((await browser.session()).user?.id, person.id) };
}

/** A session whose second factor a phone approved. */
async function holdApproval(): Promise<Held> {
  const person = await createPerson();
  const [app] = await insertAuthenticators(person, ["Phone"]);
  await requireMfa(person);
  const browser = await enterApproved(person, app as AuthenticatorApp);
  return {
    what: "a session with a phone's approval",
    check: async () => differs((await browser.session()).mfa?.satisfied, true),
  };
}

async function holdPhone(): Promise<Held> {
  const person = await createPerson();
  const phone = openCommandLinePhone();
  await phone.run(["sign-in", person.email], { MOBILE_PASSWORD: person.password });
  return {
    what: "a phone's session",
    check: async () => {
      const { code, err } = await phone.run(["whoami"]);
      return code === 0 ? undefined : err;
    },
  };
}

async function holdSatelliteSession(): Promise<Held> {
  const person = await createPerson();
  const web = await signIn(person);
  const { text } = await web.postJson(paths.mint, { targetApp: "notes" });
  const notes = openBrowser(satellites.find(({ name }) => name === "notes")?.url ?? "");
  const { token } = JSON.parse(text) as { token: string };
  await notes.postJson("/api/auth/verify-app-token", { token });
  return {
    what: "a satellite's session",
    check: async () => {
      const home = await notes.get("/");
      return home.text.includes(person.email) ? undefined : `${home.status} ${home.words.slice(0, 80)}`;
    },
  };
}

async function holdAppSession(): Promise<Held> {
  const app = await createApp({ scopes: ["profile"] });
  const { appSession } = await handOver(await createSignedInPerson(), app);
  return {
    what: "an app session",
    check: async () => {
      const { status, body } = await asApp(app, paths.introspect, { token: appSession.token });
      return (body as { active?: boolean }).active ? undefined : `${status} ${JSON.stringify(body)}`;
    },
  };
}

/** The token that an external app has for a person's workspace, and its refresh token. */
async function holdAppToken(): Promise<Held> {
  const person = await createSignedInPerson();
  const workspaceId = await workspaceOf(person);
  const app = await createApp({ kind: "external", scopes: ["workspace:session", "ai:use"], workspaceId });
  const { body } = await asApp(app, paths.exchange, { token: await mint(person, app), workspaceId });
  let issued = body as { accessToken: string; refreshToken: string };
  return {
    what: "an app token and its refresh token",
    check: async () => {
      const refusal = refusalOf(await complete(issued.accessToken, { "x-platform-workspace-id": workspaceId }));
      if (refusal) return refusal;
      const refreshed = await asApp(app, paths.exchange, { refreshToken: issued.refreshToken, workspaceId });
      issued = refreshed.body;
      return differs(refreshed.status, 200);
    },
  };
}

/** A key on each plan, and an idempotency key that was used with it. */
async function holdKeys(): Promise<Held[]> {
  const plans = await query<{ id: string }>("select id from ai.plans order by id", []);
  const held = await Promise.all(
    plans.map(async ({ id: plan }): Promise<Held[]> => {
      const key = await createKey(plan);
      const idempotencyKey = { "idempotency-key": `upgrade-${plan}-${crypto.randomUUID()}` };
      const first = await complete(key, idempotencyKey);
      const runId = /"run_id":\s*"([^"]+)"/.exec(first.text)?.[1] ?? first.text;
      return [
        { what: `a key on the plan ${plan}`, check: async () => refusalOf(await complete(key)) },
        {
          what: `an idempotency key on the plan ${plan}`,
          check: async () => {
            const again = await complete(key, idempotencyKey);
            return again.status === 409 && again.text.includes(runId) ? undefined : `${again.status} ${again.text}`;
          },
        },
      ];
    }),
  );
  return held.flat();
}

async function createKey(plan: string): Promise<string> {
  const owner = await createPerson();
  const [workspace] = await query<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ($2, $1, $3) returning id",
    [plan, `On ${plan}`, owner.id],
  );
  const { text, lookup, hash } = await createAiKey();
  await query("insert into ai.key_approvals (workspace_id) values ($1)", [workspace?.id]);
  await query("select ai.create_key($1, $2, 'upgrade', $3, $4)", [workspace?.id, owner.id, lookup, Buffer.from(hash)]);
  return text;
}

async function holdOpenidLogin(): Promise<Held> {
  const client = await createOpenidClient({ scopes: ["profile"] });
  const { tokens } = await signInAt(await signIn(await createPerson()), client, { scope: "openid offline_access" });
  let refreshToken = tokens.refresh_token;
  return {
    what: "an OpenID login",
    check: async () => {
      const claims = await userinfo(client, tokens.access_token);
      if (typeof claims === "number") return `userinfo answered ${claims}`;
      const refreshed = await refresh(client, refreshToken);
      refreshToken = ((await refreshed.json()) as { refresh_token?: string }).refresh_token;
      return differs(refreshed.status, 200);
    },
  };
}

/** A login of the command line, and the key that it has for a coding agent. */
async function holdCodingAgent(): Promise<Held[]> {
  const person = await createPerson();
  const web = await signIn(person);
  const deviceClient = await createDeviceClient({ scopes: ["profile", "workspaces:read", "studio:keys"] });
  const terminal = await openCommandLine();
  await query("insert into ai.key_approvals (workspace_id) values ($1)", [await workspaceOf(person)]);
  const signedIn = await signInByCommand(terminal, {
    clientId: deviceClient.name,
    approve: async (address) => {
      const userCode = new URL(address).searchParams.get("user_code") ?? "";
      await web.post("/device", { accountId: person.id, userCode, decision: "approve" });
    },
  });
  const connected = await terminal.run(["connect", "claude"]);
  if (signedIn.code !== 0 || connected.code !== 0) throw new Error(signedIn.stderr + connected.stderr);
  const printKey = async () => (await terminal.run(["token", "claude"])).stdout.trim();
  const agentKey = await printKey();
  return [
    { what: "a coding agent's key", check: async () => refusalOf(await complete(agentKey)) },
    { what: "a device's login", check: async () => differs(await printKey(), agentKey) },
  ];
}

/** Sends a short chat completion with a key or an app's token. */
async function complete(
  credential: string,
  headers: Record<string, string> = {},
): Promise<{ status: number; text: string }> {
  const response = await fetch(`${ai}/v1/chat/completions`, {
    method: "POST",
    headers: { ...bearer(credential), "content-type": "application/json", ...headers },
    body: JSON.stringify({ model: "demo-chat", messages: [{ role: "user", content: "Hello" }] }),
  });
  return { status: response.status, text: await response.text() };
}

const refusalOf = ({ status, text }: { status: number; text: string }) =>
  status === 200 ? undefined : `${status} ${text}`;

/** Returns undefined if the values are equal, otherwise both. */
export const differs = (actual: unknown, expected: unknown) =>
  actual === expected ? undefined : `${String(actual)} instead of ${String(expected)}`;

async function workspaceOf({ id }: Pick<Person, "id">): Promise<string> {
  const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [id]);
  return workspace?.id ?? "";
}

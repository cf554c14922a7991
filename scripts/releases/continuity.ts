import { execFile } from "node:child_process";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { confirmationLink, mailsTo } from "../../e2e/mailbox.ts";
import type { AuthenticatorApp } from "../../remix-app/testing/authenticator-app.ts";
import { openBrowser } from "../../remix-app/testing/browser.ts";
import { formOf } from "../../remix-app/testing/form.ts";
import { openPhone, unlockedPhone } from "../../remix-app/testing/phone.ts";
import { createAiKey } from "../../supabase/functions/_shared/ai-key.ts";
import { enterApproved } from "../test/approved-browser.ts";
import { asApp, bearer, createApp, createPerson as createSignedInPerson, handOver, mint, paths } from "../test/apps.ts";
import { openCommandLinePhone } from "../test/command-line-phone.ts";
import { createDeviceClient } from "../test/device-requests.ts";
import { openCommandLine, signInByCommand } from "../test/gatehouse-command.ts";
import { createOpenidClient, refresh, signInAt, userinfo } from "../test/openid.ts";
import { createPerson, insertAuthenticators, type Person, query, requireMfa, signIn } from "../test/people.ts";
import { readStack } from "../test/stack.ts";

const { ai, base, satellites, supabase } = readStack();
const challenges = "/api/v1/auth/qr-login/challenges";
const signInsAtOnce = 4;
const pollMs = 100;
/** Servers of 0.1.0 resend emails every 30 s. */
const mailTries = 350;

/** Something that an account holds. `check` returns undefined if it still works, otherwise what was answered. */
export type Held = { what: string; check: () => Promise<string | undefined> };
/** Something that was begun. `finish` returns undefined if it succeeds, otherwise what was answered. */
export type Pending = { what: string; finish: () => Promise<string | undefined> };

/** Creates what must work through every upgrade and rollback: sessions, keys and tokens. */
export async function createHeld(webSessions: number): Promise<Held[]> {
  const sessions: Held[] = [];
  while (sessions.length < webSessions) {
    sessions.push(...(await Promise.all(Array.from({ length: signInsAtOnce }, holdWebSession))));
  }
  const rest = [holdApproval(), holdPhone(), holdSatelliteSession(), holdAppSession(), holdAppToken(), holdKeys()];
  return [...sessions, ...(await Promise.all(rest)).flat()];
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
      const { body } = await asApp(app, paths.introspect, { token: appSession.token });
      return differs((body as { active?: boolean }).active, true);
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
      const said = await say(issued.accessToken, { "x-platform-workspace-id": workspaceId });
      if (said.status !== 200) return `${said.status} ${said.text}`;
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
      const first = await say(key, idempotencyKey);
      const runId = /"run_id":\s*"([^"]+)"/.exec(first.text)?.[1] ?? first.text;
      return [
        { what: `a key on the plan ${plan}`, check: async () => refusalOf(await say(key)) },
        {
          what: `an idempotency key on the plan ${plan}`,
          check: async () => {
            const again = await say(key, idempotencyKey);
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

/** Creates what only this release has: an OpenID client's login, a device's login and a coding agent's key. */
export async function createNew(): Promise<{ held: Held[]; inAnyRelease: Held[] }> {
  const person = await createPerson();
  const web = await signIn(person);
  const client = await createOpenidClient({ scopes: ["profile"] });
  const { tokens } = await signInAt(web, client, { scope: "openid offline_access" });
  let refreshToken = tokens.refresh_token;

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
  return {
    inAnyRelease: [{ what: "a coding agent's key", check: async () => refusalOf(await say(agentKey)) }],
    held: [
      {
        what: "an OpenID login",
        check: async () => {
          const claims = await userinfo(client, tokens.access_token);
          if (typeof claims === "number") return `userinfo answered ${claims}`;
          const refreshed = await refresh(client, refreshToken);
          const answer = (await refreshed.json()) as { refresh_token?: string };
          refreshToken = answer.refresh_token;
          return differs(refreshed.status, 200);
        },
      },
      { what: "a device's login", check: async () => differs(await printKey(), agentKey) },
    ],
  };
}

/** Begins what is finished after the next change of servers: mailed codes, an invitation and a QR code. */
export async function beginPending({ root }: { root: string }): Promise<Pending[]> {
  const begun = [beginSignUp(), beginPasswordReset(), beginInvitation(), beginQrLogin(), beginRecovery(root)];
  return Promise.all([...begun, queueMail()]);
}

/** Queues an email that becomes due while servers are replaced. */
async function queueMail(): Promise<Pending> {
  const email = `${crypto.randomUUID()}@integration.gatehouse.test`;
  await query(
    `insert into private.outgoing_mails (recipient, subject, body, next_attempt_at)
     values ($1, 'Pending', 'Sent later.', now() + interval '4 seconds')`,
    [email],
  );
  return {
    what: "a pending email",
    finish: async () => {
      const countSent = () => waitForMail(email, (mails) => (mails.length > 0 ? mails.length : undefined));
      const sent = await countSent().catch(async () => {
        // An email that a server of 0.1.0 had claimed when it ended waits four minutes for its next attempt.
        await query("update private.outgoing_mails set next_attempt_at = now() where recipient = $1", [email]);
        return countSent();
      });
      return differs(sent, 1);
    },
  };
}

async function beginSignUp(): Promise<Pending> {
  const id = crypto.randomUUID();
  const person = { email: `${id.slice(0, 8)}@integration.gatehouse.test`, password: `correct horse ${id}` };
  await openBrowser(base).post("/signup", { ...person, returnUrl: "" });
  const link = await confirmationLink(person.email);
  return { what: "a mailed sign-up link", finish: () => followLink(link, person) };
}

async function beginPasswordReset(): Promise<Pending> {
  const person = await createPerson();
  await openBrowser(base).post("/forgot-password", { email: person.email });
  const link = await confirmationLink(person.email);
  return { what: "a mailed password reset", finish: () => followLink(link, person) };
}

/** Opens a mailed link, presses its button, and expects a session of the person. */
async function followLink(link: string, { email }: Pick<Person, "email">): Promise<string | undefined> {
  const { pathname, search } = new URL(link);
  const browser = openBrowser(base);
  const page = await browser.get(pathname + search);
  if (page.status !== 200) return `${page.status} ${page.words}`;
  const posted = await browser.post(pathname, formOf(page.text, pathname).fields);
  const session = await browser.get("/api/v1/auth/session");
  return session.text.includes(email) ? undefined : `${posted.status} ${posted.words}; ${session.text}`;
}

async function beginInvitation(): Promise<Pending> {
  const [owner, guest] = [await createPerson(), await createPerson()];
  const [workspace] = await query<{ id: string }>(
    "insert into public.workspaces (name, plan_id, created_by) values ('Invites', 'team', $1) returning id",
    [owner.id],
  );
  const id = workspace?.id;
  const [role] = await query<{ id: string }>(
    "select id from public.workspace_roles where workspace_id = $1 and name = 'viewer'",
    [id],
  );
  const inviting = await signIn(owner);
  await inviting.post(`/workspaces/${id}/members`, { intent: "invite", email: guest.email, roleId: role?.id ?? "" });
  const token = await waitForMail(guest.email, (mails) =>
    mails.map(({ text = "" }) => /\/invitation\?token=([\w-]{43})/.exec(text)?.[1]).find(Boolean),
  );
  return {
    what: "a mailed invitation",
    finish: async () => {
      const accepted = await (await signIn(guest)).post("/invitation", { token });
      return accepted.location === `/workspaces/${id}` ? undefined : `${accepted.status} ${accepted.words}`;
    },
  };
}

async function beginQrLogin(): Promise<Pending> {
  const person = await createPerson();
  const phone = await openPhone({ base, ...supabase }, person);
  const browser = await signIn(person);
  const begun = await browser.postJson(challenges, {});
  const { id, secret } = JSON.parse(begun.text) as { id: string; secret: string };
  return {
    what: "a QR code",
    finish: async () => {
      const approved = await phone.post(`${challenges}/${id}/approve`, { secret, device: unlockedPhone });
      const { status, text } = await browser.get(`${challenges}/${id}?secret=${secret}`);
      return text.includes(person.id) ? undefined : `${JSON.stringify(approved.body)} ${status} ${text}`;
    },
  };
}

/** A recovery that an infrastructure admin of the release began. */
async function beginRecovery(root: string): Promise<Pending> {
  const person = await createPerson();
  const helper = path.join(root, "scripts/test/recovery-help.ts");
  const script = `
    const { createHelper } = await import(${JSON.stringify(helper)});
    const helper = await createHelper();
    const sent = await helper.send(process.argv[1], await helper.override(process.argv[1]));
    process.stdout.write(sent.token, () => process.exit(0));`;
  const args = ["--input-type=module", "--eval", script, person.email];
  const { stdout: token } = await promisify(execFile)(process.execPath, args, { cwd: root });
  return {
    what: "an unfinished recovery",
    finish: async () => {
      const browser = openBrowser(base);
      const posted = await browser.post("/auth/recovery", { token });
      const session = await browser.get("/api/v1/auth/session");
      return session.text.includes(person.id) ? undefined : `${posted.status} ${posted.words}; ${session.text}`;
    },
  };
}

/** Waits until emails to an address contain what `find` looks for. */
async function waitForMail<Found>(
  email: string,
  find: (mails: Awaited<ReturnType<typeof mailsTo>>) => Found | undefined,
): Promise<Found> {
  for (let tries = 0; tries < mailTries; tries += 1) {
    const found = find(await mailsTo(email));
    if (found !== undefined) return found;
    await sleep(pollMs);
  }
  throw new Error(`No such email arrived for ${email}.`);
}

/** Makes a short call with a key or an app's token. */
async function say(
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

const differs = (actual: unknown, expected: unknown) =>
  actual === expected ? undefined : `${String(actual)} instead of ${String(expected)}`;

async function workspaceOf({ id }: Pick<Person, "id">): Promise<string> {
  const [workspace] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [id]);
  return workspace?.id ?? "";
}

import { execFile } from "node:child_process";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { promisify } from "node:util";
import { confirmationLink, mailsTo } from "../../e2e/mailbox.ts";
import { openBrowser } from "../../remix-app/testing/browser.ts";
import { formOf } from "../../remix-app/testing/form.ts";
import { openPhone, unlockedPhone } from "../../remix-app/testing/phone.ts";
import { createPerson, type Person, query, signIn } from "../test/people.ts";
import { readStack } from "../test/stack.ts";
import { differs } from "./continuity.ts";

const { base, supabase } = readStack();
const challenges = "/api/v1/auth/qr-login/challenges";
const pollMs = 100;
const mailTries = 350;

/** A flow in progress. `finish` returns undefined if it succeeds, otherwise what was answered. */
export type Pending = { what: string; finish: () => Promise<string | undefined> };

/** Begins what is finished after the next change of servers: mailed codes, an invitation and a QR code. */
export async function beginPending({ root }: { root: string }): Promise<Pending[]> {
  return Promise.all([
    ...[beginSignUp(), beginPasswordReset(), beginInvitation(), beginQrLogin(), beginRecovery(root)],
    queueMail(),
  ]);
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
      const sent = await waitForMail(email, (mails) => (mails.length > 0 ? mails.length : undefined));
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
  const browser = await signIn(person);
  const { text: challenge } = await browser.postJson(challenges, {});
  const { id, secret } = JSON.parse(challenge) as { id: string; secret: string };
  return {
    what: "a QR code",
    finish: async () => {
      // This phone never refreshes its access token, which could expire during an upgrade.
      const phone = await openPhone({ base, ...supabase }, person);
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

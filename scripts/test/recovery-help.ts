import { mailsTo } from "../../e2e/mailbox.ts";
import { createOverride, findRecovery, revokeOverride, sendRecovery } from "../../remix-app/admin/recovery.ts";
import type { InfrastructureAdmin } from "../../remix-app/admin/require-admin.ts";
import { createPerson, deletePerson, type Person, query } from "./people.ts";
import { openContext } from "./request-context.ts";
import { readStack } from "./stack.ts";

const stack = readStack();

type OverrideOptions = { normalLogin?: boolean; recoveryEmail?: boolean; validity?: "days" | "first_use" };

/** An infrastructure admin who creates, sends and revokes recovery overrides. */
export interface Helper {
  admin: InfrastructureAdmin & Person;
  /** Creates an override for an email. @returns its id */
  override(email: string, options?: OverrideOptions): Promise<string>;
  /** Sends an override's recovery email. @returns its contents */
  send(email: string, overrideId: string): Promise<{ path: string; token: string; code: string }>;
  revoke(overrideId: string): Promise<void>;
  leave(): Promise<void>;
}

export async function createHelper(): Promise<Helper> {
  const person = await createPerson();
  const admin = { ...person, sessionId: crypto.randomUUID() };
  await query("insert into private.infrastructure_admins (user_id, reason) values ($1, 'test')", [admin.id]);
  const reason = "Called, and proved who they are";
  return {
    admin,
    async override(email, { normalLogin = true, recoveryEmail = true, validity = "days" } = {}) {
      const context = await openContext(stack);
      const form = { email, reason, normalLogin, recoveryEmail, validity, lifetimeDays: 7 };
      const made = await createOverride(context, { ...form, admin });
      if (made.outcome === "refused") throw new Error(made.message);
      const { overrides } = await findRecovery(context, email);
      return overrides.find(({ active }) => active)?.id ?? "";
    },
    async send(email, overrideId) {
      const known = (await recoveryMails(email)).length;
      const sent = await sendRecovery(await openContext(stack), { admin, overrideId, reason });
      if (sent.outcome === "refused") throw new Error(sent.message);
      return readMail(email, known);
    },
    async revoke(overrideId) {
      const ended = await revokeOverride(await openContext(stack), { admin, overrideId, reason });
      if (ended.outcome === "refused") throw new Error(ended.message);
    },
    leave: () => deletePerson(admin),
  };
}

const recoveryMails = async (email: string) =>
  (await mailsTo(email)).filter(({ subject }) => subject === "Get back into your Gatehouse account");

async function readMail(email: string, known: number) {
  for (let tries = 0; tries < 100; tries += 1) {
    const text = (await recoveryMails(email)).slice(known).at(-1)?.text ?? "";
    const [, path = "", token = ""] = /https?:\/\/[^/\s]+(\/auth\/recovery\?token=([\w-]{43}))/.exec(text) ?? [];
    const [, code = ""] = /^(\d{6})$/m.exec(text) ?? [];
    if (token && code) return { path, token, code };
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`no recovery email arrived for ${email}`);
}

import { afterEach, beforeEach, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import { lockOutbox } from "../../scripts/test/mail-env.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { codeOf } from "../testing/authenticator-app.ts";
import { openBrowser } from "../testing/browser.ts";
import { startWatchedWeb } from "../testing/watched-web.ts";

const { supabase, mail } = readStack();
const subject = "An authenticator app was removed from your Gatehouse account";
let person: Person;

lockOutbox();
beforeEach(async () => {
  person = await createPerson();
});
afterEach(() => deletePerson(person));

const keptMails = () =>
  query<{ subject: string }>("select subject from private.outgoing_mails where recipient = $1", [person.email]);

/** Removes the only app. @returns the status of the page's answer */
async function remove(base?: string): Promise<number> {
  const [app] = await insertAuthenticators(person, ["Phone"]);
  if (!app) throw new Error("no app");
  const signedIn = await enter(person);
  await signedIn.post("/mfa", { factorId: app.factorId, code: codeOf(app, 1) });
  const browser = base ? openBrowser(base, { cookie: signedIn.cookie() }) : signedIn;
  return (await browser.post(`/mfa/remove?factorId=${app.factorId}`, { factorId: app.factorId })).status;
}

const expectTold = async () => {
  expect(await query("select from auth.mfa_factors where user_id = $1", [person.id])).toEqual([]);
  const log = await query<{ details: unknown }>(
    "select details from public.security_events where user_id = $1 and kind = 'authenticator_removed'",
    [person.id],
  );
  expect(log).toEqual([{ details: { name: "Phone" } }]);
  const told = async () => (await mailsTo(person.email)).filter((received) => received.subject === subject);
  await expect.poll(told, { timeout: 10_000 }).toHaveLength(1);
  const [received] = await told();
  for (const words of ["Name: Phone", "IP address: ", "/settings/security"]) expect(received?.text).toContain(words);
  await expect.poll(keptMails, { timeout: 10_000 }).toEqual([]);
};

test("sends the owner a single email about a removed authenticator", async () => {
  expect(await remove()).toBe(302);
  await expectTold();
});

test("notifies the owner that an authenticator was removed, even if the database's answer is lost", async () => {
  const web = await startWatchedWeb(supabase, {
    SMTP_URL: mail.smtp,
    MAIL_FROM: "Gatehouse <no-reply@gatehouse.test>",
    ...vaultSettings(),
  });
  await web.trouble({ losesAnswer: "delete_authenticator" });
  try {
    expect(await remove(web.base)).toBe(503);
  } finally {
    await web.stop();
  }
  await expectTold();
});

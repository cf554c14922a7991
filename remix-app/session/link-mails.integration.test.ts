import { createClient } from "@supabase/supabase-js";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { confirmationLink, mailsTo } from "../../e2e/mailbox.ts";
import { deletePerson, endMailTurns, insertAccount, passMailPause, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { callAtOnce } from "../testing/at-once.ts";
import { openBrowser } from "../testing/browser.ts";

const { base, supabase } = readStack();
const password = "correct horse battery";
let email: string;

beforeEach(() => {
  email = `${crypto.randomUUID().slice(0, 8)}@integration.gatehouse.test`;
});
afterEach(async () => {
  const [account] = await query<{ id: string }>("select id from auth.users where email = $1", [email]);
  if (account) await deletePerson(account);
});

/** The tests' identity backend allows one email per second to an account. */
const backendPause = () => new Promise((resolve) => setTimeout(resolve, 1_100));
/** Posts from a new browser and address. */
const post = (path: string) => openBrowser(base).post(path, { email, password });
const open = (link: string) => openBrowser(base).post("/auth/confirm", Object.fromEntries(new URL(link).searchParams));
const direct = () =>
  createClient(supabase.url, supabase.publishableKey, { auth: { persistSession: false, autoRefreshToken: false } })
    .auth;

/** Requests an email. @returns its link */
async function ask(path: string): Promise<string> {
  const known = (await mailsTo(email)).length;
  const { status } = await post(path);
  expect([200, 302]).toContain(status);
  return confirmationLink(email, { after: known });
}

const flows = [
  { name: "a reset", first: "/forgot-password", again: "/forgot-password", confirmed: true },
  { name: "a sign-up", first: "/signup", again: "/signup", confirmed: false },
  { name: "a sign-up", first: "/signup", again: "/signup/check-mail", confirmed: false },
  { name: "a confirmation", first: "/signup/check-mail", again: "/signup", confirmed: false },
] as const;

describe("an emailed link that the owner has just received", () => {
  beforeEach(async () => {
    const id = await insertAccount({ email, password });
    return () => deletePerson({ id });
  });
  const unconfirm = () =>
    query("update auth.users set email_confirmed_at = null, raw_user_meta_data = '{}' where email = $1", [email]);

  test.each(flows)(
    "the link emailed for $name still works after a stranger requests another link at $again",
    async ({ first, again, confirmed }) => {
      if (!confirmed) await unconfirm();
      const link = await ask(first);
      await endMailTurns(email);
      await backendPause();
      const answers = [await post(again), await post(again)];
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([again === "/signup" ? 302 : 200]));
      expect(await mailsTo(email)).toHaveLength(1);
      expect((await open(link)).status).toBe(302);
    },
  );

  test.each(flows)(
    "after three minutes, a link requested at $again replaces the link emailed for $name",
    async ({ first, again, confirmed }) => {
      if (!confirmed) await unconfirm();
      const link = await ask(first);
      await passMailPause(email);
      const next = await ask(again);
      expect((await open(link)).status).toBe(410);
      expect((await open(next)).status).toBe(302);
    },
  );

  test("a reset link requested directly from the identity backend still works after a stranger requests another on our page", async () => {
    expect((await direct().resetPasswordForEmail(email)).error).toBeNull();
    const link = await confirmationLink(email);
    await backendPause();
    await post("/forgot-password");
    expect(await mailsTo(email)).toHaveLength(1);
    expect((await open(link)).status).toBe(302);
  });

  test("many concurrent requests send only one link", async () => {
    await callAtOnce(() => post("/forgot-password"));
    const link = await confirmationLink(email);
    expect(await mailsTo(email)).toHaveLength(1);
    expect((await open(link)).status).toBe(302);
  });
});

test("the pages that send links say when the next link can be requested, even for unknown emails", async () => {
  for (const path of ["/forgot-password", "/signup/check-mail"]) {
    for (const { words } of [await post(path), await post(path)]) {
      expect(words).toMatch(/(in the last|every) 3 minutes/);
    }
  }
});

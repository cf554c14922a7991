import { expect, test } from "vitest";
import { vaultSettings } from "../../scripts/test/keep-session.ts";
import { createPerson, enter, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openBrowser } from "../testing/browser.ts";
import { startWatchedWeb } from "../testing/watched-web.ts";

test("says that an account may be deleted if the deletion got no answer", async () => {
  const person = await createPerson();
  const web = await startWatchedWeb(readStack().supabase, vaultSettings());
  const browser = openBrowser(web.base, { cookie: (await enter(person)).cookie() });
  await web.trouble({ losesAnswer: "/rpc/delete_account" });
  const lost = await browser.post("/settings/security/delete-account", { confirmation: person.email });
  expect([lost.status, lost.words.includes("your account may be deleted")]).toEqual([503, true]);
  expect(await query("select from auth.users where id = $1", [person.id])).toEqual([]);
  await web.stop();
});

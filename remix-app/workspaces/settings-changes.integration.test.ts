import { afterAll, beforeAll, expect, test } from "vitest";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
} from "../../scripts/test/people.ts";

let owner: Person;
let browser: SignedInBrowser;

beforeAll(async () => {
  owner = await createPerson();
  browser = await enter(owner);
});
afterAll(() => deletePerson(owner));

async function found(name: string): Promise<{ id: string; settings: string }> {
  const [row] = await query<{ id: string }>(
    "insert into public.workspaces (name, created_by) values ($1, $2) returning id",
    [name, owner.id],
  );
  return { id: row?.id ?? "", settings: `/workspaces/${row?.id}/settings` };
}

test("a name that the database does not take now is a failure of ours, and of nobody's role", async () => {
  const { id, settings } = await found("Orbit");
  const fail = `public.fail_${id.replaceAll("-", "")}`;
  await query(`create function ${fail}() returns trigger language plpgsql as $$ begin raise 'full disk'; end $$`, []);
  await query(
    `create trigger fail_rename before update on public.workspaces for each row when (old.id = '${id}')
     execute function ${fail}()`,
    [],
  );
  try {
    const answer = await browser.post(settings, { intent: "rename", name: "Orbit two" });
    expect(answer.status).toBe(503);
    expect(answer.words).not.toContain("role");
  } finally {
    await query(`drop function ${fail} cascade`, []);
  }
  expect((await browser.post(settings, { intent: "rename", name: "Orbit two" })).status).toBe(200);
});

test("a workspace is deleted by its name as the page shows it, whatever spaces are in it", async () => {
  const { id, settings } = await found("Orbit  two\u00a0 three");
  expect((await browser.post(settings, { intent: "delete", confirmation: "Orbit two" })).status).toBe(400);
  const answer = await browser.post(settings, { intent: "delete", confirmation: " Orbit two three " });
  expect(answer.location).toBe("/workspaces");
  expect(await query("select from public.workspaces where id = $1 and deleted_at is not null", [id])).toHaveLength(1);
});

import { afterAll, beforeAll, expect, test } from "vitest";
import { mailsTo } from "../../e2e/mailbox.ts";
import { borrowFaultyWeb } from "../../scripts/test/faulty-web.ts";
import {
  createPerson,
  deletePerson,
  enter,
  type Person,
  query,
  type SignedInBrowser,
} from "../../scripts/test/people.ts";
import { openBrowser } from "../testing/browser.ts";

let owner: Person;
let browser: SignedInBrowser;

beforeAll(async () => {
  owner = await createPerson();
  browser = await enter(owner);
});
afterAll(() => deletePerson(owner));

async function found(name: string, by = owner): Promise<{ id: string; settings: string }> {
  const [row] = await query<{ id: string }>(
    "insert into public.workspaces (name, created_by) values ($1, $2) returning id",
    [name, by.id],
  );
  return { id: row?.id ?? "", settings: `/workspaces/${row?.id}/settings` };
}

test("a database error during a rename is reported as a server error, not as a missing permission", async () => {
  const { backend, web } = await borrowFaultyWeb();
  const faulty = openBrowser(web.base, { cookie: await backend.cookieOf(await backend.session()) });
  const { settings } = await found("Orbit", backend.person);
  const rename = { intent: "rename", name: "Orbit two" };
  backend.rows = "down";
  const answer = await faulty.post(settings, rename);
  expect(answer.status).toBe(503);
  expect(answer.words).not.toContain("role");
  backend.rows = "ok";
  expect((await faulty.post(settings, rename)).status).toBe(200);
});

test("transferring a workspace notifies the previous owner by email", async () => {
  const { id, settings } = await found("Orbit of two");
  const heir = await createPerson();
  try {
    await query(
      `insert into public.workspace_members (workspace_id, user_id, role_id)
       select $1, $2, r.id from public.workspace_roles r where r.workspace_id = $1 and r.name = 'member'`,
      [id, heir.id],
    );
    expect((await browser.post(settings, { intent: "transfer", userId: heir.id })).status).toBe(200);
    const told = async () =>
      (await mailsTo(owner.email)).find((mail) => mail.subject === "You transferred ownership of a workspace");
    await expect.poll(told).toBeDefined();
    expect((await told())?.text).toContain("Workspace: Orbit of two");
    const { words } = await browser.get("/settings/security/activity");
    expect(words).toContain("Transferred ownership of a workspace");
    // A refused transfer sends no email.
    expect((await browser.post(settings, { intent: "transfer", userId: heir.id })).status).toBe(403);
    expect((await mailsTo(owner.email)).filter(({ subject }) => subject?.includes("transferred"))).toHaveLength(1);
  } finally {
    await deletePerson(heir);
  }
});

test("deleting a workspace requires its displayed name, regardless of extra spaces", async () => {
  const { id, settings } = await found("Orbit  two\u00a0 three");
  expect((await browser.post(settings, { intent: "delete", confirmation: "Orbit two" })).status).toBe(400);
  const answer = await browser.post(settings, { intent: "delete", confirmation: " Orbit two three " });
  expect(answer.location).toBe("/workspaces");
  expect(await query("select from public.workspaces where id = $1 and deleted_at is not null", [id])).toHaveLength(1);
});

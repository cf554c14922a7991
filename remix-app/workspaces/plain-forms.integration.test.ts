import { afterAll, beforeEach, expect, test } from "vitest";
import { linkOfMail } from "../../e2e/mailbox.ts";
import { createPerson, deletePerson, enter, type Person, query } from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { openPlainTab, type PlainTab } from "../testing/plain-tab.ts";

/** The journeys of workspaces and API keys in a browser without JavaScript. */
const { base } = readStack();
const people: Person[] = [];
let member: Person;
let tab: PlainTab;

async function newPerson(): Promise<Person> {
  const person = await createPerson();
  people.push(person);
  return person;
}

beforeEach(async () => {
  member = await newPerson();
  tab = openPlainTab(base, await enter(member));
});
afterAll(async () => {
  for (const person of people) await deletePerson(person);
});

async function ownWorkspace(): Promise<string> {
  const [row] = await query<{ id: string }>("select id from public.workspaces where personal_user_id = $1", [
    member.id,
  ]);
  return row?.id ?? "";
}

/** Invites a person to the workspace, who joins it. @returns the person, and their tab on the workspace's page */
async function invite(workspace: string, role: string): Promise<{ colleague: Person; other: PlainTab }> {
  const colleague = await newPerson();
  await tab.open(`${workspace}/members`);
  tab.fill("Email addresses", colleague.email);
  tab.check(role);
  await tab.press("Send invitations");
  const other = openPlainTab(base, await enter(colleague));
  await other.open(await linkOfMail(colleague.email, "You’re invited to a workspace on Gatehouse"));
  await other.press("Join workspace");
  return { colleague, other };
}

/** Creates a workspace that a second person joins. */
async function share(name: string, role: string): Promise<PlainTab> {
  await tab.open("/workspaces");
  tab.fill("Name", name);
  await tab.press("Create workspace");
  return (await invite(tab.path(), role)).other;
}

test("without JavaScript, members who cannot manage a workspace see no management forms, and leave the workspace", async () => {
  const other = await share("Quiet", "Viewer");
  const workspace = other.path();
  await other.open(`${workspace}/settings`);
  expect(other.buttons()).not.toContain("Delete workspace");
  expect(other.texts("nav a")).not.toContain("Activity");
  await other.follow("Members");
  expect(other.buttons()).not.toContain("Send invitations");
  await other.follow("Leave this workspace");
  expect(other.texts("h2")).toContain("Leave Quiet?");
  await other.follow("Cancel");
  expect(other.texts("h2")).not.toContain("Leave Quiet?");
  await other.follow("Leave this workspace");
  await other.press("Leave workspace");
  expect(other.path()).toBe("/workspaces");
  expect(other.words()).not.toContain("Quiet");
});

test("without JavaScript, the sole owner of a shared workspace transfers it before deleting their account", async () => {
  const other = await share("Left behind", "Admin");
  await tab.open("/settings/security/delete-account");
  expect(tab.words()).toContain("Left behind");
  expect(tab.buttons()).not.toContain("Delete account");
  await tab.follow(/Transfer or delete workspace/);
  await tab.press("Transfer");
  await tab.press(/^Transfer to/);
  expect(tab.words()).toContain("Ownership transferred.");
  await tab.open("/settings/security/delete-account");
  tab.fill(/^Type/, "somebody@else.example");
  await tab.press("Delete account");
  expect(tab.alert()).toContain("Nothing was deleted");
  tab.fill(/^Type/, member.email);
  await tab.press("Delete account");
  expect(tab.texts("[role=status]").join(" ")).toContain("Your account was deleted");
  await other.open("/workspaces");
  expect(other.words()).toContain("Left behind");
});

test("an invitation for another email asks the person to sign in with that email", async () => {
  const invited = `someone.else.${member.email}`;
  await tab.open("/workspaces");
  tab.fill("Name", "Private");
  await tab.press("Create workspace");
  await tab.follow("Members");
  tab.fill("Email addresses", invited);
  await tab.press("Send invitations");
  await tab.open(await linkOfMail(invited, "You’re invited to a workspace on Gatehouse"));
  expect(tab.words()).toContain("Use another account to accept it");
  expect(tab.buttons()).not.toContain("Join workspace");
});

test("without JavaScript, a key's models are chosen", async () => {
  const id = await ownWorkspace();
  await query("insert into ai.key_approvals (workspace_id) values ($1)", [id]);
  await tab.open(`/workspaces/${id}/ai/keys/new`);
  tab.fill("Name", "Chosen");
  tab.check("Only selected models");
  await tab.press("Create key");
  expect(tab.alert()).toContain("Select at least one model");
  tab.check(/^Demo chat\s*demo-chat/);
  expect(tab.valueOf("Name")).toBe("Chosen");
  await tab.press("Create key");
  await tab.follow("I’ve copied it");
  expect(tab.words()).toContain("models: demo-chat");
});

test("without JavaScript, the getting-started checklist checks off each step as the workspace completes it", async () => {
  const id = await ownWorkspace();
  const overview = `/workspaces/${id}`;
  const next = () => tab.texts("[aria-current=step]").join(" ");
  await tab.open(overview);
  expect(tab.words()).toContain("1 of 4 steps done");
  expect(next()).toContain("Get approval for API keys");
  await tab.follow("Request approval");
  await tab.press("Request approval");
  await tab.open(overview);
  expect(next()).toContain("Requested.");

  await query("insert into ai.key_approvals (workspace_id) values ($1)", [id]);
  await tab.open(overview);
  expect(tab.words()).toContain("2 of 4 steps done");
  await tab.follow("Create API key");
  tab.fill("Name", "First program");
  await tab.press("Create key");
  await tab.open(overview);
  expect(tab.words()).toContain("3 of 4 steps done");
  expect(next()).toContain("Send your first request");

  await query(
    `insert into ai.runs (
       id, created_at, workspace_id, credential_source, execution_mode, feature, request_id, model_id, routes, route,
       markup, status, usage_source, input_tokens, output_tokens, cost_usd, billed_credits, reserved_usd,
       reserved_credits, latency_ms, settled_at
     ) values (
       ai.run_id(now()), now(), $1, 'session', 'interactive', 'chat', 'first', 'demo-chat',
       '[{"position": 1, "provider": "demo", "model": "m", "prices": []}]', 1, 1, 'succeeded', 'provider', 12, 5, 0.0042,
       1.5, 0, 0, 100, now()
     )`,
    [id],
  );
  await tab.open(overview);
  expect(tab.words()).not.toContain("Get started");
  expect(tab.words()).toContain("No budgets yet.");
});

test("without JavaScript, an anonymous visitor finds a call's schema and example in the API reference", async () => {
  const visitor = openPlainTab(base);
  await visitor.open("/docs/api");
  await visitor.follow("Create a chat completion");
  expect(visitor.path()).toBe("/docs/api/gateway/text");
  for (const words of ["/v1/chat/completions", "idempotency_key_used", "max_completion_tokens"])
    expect(visitor.words()).toContain(words);
  await visitor.follow("QR handoff");
  expect(visitor.heading()).toBe("QR handoff");
  for (const area of ["platform", "gateway"]) {
    const document = JSON.parse((await visitor.browser.get(`/docs/api/${area}.json`)).text);
    expect(document.openapi).toBe("3.1.0");
    expect(document.servers[0].url).toMatch(/^http/);
  }
});

test("without JavaScript, custom workspace roles are created, assigned, changed and deleted", async () => {
  await tab.open("/workspaces");
  tab.fill("Name", "Roles");
  await tab.press("Create workspace");
  const workspace = tab.path();
  await tab.open(`${workspace}/roles`);
  tab.fill("Name", "Owner");
  tab.check(/^Manage API keys/);
  await tab.press("Create role");
  expect(tab.alert()).toContain("A role with this name already exists.");
  expect(tab.isChecked(/^Manage API keys/)).toBe(true);
  tab.fill("Name", "Key keepers");
  await tab.press("Create role");
  expect(tab.texts("[role=status]").join()).toContain("Role created");
  expect(tab.words()).toContain("Create, edit, rotate and revoke API keys. Not assigned");
  expect(tab.texts("a")).not.toContain("Edit owner");

  const { colleague, other } = await invite(workspace, "Key keepers");
  await other.open(`${workspace}/roles`);
  expect(other.buttons()).not.toContain("Create role");
  expect(other.texts("a").filter((name) => name.startsWith("Edit"))).toEqual([]);

  await tab.open(`${workspace}/roles`);
  await tab.follow("Edit Key keepers");
  expect(tab.words()).toContain("Give them another role first.");
  tab.fill("Name", " ");
  await tab.press("Save role");
  expect(tab.alert()).toContain("Enter a name for the role.");
  tab.fill("Name", "Keepers");
  tab.check(/^Use AI(?! studio)/);
  await tab.press("Save role");
  expect(tab.words()).toContain(
    "Create, edit, rotate and revoke API keys. Call models, and see runs, usage and costs. Assigned to 1 person",
  );
  await tab.open(`${workspace}/members?remove=${colleague.id}`);
  await tab.press(/^Remove/);
  expect(tab.words()).toContain("Member removed.");
  await tab.open(`${workspace}/roles`);
  await tab.follow("Edit Keepers");
  await tab.press("Delete role");
  expect(tab.words()).toContain("Role deleted.");
  await tab.open(`${workspace}/activity`);
  for (const line of ["created the role “Key keepers”", "changed the role “Keepers”", "deleted the role “Keepers”"])
    expect(tab.words()).toContain(line);
});

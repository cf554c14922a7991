import { createDeviceClient, type DeviceClient, deleteDeviceClient } from "../scripts/test/device-requests.ts";
import { type CommandLine, openCommandLine, signInByCommand } from "../scripts/test/gatehouse-command.ts";
import { query } from "../scripts/test/people.ts";
import { readStack } from "../scripts/test/stack.ts";
import { test as base, enter, expect, type Person } from "./test.ts";

const { ai } = readStack();

const test = base.extend<{ client: DeviceClient; terminal: CommandLine }>({
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  client: async ({}, use) => {
    const scopes = ["profile", "workspaces:read", "studio:keys"];
    const client = await createDeviceClient({ displayName: "Gatehouse command", scopes });
    await use(client);
    await deleteDeviceClient(client);
  },
  // biome-ignore lint/correctness/noEmptyPattern: Playwright reads the parameter's pattern
  terminal: async ({}, use) => {
    const terminal = await openCommandLine();
    await use(terminal);
    await terminal.remove();
  },
});

/** Creates a workspace that is approved for API keys, with a member who may not create keys. */
async function createWorkspace({ owner, member }: { owner: Person; member: Person }): Promise<string> {
  const [workspace] = await query<{ id: string }>(
    "insert into public.workspaces (name, created_by) select 'Harbour', id from auth.users where email = $1 returning id",
    [owner.email],
  );
  const id = workspace?.id ?? "";
  await query(
    `with approval as (insert into ai.key_approvals (workspace_id) values ($1))
     insert into public.workspace_members (workspace_id, user_id, role_id)
     select $1, u.id, r.id from auth.users u, public.workspace_roles r
     where u.email = $2 and r.workspace_id = $1 and r.name = 'member'`,
    [id, member.email],
  );
  return id;
}

test("a member signs in with the gatehouse command; the owner approves the agent in the studio and later revokes it", async ({
  page,
  browser,
  member,
  colleague,
  client,
  terminal,
}) => {
  const workspaceId = await createWorkspace({ owner: colleague, member });
  const signedIn = await signInByCommand(terminal, {
    clientId: client.name,
    approve: async (address) => {
      await enter(page, member, address);
      await expect(page.getByText("Create short-lived API keys in your workspaces")).toBeVisible();
      await page.getByRole("button", { name: `Approve as ${member.email}` }).click();
      await expect(page.getByRole("heading", { level: 1 })).toHaveText("Sign-in approved");
    },
  });
  expect(signedIn).toMatchObject({ code: 0, stderr: "" });
  const connect = () => terminal.run(["connect", "codex", "--workspace", "Harbour"]);
  expect((await connect()).stderr).toContain("Run this again once it is approved.");

  const studio = await (await browser.newContext()).newPage();
  await enter(studio, colleague, `/workspaces/${workspaceId}/ai/keys`);
  await expect(studio.getByRole("table", { name: "Members who connect coding agents" })).toContainText("Codex on ");
  await studio.getByRole("button", { name: /^Approve/ }).click();
  await expect(studio.getByText("Approved. Their coding agents get keys")).toBeVisible();

  expect((await connect()).stdout).toContain("Codex uses Harbour.");
  const key = (await terminal.run(["token", "codex"])).stdout.trim();
  const call = async () => (await fetch(`${ai}/v1/key`, { headers: { Authorization: `Bearer ${key}` } })).status;
  expect(await call()).toBe(200);

  await studio.reload();
  await expect(studio.getByRole("table", { name: "API keys" })).toContainText("coding agent");
  await studio.getByRole("link", { name: /^Revoke Codex on/ }).click();
  await studio.getByRole("button", { name: "Revoke agent" }).click();
  await expect(studio.getByText("The key no longer works.")).toBeVisible();
  expect(await call()).toBe(401);
  expect((await terminal.run(["token", "codex"])).stderr).toContain("This connection was revoked");
});

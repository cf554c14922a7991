import { press, refuse, type Scene, statesOf, whose } from "../define-states.ts";

const of =
  (page: string, search = "") =>
  ({ world }: Scene) =>
    `/workspaces/${world.busy}${page}${search}`;

/** Creates a workspace and invites a person to it by email. @returns the invitation link as the email contains it */
async function invite(scene: Scene, email: string): Promise<string> {
  const { page, world } = scene;
  await page.goto("/workspaces");
  await page.getByLabel("Name").fill("Aurora");
  await press(page, "Create workspace");
  await page.getByText("Workspace: Aurora").waitFor();
  await page.goto(`${page.url()}/members`);
  await page.getByLabel("Email").fill(email);
  await press(page, "Send invitations");
  await page.getByText("We sent an invitation").waitFor();
  const { pathname, search } = new URL(await world.linkOfMail(email, "You’re invited to a workspace on Gatehouse"));
  return `${pathname}${search}`;
}

const ownOverview = async (scene: Scene) => `/workspaces/${await scene.world.ownWorkspace(whose(scene))}`;

async function approved(scene: Scene): Promise<string> {
  const workspace = await scene.world.ownWorkspace(whose(scene));
  await scene.world.query("insert into ai.key_approvals (workspace_id) values ($1)", [workspace]);
  return `/workspaces/${workspace}`;
}

/**
 * Adds the scene's guest to a workspace, in a role without permissions. @returns the path of the workspace's Overview
 */
async function withoutStudio(scene: Scene): Promise<string> {
  const { empty, query } = scene.world;
  const [role] = await query<{ id: string }>(
    "insert into public.workspace_roles (workspace_id, name, permissions) values ($1, 'Observer', '{}') on conflict (workspace_id, lower(name)) do update set name = excluded.name returning id",
    [empty],
  );
  await query("insert into public.workspace_members (workspace_id, user_id, role_id) values ($1, $2, $3)", [
    empty,
    whose(scene).id,
    role?.id,
  ]);
  return `/workspaces/${empty}`;
}

export const workspaceStates = statesOf("Workspace", [
  ["Overview", "workspaces/workspace", "user", of("")],
  ["Overview, without the studio", "workspaces/workspace", "guest", withoutStudio],
  ["Get started", "workspaces/workspace", "guest", ownOverview],
  ["Get started, approved", "workspaces/workspace", "guest", approved],
  [
    "Menu",
    "workspaces/workspace",
    "user",
    of(""),
    async ({ page }) => {
      await page.setViewportSize({ width: 320, height: 900 });
      await press(page, "Menu of Northern Lights Research");
    },
  ],
  [
    "Switching workspaces",
    "workspaces/workspace",
    "user",
    of(""),
    ({ page }) => page.getByText("Workspace: Northern Lights Research").click(),
  ],
  [
    "Overview, another brand",
    "workspaces/workspace",
    "user",
    async ({ world }) => `${await world.outposts.branded()}/workspaces/${world.busy}`,
  ],
  ["Members", "workspaces/members", "user", of("/members")],
  ["Members, for who manages none", "workspaces/members", "member", of("/members")],
  [
    "Members, wrong email",
    "workspaces/members",
    "user",
    of("/members"),
    async ({ page }) => {
      await page.getByLabel("Email").fill("jun");
      await refuse(page, "Send invitations");
    },
  ],
  [
    "Members, invitation sent",
    "workspaces/members",
    "guest",
    "/workspaces",
    async (scene) => {
      await invite(scene, `jun.park.${crypto.randomUUID().slice(0, 6)}@northern-lights.example`);
    },
  ],
  [
    "Members, removing one",
    "workspaces/members",
    "user",
    ({ world }) => `/workspaces/${world.busy}/members?remove=${world.people.member.id}`,
  ],
  [
    "Members, leaving",
    "workspaces/members",
    "member",
    (scene) => `/workspaces/${scene.world.busy}/members?remove=${whose(scene).id}`,
  ],
  ["Roles", "workspaces/roles", "user", of("/roles")],
  ["Roles, for who manages none", "workspaces/roles", "member", of("/roles")],
  [
    "Roles, name taken",
    "workspaces/roles",
    "user",
    of("/roles"),
    async ({ page }) => {
      await page.getByLabel("Name", { exact: true }).fill("Owner");
      await refuse(page, "Create role");
    },
  ],
  ["A role", "workspaces/role", "user", ({ world }) => `/workspaces/${world.busy}/roles/${world.roleId}`],
  ["Settings", "workspaces/settings", "user", of("/settings")],
  ["Settings, for who manages nothing", "workspaces/settings", "member", of("/settings")],
  [
    "Settings, handing over",
    "workspaces/settings",
    "user",
    ({ world }) => `/workspaces/${world.busy}/settings?heir=${world.colleagueId}`,
  ],
  [
    "Settings, deletion refused",
    "workspaces/settings",
    "user",
    of("/settings"),
    async ({ page }) => {
      await page.getByLabel(/^Type/).fill("Northern");
      await refuse(page, "Delete workspace");
    },
  ],
  ["Activity", "workspaces/activity", "user", of("/activity")],
  [
    "Activity, of a new workspace",
    "workspaces/activity",
    "guest",
    async (scene) => `/workspaces/${await scene.world.ownWorkspace(whose(scene))}/activity`,
  ],
  ["Invitation", "workspaces/invitation", "guest", async (scene) => invite(scene, whose(scene).email)],
  [
    "Invitation, for another email",
    "workspaces/invitation",
    "guest",
    async (scene) => invite(scene, `jun.park.${crypto.randomUUID().slice(0, 6)}@northern-lights.example`),
  ],
  ["Invitation, over", "workspaces/invitation", "guest", "/invitation?token=none", 404],
]);

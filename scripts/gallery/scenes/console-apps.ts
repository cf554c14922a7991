import { explain, refuse, type Scene, statesOf } from "../define-states.ts";

/** Returns the address of a page about an OpenID client. */
const ofClient =
  (page: string) =>
  async ({ world }: Scene) => {
    const change = {
      name: `charts-${crypto.randomUUID().slice(0, 8)}`,
      displayName: "Charts",
      isPublic: false,
      scopes: ["profile", "workspaces:read"],
      redirectUris: ["https://charts.northern-lights.example/login/generic_oauth"],
      postLogoutRedirectUris: ["https://charts.northern-lights.example/login"],
      logoutUrl: null,
      allowsDeviceGrant: false,
      secretHash: `\\x${"00".repeat(16)}${crypto.randomUUID().replaceAll("-", "")}`,
      reason: "Dashboards of the operations team",
    };
    await world.query("select private.add_openid_client($1)", [JSON.stringify(change)]);
    return `/admin/openid-clients/${change.name}${page}`;
  };

/** The console's pages about apps and OpenID clients. */
export const consoleAppStates = statesOf("Console", [
  ["Apps", "admin/apps", "admin", "/admin/apps"],
  ["Register an app", "admin/apps-new", "admin", "/admin/apps/new"],
  [
    "Register an app, refused",
    "admin/apps-new",
    "admin",
    "/admin/apps/new",
    ({ page }) => refuse(page, "Register app"),
  ],
  ["An app", "admin/app", "admin", "/admin/apps/partner"],
  ["Edit an app", "admin/app-change", "admin", "/admin/apps/partner/edit"],
  ["Rotate a secret", "admin/app-change", "admin", "/admin/apps/partner/rotate"],
  [
    "Rotate a secret, not confirmed",
    "admin/app-change",
    "admin",
    "/admin/apps/partner/rotate",
    async (scene) => {
      await scene.page.getByLabel("Current secret").selectOption("Stops working immediately");
      await explain(scene, "Rotate secret");
      await scene.page.getByRole("alert").first().waitFor();
    },
  ],
  ["Disable an app", "admin/app-change", "admin", "/admin/apps/partner/disable"],
  [
    "Rotate a secret, shown once",
    "admin/app-change",
    "admin",
    async ({ world }) => {
      const { name } = await world.createApp({ scopes: ["profile"], displayName: "Field notes" });
      return `/admin/apps/${name}/rotate`;
    },
    async (scene) => {
      await explain(scene, "Rotate secret");
      await scene.page.getByText("The new secret").waitFor();
    },
  ],
  ["Register an OpenID client", "admin/openid-clients-new", "admin", "/admin/openid-clients/new"],
  ["An OpenID client", "admin/openid-client", "admin", ofClient("")],
  ["Edit an OpenID client", "admin/openid-client-change", "admin", ofClient("/edit")],
]);

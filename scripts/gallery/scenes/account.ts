import { arrive, press, refuse, statesOf, whose } from "../define-states.ts";
import {
  addDirectly,
  addPasskey,
  askForEmailChange,
  askToDisconnect,
  askToDisconnectClient,
  confirmHalf,
  connectApps,
  connectClient,
  createWorkspace,
  fillSecurityPage,
  link,
} from "./account-steps.ts";

/** The settings and the start page of a signed-in account. */
export const accountStates = statesOf("Account", [
  ["Start", "home", "user", "/"],
  ["Start, a new account", "home", "guest", "/"],
  ["Start, an admin", "home", "admin", "/"],
  ["Account menu", "home", "member", "/", ({ page }) => page.getByRole("button", { name: "Account menu" }).click()],
  ["Workspaces", "workspaces/workspaces", "user", "/workspaces"],
  [
    "Workspaces, nameless",
    "workspaces/workspaces",
    "guest",
    "/workspaces",
    async ({ page }) => {
      await page.getByLabel("Name").fill(" ");
      await refuse(page, "Create workspace");
    },
  ],
  ["Profile", "settings/profile", "member", "/settings/profile"],
  [
    "Profile, refused",
    "settings/profile",
    "guest",
    "/settings/profile",
    async ({ page }) => {
      await page.getByLabel("Name", { exact: true }).fill("");
      await page.getByLabel(/^Profile picture URL/).fill("http://pictures.example/me.png");
      await refuse(page, "Save");
    },
  ],
  [
    "Profile, saved",
    "settings/profile",
    "guest",
    "/settings/profile",
    async ({ page }) => {
      await press(page, "Save");
      await page.getByText("Profile saved.").waitFor();
    },
  ],
  ["Change email", "settings/profile-email", "guest", "/settings/profile/email"],
  [
    "Change email, refused",
    "settings/profile-email",
    "guest",
    "/settings/profile/email",
    async ({ page }) => {
      await page.getByLabel("New email").fill("robin");
      await refuse(page, "Change email");
    },
  ],
  [
    "Change email, asked for",
    "settings/profile",
    "guest",
    "/settings/profile",
    async (scene) => {
      await askForEmailChange(scene);
    },
  ],
  [
    "Change email, link of the mail",
    "sign-in/confirm",
    "guest",
    "/settings/profile",
    async (scene) => {
      await scene.page.goto(await scene.world.confirmationLink(await askForEmailChange(scene)));
    },
  ],
  ["Change email, one mailbox to go", "sign-in/confirm", "guest", "/settings/profile", confirmHalf],
  [
    "Change email, done",
    "sign-in/confirm",
    "guest",
    "/settings/profile",
    async (scene) => {
      await confirmHalf(scene);
      await scene.page.goto(await scene.world.confirmationLink(whose(scene).email));
      await press(scene.page, "Confirm");
      await arrive(scene.page, "Email changed");
    },
  ],
  ["Security, a new account", "settings/security", "guest", "/settings/security"],
  ["Security, much of everything", "settings/security", "guest", "/settings/security", fillSecurityPage],
  ["Security, with authenticators", "settings/security", "admin", "/settings/security"],
  [
    "Security, others signed out",
    "settings/security",
    "guest",
    "/settings/security",
    async (scene) => {
      await scene.world.signIn(whose(scene));
      await scene.page.reload();
      await press(scene.page, "Sign out all others");
      await scene.page.getByText("All other devices are signed out.").waitFor();
    },
  ],
  ["Security, with unconfirmed additions", "settings/security", "guest", "/settings/security", addDirectly],
  ["What can open an account, a new one", "settings/access", "guest", "/settings/security/access"],
  [
    "What can open an account, with additions",
    "settings/access",
    "guest",
    "/settings/security",
    async (scene) => {
      await fillSecurityPage(scene);
      await connectApps(scene);
      await addDirectly(scene);
      await scene.page.goto("/settings/security/access");
    },
  ],
  [
    "What can open an account, refused",
    "settings/access",
    "guest",
    "/settings/security/access",
    async ({ page }) => {
      await page.getByLabel("Password").check();
      await refuse(page, "Remove selected and keep the rest");
    },
  ],
  [
    "What can open an account, confirmed",
    "settings/security",
    "guest",
    "/settings/security/access",
    async ({ page }) => {
      await press(page, "Keep everything");
      await page.getByText("You reviewed account access and kept everything.").waitFor();
    },
  ],
  ["Activity", "settings/activity", "user", "/settings/security/activity"],
  ["Connected apps, none", "settings/apps", "guest", "/settings/security/apps"],
  ["Connected apps", "settings/apps", "guest", "/settings/security/apps", connectApps],
  ["Connected apps, an OpenID client", "settings/apps", "guest", "/settings/security/apps", connectClient],
  [
    "Connected apps, an OpenID client that is signed out",
    "settings/apps",
    "guest",
    "/settings/security/apps",
    (scene) => connectClient(scene, { isSignedIn: false }),
  ],
  [
    "Disconnect an OpenID client",
    "settings/apps-disconnect",
    "guest",
    "/settings/security/apps",
    askToDisconnectClient,
  ],
  ["Disconnect an app", "settings/apps-disconnect", "guest", "/settings/security/apps", askToDisconnect],
  [
    "Connected apps, one disconnected",
    "settings/apps",
    "guest",
    "/settings/security/apps",
    async (scene) => {
      await askToDisconnect(scene);
      await press(scene.page, "Disconnect");
      await scene.page.getByText("App disconnected.").waitFor();
    },
  ],
  ["Change password", "settings/password", "guest", "/settings/security/password"],
  [
    "Change password, refused",
    "settings/password",
    "guest",
    "/settings/security/password",
    async ({ page }) => {
      await page.getByLabel("New password", { exact: true }).fill("short");
      await refuse(page, "Change password");
    },
  ],
  ["Add a passkey", "settings/passkeys-new", "guest", "/settings/security/passkeys/new"],
  [
    "Rename passkey",
    "settings/passkeys-rename",
    "guest",
    "/settings/security",
    async (scene) => {
      await addPasskey(scene);
      await scene.page.getByRole("link", { name: /^Rename/ }).click();
      await arrive(scene.page, "Rename passkey");
    },
  ],
  [
    "Delete a passkey",
    "settings/passkeys-delete",
    "guest",
    "/settings/security",
    async (scene) => {
      await addPasskey(scene);
      await scene.page
        .locator("#passkeys")
        .getByRole("link", { name: /^Delete/ })
        .click();
      await arrive(scene.page, "Delete this passkey?");
    },
  ],
  [
    "Unlink an account",
    "settings/unlink-account",
    "guest",
    "/settings/security",
    async (scene) => {
      await link(scene);
      await scene.page.getByRole("link", { name: /^Unlink/ }).click();
      await arrive(scene.page, /^Unlink/);
    },
  ],
  ["Delete account", "settings/delete-account", "guest", "/settings/security/delete-account"],
  [
    "Delete account, refused",
    "settings/delete-account",
    "guest",
    "/settings/security/delete-account",
    async ({ page }) => {
      await page.getByLabel(/^Type/).fill("robin");
      await refuse(page, "Delete account");
    },
  ],
  [
    "Delete account, while it owns a shared workspace",
    "settings/delete-account",
    "guest",
    "/workspaces",
    async (scene) => {
      await createWorkspace(scene);
      const other = await scene.world.createAccount("Jun Park", "jun.park");
      await scene.world.query(
        `insert into public.workspace_members (workspace_id, user_id, role_id)
         select w.id, $2, r.id from public.workspaces w join public.workspace_roles r on r.workspace_id = w.id
         where w.created_by = $1 and w.personal_user_id is null and r.name = 'member'`,
        [whose(scene).id, other.id],
      );
      await scene.page.goto("/settings/security/delete-account");
    },
  ],
]);

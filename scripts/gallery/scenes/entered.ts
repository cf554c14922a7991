import { arrive, press, type Scene, statesOf } from "../define-states.ts";

/** Adds a second account to this browser, and a third whose session has ended. */
async function addAccounts({ page, world }: Scene): Promise<void> {
  for (const name of ["Nadia Lind", "Jun Park"]) {
    const account = await world.createAccount(name, name.toLowerCase().replace(" ", "."));
    await page.goto("/add-account");
    await page.getByLabel("Email").fill(account.email);
    await page.getByLabel("Password", { exact: true }).fill(account.password);
    await press(page, "Sign in");
    await arrive(page, "Home");
    if (name === "Nadia Lind") await world.query("delete from auth.sessions where user_id = $1", [account.id]);
  }
}

async function registerApp({ world }: Scene, enabled: boolean): Promise<string> {
  const port = 20_000 + Math.floor(Math.random() * 20_000);
  const origin = `http://127.0.0.1:${port}`;
  const app = await world.createApp({ scopes: ["profile"], displayName: "Field notes", origins: [origin] });
  if (!enabled) await world.query("update private.apps set enabled = false where id = $1", [app.id]);
  return `/continue?${new URLSearchParams({ returnUrl: `${origin}/pages/7`, state: "s" })}`;
}

/** Pages after a sign-in: choosing between several accounts, and continuing to an app. */
export const enteredStates = statesOf("Sign in", [
  [
    "Accounts of this browser",
    "sign-in/accounts",
    "guest",
    "/",
    async (scene) => {
      await addAccounts(scene);
      await scene.page.goto("/accounts");
      await scene.page.getByText("Sign out", { exact: true }).first().click();
    },
  ],
  [
    "Sign in, after a new password elsewhere",
    "sign-in/login",
    "anonymous",
    "/login",
    async ({ page, world }) => {
      const { id, email, password } = await world.createAccount("Nadia Lind", "nadia.lind");
      await page.getByLabel("Email").fill(email);
      await page.getByLabel("Password", { exact: true }).fill(password);
      await press(page, "Sign in");
      await arrive(page, "Home");
      const event = "insert into public.security_events (user_id, kind, session_id) values ($1, $2, gen_random_uuid())";
      await world.query(event, [id, "password_changed"]);
      await world.query("delete from auth.sessions where user_id = $1", [id]);
      await page.goto("/workspaces");
      await page.getByText("its password was changed").waitFor();
    },
  ],
  ["Continue to an app", "sign-in/continue", "guest", (scene) => registerApp(scene, true)],
  [
    "Continue to an app that does not answer",
    "sign-in/continue",
    "guest",
    (scene) => registerApp(scene, true),
    async ({ page }) => {
      await page
        .getByRole("button", { name: /^Continue as/ })
        .first()
        .click();
      await page.getByRole("alert").first().waitFor();
    },
  ],
  ["Continue to an app that is turned off", "sign-in/continue", "guest", (scene) => registerApp(scene, false)],
  ["Connect a device", "openid/device", "guest", "/device"],
  ["Connect a device, unknown code", "openid/device", "guest", "/device?user_code=WDJB-MJHT", 404],
  ["Connect a device, its request", "openid/device", "guest", ({ world }) => world.askOnDevice()],
  [
    "Connect a device, approved",
    "openid/device",
    "guest",
    ({ world }) => world.askOnDevice(),
    async ({ page }) => {
      await page.getByRole("button", { name: /^Approve as/ }).click();
      await arrive(page, "Sign-in approved");
    },
  ],
  [
    "Connect a device, denied",
    "openid/device",
    "guest",
    ({ world }) => world.askOnDevice(),
    async ({ page }) => {
      await press(page, "Deny");
      await arrive(page, "Sign-in denied");
    },
  ],
  ["Connect a device, expired", "openid/device", "guest", ({ world }) => world.askOnDevice({ expired: true })],
  ["Continue to strangers", "sign-in/continue", "guest", "/continue?returnUrl=https%3A%2F%2Fevil.example", 404],
]);

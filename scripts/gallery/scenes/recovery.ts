import { arrive, press, refuse, type Scene, statesOf, whose } from "../define-states.ts";

/** Requests a password reset email and opens its link. */
async function openResetLink({ page, world }: Scene): Promise<void> {
  const { email } = await world.createAccount();
  await page.getByLabel("Email").fill(email);
  await press(page, "Send reset link");
  await page.goto(await world.confirmationLink(email));
}

/** Returns a page for an account whose session began with a weak password. */
async function mustReplacePassword(scene: Scene): Promise<string> {
  await scene.world.query(
    `insert into private.password_replacements (session_id, user_id)
     select s.id, s.user_id from auth.sessions s where s.user_id = $1`,
    [whose(scene).id],
  );
  return "/reset-password?listed=&returnUrl=%2Fworkspaces";
}

async function chooseNewPassword(scene: Scene): Promise<void> {
  await openResetLink(scene);
  await press(scene.page, "Continue");
  await arrive(scene.page, "Choose a new password");
}

/** The pages for resetting a forgotten password, and for recovering an account. */
export const recoveryStates = statesOf("Sign in", [
  ["Forgotten password", "sign-in/forgot-password", "anonymous", "/forgot-password"],
  [
    "Forgotten password, mail sent",
    "sign-in/forgot-password",
    "anonymous",
    "/forgot-password",
    async ({ page }) => {
      await page.getByLabel("Email").fill("robin.okafor@northern-lights.example");
      await press(page, "Send reset link");
      await arrive(page, "Check your email");
    },
  ],
  ["Link of a reset mail", "sign-in/confirm", "anonymous", "/forgot-password", openResetLink],
  ["New password", "sign-in/reset-password", "anonymous", "/forgot-password", chooseNewPassword],
  [
    "New password, too short",
    "sign-in/reset-password",
    "anonymous",
    "/forgot-password",
    async (scene) => {
      await chooseNewPassword(scene);
      await scene.page.getByLabel("New password", { exact: true }).fill("short");
      await refuse(scene.page, "Change password");
    },
  ],
  ["New password for a guessable one", "sign-in/reset-password", "guest", mustReplacePassword],
  [
    "New password, changed",
    "sign-in/reset-password",
    "anonymous",
    "/forgot-password",
    async (scene) => {
      await chooseNewPassword(scene);
      await scene.page.getByLabel("New password", { exact: true }).fill("a few unrelated words");
      await press(scene.page, "Change password");
      await arrive(scene.page, "Password changed");
    },
  ],
  ["Recovery by code", "sign-in/recovery", "anonymous", "/auth/recovery"],
  [
    "Recovery by code, refused",
    "sign-in/recovery",
    "anonymous",
    "/auth/recovery",
    async ({ page }) => {
      await page.getByLabel("Email").fill("robin.okafor@northern-lights.example");
      await page.getByLabel("6-digit code").fill("000000");
      await refuse(page, "Sign in");
    },
  ],
  [
    "Recovery by link",
    "sign-in/recovery",
    "guest",
    async ({ world }) => (await world.recover(await world.createAccount("Nadia Lind", "nadia.lind"))).path,
  ],
  ["Recovery by link, dead", "sign-in/recovery", "anonymous", `/auth/recovery?token=${"x".repeat(43)}`, 410],
]);

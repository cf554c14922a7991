import { arrive, press, refuse, type Scene, statesOf, whose } from "../define-states.ts";
import { cookiesOf } from "../visitors.ts";

const security = `returnUrl=${encodeURIComponent("/settings/security")}`;

async function enterWrongCode({ page }: Scene): Promise<void> {
  await page.getByLabel("6-digit code").fill("000000");
  await refuse(page, "Verify");
}

async function setUp({ page }: Scene): Promise<string> {
  await press(page, "Set up app");
  await page.getByRole("img", { name: "QR code for your authenticator app" }).waitFor();
  return ((await page.getByText(/^([A-Z2-7]{4} ?)+$/).textContent()) ?? "").replaceAll(" ", "");
}

/**
 * Signs in and completes the second step, in an account with the named authenticator apps in addition to its phone.
 * @returns the id of the first additional app, or of the phone if it is the only one
 */
async function enterWithApps(scene: Scene, ...names: string[]): Promise<string> {
  const { page, world } = scene;
  const account = await world.createAccount();
  const [phone, other] = await world.enroll(account, "Phone", ...names);
  await page.context().clearCookies();
  await page.context().addCookies(cookiesOf(await world.signIn(account), world.base));
  await page.goto("/mfa");
  if (names.length > 0) await page.getByRole("radio", { name: "Phone" }).check();
  await page.getByLabel("6-digit code").fill(phone ? world.codeOf(phone, 1) : "");
  await press(page, "Verify");
  await arrive(page, "Home");
  return (other ?? phone)?.factorId ?? "";
}

/** Uses a browser that signed in long ago, so that security settings ask for a new confirmation. */
async function comeLate({ page, world }: Scene): Promise<void> {
  const earlier = await world.signedInLongAgo(await world.createAccount(), { secondsAgo: 700 });
  await page.context().addCookies(cookiesOf(earlier.cookie(), world.base));
}

/** Starts a request to the phone, and marks the request as rejected, as the phone would. */
async function beRejected(scene: Scene): Promise<void> {
  await press(scene.page, "Show QR code");
  await scene.page.getByText("Waiting for your phone").waitFor();
  await scene.world.query("update private.login_challenges set status = 'rejected' where user_id = $1", [
    whose(scene).id,
  ]);
  await scene.page.getByText("The request was rejected").waitFor();
}

/** The steps between a password and the account, and the confirmation before a security change. */
export const secondStepStates = statesOf("Second step", [
  ["Code", "mfa/mfa", "owing", "/mfa"],
  ["Code, refused", "mfa/mfa", "owing", "/mfa", enterWrongCode],
  ["Code, other ways", "mfa/mfa", "owing", "/mfa", ({ page }) => page.getByText("Try another way").click()],
  ["Approve on your phone", "mfa/app", "owing", "/mfa/app"],
  [
    "Approve on your phone, waiting",
    "mfa/app",
    "owing",
    "/mfa/app",
    async ({ page }) => {
      await press(page, "Send request to my phone");
      await page.getByText("Waiting for your phone").waitFor();
    },
  ],
  ["Recovery code", "mfa/recovery", "owing", "/mfa/recovery"],
  [
    "Recovery code, refused",
    "mfa/recovery",
    "owing",
    "/mfa/recovery",
    async ({ page }) => {
      await page.getByLabel("Recovery code").fill("7KQ2-M9XA-04TC-HW5E");
      await refuse(page, "Remove authenticator apps");
    },
  ],
  [
    "Recovery code, none left",
    "mfa/recovery",
    "guest",
    async (scene) => {
      await scene.world.enroll(whose(scene), "Phone");
      return "/mfa/recovery";
    },
  ],
  ["Add an app", "mfa/enroll", "guest", `/mfa/enroll?${security}`],
  [
    "Add an app, its key",
    "mfa/enroll",
    "guest",
    `/mfa/enroll?${security}`,
    async (scene) => {
      await setUp(scene);
    },
  ],
  [
    "Add an app, wrong code",
    "mfa/enroll",
    "guest",
    `/mfa/enroll?${security}`,
    async (scene) => {
      await setUp(scene);
      await scene.page.getByLabel("6-digit code").fill("000000");
      await refuse(scene.page, "Verify and add");
    },
  ],
  [
    "Add an app, its recovery codes",
    "mfa/enroll",
    "guest",
    `/mfa/enroll?${security}`,
    async (scene) => {
      const secret = await setUp(scene);
      await scene.page.getByLabel("6-digit code").fill(scene.world.codeOf({ secret }));
      await press(scene.page, "Verify and add");
      await arrive(scene.page, "Save your recovery codes");
    },
  ],
  [
    "New recovery codes",
    "mfa/recovery-codes",
    "anonymous",
    async (scene) => {
      await enterWithApps(scene);
      return "/mfa/recovery-codes";
    },
  ],
  [
    "Remove an app",
    "mfa/remove",
    "anonymous",
    async (scene) => `/mfa/remove?${new URLSearchParams({ factorId: await enterWithApps(scene, "Old tablet") })}`,
  ],
  [
    "Remove the last app",
    "mfa/remove",
    "anonymous",
    async (scene) => `/mfa/remove?${new URLSearchParams({ factorId: await enterWithApps(scene) })}`,
  ],
  [
    "Confirm it’s you",
    "mfa/step-up",
    "anonymous",
    async (scene) => {
      await comeLate(scene);
      return `/step-up?${security}`;
    },
  ],
  [
    "Confirm it’s you, refused",
    "mfa/step-up",
    "anonymous",
    async (scene) => {
      await comeLate(scene);
      return `/step-up?${security}`;
    },
    async ({ page }) => {
      await page.getByLabel("Password", { exact: true }).fill("not the password");
      await refuse(page, "Confirm");
    },
  ],
  [
    "Confirm by an emailed code",
    "mfa/step-up-code",
    "anonymous",
    async (scene) => {
      await comeLate(scene);
      return `/step-up/code?${security}`;
    },
  ],
  [
    "Confirm by an emailed code, asked for",
    "mfa/step-up-code",
    "anonymous",
    async (scene) => {
      await comeLate(scene);
      return `/step-up/code?${security}`;
    },
    async ({ page }) => {
      await press(page, "Email me a code");
      await arrive(page, "Check your email");
    },
  ],
  ["Phone", "sign-in/qr", "guest", "/qr"],
  [
    "Phone, waiting",
    "sign-in/qr",
    "guest",
    "/qr",
    async ({ page }) => {
      await press(page, "Show QR code");
      await page.getByText("Waiting for your phone").waitFor();
    },
  ],
  ["Phone, rejected", "sign-in/qr", "guest", "/qr", beRejected],
  ["Phone, its link in a browser", "sign-in/qr-open", "anonymous", "/qr/open"],
]);

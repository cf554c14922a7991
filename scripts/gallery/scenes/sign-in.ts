import { arrive, press, refuse, type Scene, statesOf, whose } from "../define-states.ts";
import { cookiesOf } from "../visitors.ts";

async function fillSignIn({ page }: Scene, email: string, password: string): Promise<void> {
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password", { exact: true }).fill(password);
}

async function signInWrongly(scene: Scene): Promise<void> {
  await fillSignIn(scene, "robin.okafor@northern-lights.example", "not the password");
  await refuse(scene.page, "Sign in");
}

/** Uses up the sign-in attempts for an email with ten wrong passwords, and sends one more, which the page refuses. */
async function useUpAttempts(scene: Scene): Promise<void> {
  const { page, world } = scene;
  const email = `somebody.${crypto.randomUUID().slice(0, 6)}@northern-lights.example`;
  const wrong = { form: { email, password: "not the password" }, headers: { "sec-fetch-site": "same-origin" } };
  await Promise.all(Array.from({ length: 10 }, () => page.request.post(`${world.base}/login`, wrong)));
  await fillSignIn(scene, email, "not the password");
  await refuse(page, "Sign in");
}

async function signUp({ page }: Scene): Promise<string> {
  const email = `nadia.lind.${crypto.randomUUID().slice(0, 6)}@northern-lights.example`;
  await page.getByLabel("Email").fill(email);
  await page.getByLabel("Password", { exact: true }).fill("a few unrelated words");
  await press(page, "Create account");
  await arrive(page, "Check your email");
  return email;
}

async function askForCode({ page, world }: Scene): Promise<void> {
  const { email } = await world.createAccount("Nadia Lind", "nadia.lind");
  await page.getByLabel("Email").fill(email);
  await press(page, "Email me a code");
  await arrive(page, "Check your email");
}

/**
 * Creates a password reset link for another account, by storing its token as the backend does when it sends the email.
 */
async function linkOfAnother({ world }: Scene): Promise<string> {
  const { id, email } = await world.createAccount("Nadia Lind", "nadia.lind");
  const hash = crypto.randomUUID();
  await world.query(
    `insert into auth.one_time_tokens (id, user_id, token_type, token_hash, relates_to)
     values (gen_random_uuid(), $1, 'recovery_token', $2, $3)`,
    [id, hash, email],
  );
  return `/auth/confirm?token_hash=${hash}&type=recovery`;
}

/** Signs in with another person's provider account while this browser is signed in. */
async function comeBackAsAnother({ page, world }: Scene): Promise<void> {
  const person = await world.createAccount();
  await press(page, "Continue with Google");
  await page.getByLabel("Email").waitFor();
  const other = await world.signIn(await world.createAccount("Nadia Lind", "nadia.lind"));
  await page.context().addCookies(cookiesOf(other, world.base));
  await page.getByLabel("Email").fill(person.email);
  await press(page, "Continue");
  await arrive(page, /^Continue as/);
}

async function confirmAs(scene: Scene): Promise<void> {
  const { page, world } = scene;
  await page.goto(await world.confirmationLink(await signUp(scene)));
}

/** The pages before sign-in, from the first form to the emailed link. */
export const signInStates = statesOf("Sign in", [
  ["Sign in", "sign-in/login", "anonymous", "/login"],
  ["Sign in, refused", "sign-in/login", "anonymous", "/login", signInWrongly],
  ["Sign in, empty form", "sign-in/login", "anonymous", "/login", ({ page }) => refuse(page, "Sign in")],
  ["Sign in, too many attempts", "sign-in/login", "anonymous", "/login", useUpAttempts],
  [
    "Sign in, for an app",
    "sign-in/login",
    "anonymous",
    ({ world }) => `/login?${new URLSearchParams({ returnUrl: world.satellite })}`,
  ],
  ["Sign in, from another site", "sign-in/login", "anonymous", "/login?returnUrl=https%3A%2F%2Fevil.example"],
  ["Sign in, back from a provider", "sign-in/login", "anonymous", "/login?oauth=cancelled&provider=google"],
  ["Sign in, after an account was deleted", "sign-in/login", "anonymous", "/login?accountDeleted"],
  ["Sign in, signed out in this browser only", "sign-in/login", "anonymous", "/login?signedOutHereOnly"],
  [
    "Sign in, with a provider last time",
    "sign-in/login",
    "anonymous",
    async ({ page, world }) => {
      await page.context().addCookies([{ name: "gh_last_method", value: "oauth%3Agithub", url: world.base }]);
      return "/login";
    },
  ],
  [
    "Sign in, with a bot challenge",
    "sign-in/login",
    "anonymous",
    async ({ world }) => `${await world.outposts.challenged()}/login`,
  ],
  [
    "Sign in, with a bot challenge that is blocked",
    "sign-in/login",
    "anonymous",
    async ({ page, world }) => {
      await page.route("**/turnstile/v0/api.js*", (route) => route.abort());
      return `${await world.outposts.challenged()}/login`;
    },
    ({ page }) => page.getByRole("button", { name: "Try again" }).waitFor(),
  ],
  [
    "Sign in, while the identity backend is gone",
    "sign-in/login",
    "anonymous",
    async ({ world }) => `${await world.outposts.cutOff()}/login`,
    signInWrongly,
  ],
  [
    "Sign in, with a code last time",
    "sign-in/login",
    "anonymous",
    async ({ page, world }) => {
      await page.context().addCookies([{ name: "gh_last_method", value: "email_code", url: world.base }]);
      return "/login";
    },
  ],
  ["Emailed code", "sign-in/code", "anonymous", "/login/code"],
  ["Emailed code, expired", "sign-in/code", "anonymous", "/login/code?expired"],
  [
    "Emailed code, without an email",
    "sign-in/code",
    "anonymous",
    "/login",
    ({ page }) => refuse(page, "Email me a code"),
  ],
  ["Emailed code, requested", "sign-in/code", "anonymous", "/login", askForCode],
  [
    "Emailed code, refused",
    "sign-in/code",
    "anonymous",
    "/login",
    async (scene) => {
      await askForCode(scene);
      await scene.page.getByLabel("Code").fill("0000000000");
      await refuse(scene.page, "Sign in");
    },
  ],
  [
    "Emailed code, sent again",
    "sign-in/code",
    "anonymous",
    "/login",
    async (scene) => {
      await askForCode(scene);
      await press(scene.page, "Resend code");
      await scene.page.getByText("If you got a code in the last 3 minutes").waitFor();
    },
  ],
  ["Add an account", "sign-in/login", "guest", "/add-account"],
  [
    "Sign in again",
    "sign-in/login",
    "guest",
    (scene) => `/add-account?${new URLSearchParams({ account: whose(scene).id })}`,
  ],
  ["Sign up", "sign-in/signup", "anonymous", "/signup"],
  [
    "Sign in, another brand",
    "sign-in/login",
    "anonymous",
    async ({ world }) => `${await world.outposts.branded()}/login`,
  ],
  [
    "Sign up, refused",
    "sign-in/signup",
    "anonymous",
    "/signup",
    async ({ page }) => {
      await page.getByLabel("Email").fill("nadia");
      await page.getByLabel("Password", { exact: true }).fill("short");
      await refuse(page, "Create account");
    },
  ],
  [
    "Check your email",
    "sign-in/check-mail",
    "anonymous",
    "/signup",
    async (scene) => {
      await signUp(scene);
    },
  ],
  ["Check your mail, without an address", "sign-in/check-mail", "anonymous", "/signup/check-mail?unconfirmed"],
  [
    "Check your mail, sent again",
    "sign-in/check-mail",
    "anonymous",
    "/signup/check-mail",
    async ({ page }) => {
      await page.getByLabel("Email").fill("nadia.lind@northern-lights.example");
      await press(page, "Resend email");
      await page.getByText("open the link you got").waitFor();
    },
  ],
  ["Link of a sign-up mail", "sign-in/confirm", "anonymous", "/signup", confirmAs],
  ["Link of a mail, dead", "sign-in/confirm", "anonymous", "/auth/confirm?token_hash=none&type=signup", 400],
  [
    "Link of a mail, used",
    "sign-in/confirm",
    "anonymous",
    `/auth/confirm?token_hash=${"x".repeat(56)}&type=recovery`,
    410,
  ],
  ["Link of a sign-in mail, dead", "sign-in/confirm", "anonymous", "/auth/confirm?token_hash=none&type=magiclink", 400],
  ["Link of a mail, with another account signed in", "sign-in/confirm", "guest", linkOfAnother],
  [
    "Back from a provider, begun elsewhere",
    "sign-in/oauth-callback",
    "anonymous",
    "/auth/callback?code=none&state=none",
    403,
  ],
  ["Back from a provider, as another account", "sign-in/oauth-callback", "anonymous", "/login", comeBackAsAnother],
]);

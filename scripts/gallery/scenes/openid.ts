import { detour } from "../../../remix-app/http/redirect-target.ts";
import { arrive, press, type Scene, statesOf } from "../state.ts";

const callback = "https://charts.example/callback";
const signedOut = "https://charts.example/signed-out";

/** Registers a client with a unique name. @returns the client's parameters for a sign-in request */
function registerClient({ world }: Scene) {
  return world.createOpenidClient({
    displayName: "Field charts",
    scopes: ["profile", "workspaces:read"],
    redirectUris: [callback],
    postLogoutRedirectUris: [signedOut],
  });
}

async function authorizationOf(scene: Scene, given: Readonly<Record<string, string>> = {}): Promise<string> {
  const client = await registerClient(scene);
  return (
    await scene.world.askForAuthorization(client, {
      scope: "openid profile email workspaces:read offline_access",
      ...given,
    })
  ).path;
}

async function logoutOf(scene: Scene): Promise<string> {
  const { id } = await registerClient(scene);
  return `/oauth/logout?${new URLSearchParams({ client_id: id, post_logout_redirect_uri: signedOut })}`;
}

/** Answers requests to the client's site with 204, so that the browser stays on our page. */
async function stay({ page }: Scene): Promise<void> {
  await page.route("https://charts.example/**", (route) => route.fulfill({ status: 204 }));
}

/** The pages for signing in to an OpenID client, and for signing out of it. */
export const openidStates = statesOf("Sign in", [
  ["Sign in to an OpenID client", "openid/authorize", "guest", (scene) => authorizationOf(scene)],
  [
    "Sign-in page for an OpenID client",
    "sign-in/login",
    "anonymous",
    async (scene) => detour("/login", await authorizationOf(scene, { login_hint: "lea.brandt@example.test" })),
  ],
  [
    "Step-up for an OpenID client",
    "mfa/step-up",
    "guest",
    "/",
    async (scene) => {
      await scene.page.goto(await authorizationOf(scene, { prompt: "login" }));
      await arrive(scene.page, "Confirm it’s you");
    },
  ],
  [
    "OpenID client with an unregistered address",
    "openid/authorize",
    "guest",
    (scene) => authorizationOf(scene, { redirect_uri: "https://evil.example/" }),
    400,
  ],
  [
    "OpenID client that is unknown",
    "openid/authorize",
    "guest",
    (scene) => authorizationOf(scene, { client_id: "no" }),
    400,
  ],
  ["Sign-in link that is incomplete", "openid/authorize", "guest", "/oauth/authorize", 400],
  [
    "On to an OpenID client",
    "openid/decision",
    "guest",
    (scene) => authorizationOf(scene),
    async (scene) => {
      await stay(scene);
      await scene.page
        .getByRole("button", { name: /^Continue as/ })
        .first()
        .click();
      await arrive(scene.page, "Continuing to Field charts");
    },
  ],
  ["Sign-out for an OpenID client", "openid/logout", "guest", logoutOf],
  ["Sign-out link that is not valid", "openid/logout", "guest", "/oauth/logout?id_token_hint=x", 400],
  ["Signed out", "openid/logout", "anonymous", "/oauth/logout"],
  [
    "Signed out for an OpenID client",
    "openid/logout-confirm",
    "guest",
    logoutOf,
    async (scene) => {
      await stay(scene);
      await press(scene.page, "Sign out");
      await arrive(scene.page, "Continuing to Field charts");
    },
  ],
]);

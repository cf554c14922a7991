import { None } from "oauth4webapi";
import { addReturnUrl } from "../../../remix-app/http/redirect-target.ts";
import { newAddress } from "../../../remix-app/testing/visitor.ts";
import { arrive, press, type Scene, statesOf } from "../define-states.ts";

const callback = "https://charts.example/callback";
const signedOut = "https://charts.example/signed-out";
const editorCallback = "http://127.0.0.1:8976/callback";

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

/** Registers a client at its own request. @returns the path of its request to call an MCP server */
async function connectionOf({ world }: Scene, given: Readonly<Record<string, string>> = {}): Promise<string> {
  const resource = `https://${crypto.randomUUID().slice(0, 8)}.example/mcp`;
  const app = await world.createApp({ displayName: "Team tools", scopes: ["profile"] });
  await world.query("update private.apps set resource_url = $2 where id = $1", [app.id, resource]);
  const answer = await fetch(`${world.base}/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-forwarded-for": newAddress() },
    body: JSON.stringify({ client_name: "Field editor", redirect_uris: [editorCallback] }),
  });
  const { client_id: id } = (await answer.json()) as { client_id: string };
  const client = { id, client: { client_id: id }, auth: None(), secret: null, redirectUri: editorCallback };
  return (await world.askForAuthorization(client, { scope: "openid profile offline_access", resource, ...given })).path;
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
    async (scene) => addReturnUrl("/login", await authorizationOf(scene, { login_hint: "lea.brandt@example.test" })),
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
  ["Connect a client to an MCP server", "openid/authorize", "guest", (scene) => connectionOf(scene)],
  [
    "Client of an MCP server that can’t continue",
    "openid/authorize",
    "guest",
    (scene) => connectionOf(scene, { resource: "https://unknown.example/mcp" }),
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

import { randomBytes } from "node:crypto";
import { exportJWK, generateKeyPair } from "jose";
import Provider from "oidc-provider";
import { addAppleUser } from "./apple-answer.ts";
import { githubApi } from "./github-api.ts";
import { errorPage } from "./page.ts";
import { accountOf, rememberPeople } from "./people.ts";
import { signInPages, signInPath } from "./sign-in.ts";
import type { Shape } from "./simulated-providers.ts";

export type OidcClient = { id: string; secret: string; redirectUri: string };

const scope = "openid profile email";
const lifetimes = { codeSeconds: 60, accessTokenSeconds: 3_600, signInSeconds: 600 };

/**
 * Creates an OpenID provider for demo accounts. It has one client, shows the sign-in page every time, and keeps nothing
 * across restarts. If it is mounted below a path, requests must arrive without that path.
 */
export async function createOidcProvider(options: {
  /** The base of the provider's URLs. */
  base: string;
  client: OidcClient;
  shape: Shape;
}): Promise<Provider> {
  const { base, client, shape } = options;
  const mountPath = new URL(base).pathname.replace(/\/$/, "");
  const people = rememberPeople(mountPath);
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const provider = new Provider(`${base}${shape.issuerPath}`, {
    clients: [
      {
        client_id: client.id,
        client_secret: client.secret,
        redirect_uris: [client.redirectUri],
        grant_types: ["authorization_code"],
        response_types: ["code"],
        token_endpoint_auth_method: shape.clientAuthentication,
        id_token_signed_response_alg: "ES256",
      },
    ],
    jwks: { keys: [{ ...(await exportJWK(privateKey)), alg: "ES256", use: "sig" }] },
    cookies: { keys: [randomBytes(32).toString("base64url")] },
    scopes: scope.split(" "),
    claims: { openid: ["sub"], profile: ["name", "preferred_username"], email: ["email", "email_verified"] },
    conformIdTokenClaims: !shape.claimsInIdToken,
    findAccount(_ctx, subject) {
      const person = people.find(subject);
      return person && accountOf(subject, person);
    },
    pkce: { required: () => false },
    features: { devInteractions: { enabled: false }, rpInitiatedLogout: { enabled: false } },
    routes: shape.paths,
    ttl: {
      AuthorizationCode: lifetimes.codeSeconds,
      AccessToken: lifetimes.accessTokenSeconds,
      IdToken: lifetimes.accessTokenSeconds,
      Interaction: lifetimes.signInSeconds,
      Grant: lifetimes.accessTokenSeconds,
      Session: lifetimes.accessTokenSeconds,
    },
    interactions: { url: (_ctx, { uid }) => mountPath + signInPath(uid) },
    /** Signing in implies consent to what the client requests. */
    async loadExistingGrant({ oidc }) {
      if (!oidc.client || !oidc.session?.accountId) return undefined;
      const { clientId } = oidc.client;
      const grant = new oidc.provider.Grant({ clientId, accountId: oidc.session.accountId });
      grant.addOIDCScope(scope);
      await grant.save();
      return grant;
    },
    async renderError(ctx, { error, error_description: description }) {
      const { headers, body } = await errorPage(`The demo provider says: ${description ?? error}`);
      ctx.set(headers);
      ctx.body = body;
    },
  });

  provider.use(async (ctx, next) => {
    ctx.mountPath = mountPath;
    if (ctx.path === "/healthz") ctx.body = { name: "oidc", status: "ok" };
    else await next();
  });
  // Drops the provider's session cookie, so that every sign-in starts without a session.
  provider.use(async (ctx, next) => {
    const cookies = ctx.req.headers.cookie?.split("; ").filter((cookie) => !cookie.startsWith("_session"));
    if (cookies) ctx.req.headers.cookie = cookies.join("; ");
    await next();
  });
  // Removes prompt=select_account, which the library does not support. Every sign-in shows the sign-in page anyway.
  provider.use(async (ctx, next) => {
    const { prompt, ...query } = ctx.query;
    if (ctx.path === shape.paths.authorization && prompt === "select_account") ctx.query = query;
    await next();
  });
  if (shape.alwaysOpenId) {
    provider.use(async (ctx, next) => {
      if (ctx.path === shape.paths.authorization)
        ctx.query = { ...ctx.query, scope: `openid ${ctx.query.scope ?? ""}` };
      await next();
    });
  }
  if (shape.namesInAnswer) {
    provider.use(async (ctx, next) => {
      await next();
      const subject = ctx.oidc?.session?.accountId;
      const person = subject ? people.find(subject) : undefined;
      if (subject && person && people.introduce(subject)) addAppleUser(ctx, person);
    });
  }
  provider.use(signInPages({ provider, people, mountPath, company: shape.company }));
  if (shape.githubApi) provider.use(githubApi({ provider, people }));
  return provider;
}

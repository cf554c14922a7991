import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import { exportJWK, generateKeyPair, SignJWT, UnsecuredJWT } from "jose";
import { issuers, type ProviderName, providerNames, type Shape, shapes } from "./provider-shapes.ts";

/** A person as a provider describes them. With the last three fields, a test changes the ID token or omits it. */
export type Person = {
  sub: string;
  email?: string;
  verified?: boolean;
  name?: string;
  others?: string[];
  /** Claims that replace the ID token's own; null removes a claim. */
  claims?: Record<string, unknown>;
  /** The signer of the ID token; by default the provider. */
  signature?: "stranger" | "client" | "none";
  withoutIdToken?: boolean;
};

const client = {
  id: "client",
  secret: "a secret/with=signs",
  redirectUri: "https://api.example.test/auth/v1/callback",
};
const secretKey = new TextEncoder().encode(client.secret);

/**
 * Starts a server with identity providers. Each provider's API is under a path that begins with the provider's name.
 * The test acts as the browser: it registers the consenting person at `POST /people?provider=…`, and passes the
 * returned code to the callback.
 */
export async function startProvider() {
  /** A code is single-use, and valid only at the provider that issued it. */
  const codes = new Map<string, { provider: ProviderName; person: Person }>();
  const tokens = new Map<string, Person>();
  const { privateKey, publicKey } = await generateKeyPair("RS256");
  const unknownKey = await generateKeyPair("RS256");
  const jwk = { ...(await exportJWK(publicKey)), kid: "provider", alg: "RS256", use: "sig" };
  let url = "";

  function idToken(provider: ProviderName, person: Person): Promise<string> | string {
    const now = Math.floor(Date.now() / 1_000);
    const shape: Shape = shapes[provider];
    const claims: Record<string, unknown> = {
      iss: provider in issuers ? issuers[provider as keyof typeof issuers] : `${url}/${provider}`,
      sub: person.sub,
      aud: client.id,
      iat: now,
      exp: now + 300,
      ...shape.idToken?.(person),
      ...person.claims,
    };
    for (const [claim, value] of Object.entries(claims)) if (value === null) delete claims[claim];
    if (person.signature === "none") return new UnsecuredJWT(claims).encode();
    if (person.signature === "client") {
      return new SignJWT(claims).setProtectedHeader({ alg: "HS256" }).sign(secretKey);
    }
    const key = person.signature === "stranger" ? unknownKey.privateKey : privateKey;
    return new SignJWT(claims).setProtectedHeader({ alg: "RS256", kid: "provider" }).sign(key);
  }

  async function redeem(request: IncomingMessage, provider: ProviderName): Promise<unknown> {
    const form = new URLSearchParams(await read(request));
    const shape: Shape = shapes[provider];
    if (!knowsClient(request, form, shape)) return undefined;
    const code = form.get("code") ?? "";
    const entry = codes.get(code);
    if (entry?.provider !== provider || form.get("redirect_uri") !== client.redirectUri) return undefined;
    if (form.get("grant_type") !== "authorization_code") return undefined;
    codes.delete(code);
    const token = randomUUID();
    tokens.set(token, entry.person);
    return {
      access_token: token,
      refresh_token: `refresh-${token}`,
      token_type: "bearer",
      expires_in: 60,
      ...(shape.idToken && !entry.person.withoutIdToken ? { id_token: await idToken(provider, entry.person) } : {}),
    };
  }

  async function answer(request: IncomingMessage, at: { origin: string; name?: ProviderName }): Promise<unknown> {
    const { pathname, searchParams } = new URL(request.url ?? "/", at.origin);
    const [below, isDiscovery] = pathname.split("/.well-known/openid-configuration");
    if (isDiscovery !== undefined) return discovery(`${at.origin}${below}`, at);
    if (pathname === "/jwks") return { keys: [jwk] };
    if (pathname === "/people") {
      const provider = providerNames.find((name) => name === searchParams.get("provider")) ?? "keycloak";
      const code = randomUUID();
      codes.set(code, { provider, person: JSON.parse(await read(request)) as Person });
      return { code };
    }
    const [, first = "", rest = ""] = /^\/([a-z_]+)(\/.*)$/.exec(pathname) ?? [];
    const name = at.name ?? providerNames.find((known) => known === first);
    const path = at.name ? pathname : rest;
    if (!name) return undefined;
    const shape: Shape = shapes[name];
    if (path === shape.token) return redeem(request, name);
    const person = tokens.get((request.headers.authorization ?? "").replace(/^bearer /i, ""));
    return person && shape.api?.[path]?.(person);
  }

  function listener(at: () => { origin: string; name?: ProviderName }): RequestListener {
    return (request, response) => {
      answer(request, at()).then(
        (body) => {
          response.writeHead(body ? 200 : 400, { "Content-Type": "application/json" });
          response.end(JSON.stringify(body ?? { error: "invalid_grant" }));
        },
        (error: unknown) => response.writeHead(500).end(String(error)),
      );
    };
  }

  const server = createServer(listener(() => ({ origin: url })));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the provider has no address");
  url = `http://127.0.0.1:${address.port}`;
  const at = (name: ProviderName, host: string) => listener(() => ({ origin: `https://${host}`, name }));
  return {
    url,
    /** Providers whose hosts are fixed, regardless of a server's settings. */
    hosts: {
      "accounts.google.com": at("google", "accounts.google.com"),
      "appleid.apple.com": at("apple", "appleid.apple.com"),
      "api.linkedin.com": at("linkedin_oidc", "api.linkedin.com"),
      "www.linkedin.com": at("linkedin_oidc", "www.linkedin.com"),
      "login.microsoftonline.com": at("azure", "login.microsoftonline.com"),
    },
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function discovery(issuer: string, { origin, name }: { origin: string; name?: ProviderName }) {
  const shape: Shape | undefined = name && shapes[name];
  const base = name ? origin : issuer;
  return {
    issuer,
    jwks_uri: `${origin}/jwks`,
    authorization_endpoint: `${base}${shape?.authorize ?? "/authorize"}`,
    token_endpoint: `${base}${shape?.token ?? "/token"}`,
    id_token_signing_alg_values_supported: ["RS256"],
    response_types_supported: ["code"],
    subject_types_supported: ["public"],
  };
}

/** RFC 6749 section 2.3.1. */
function knowsClient(request: IncomingMessage, form: URLSearchParams, shape: Shape): boolean {
  const inBody = form.get("client_id") === client.id && form.get("client_secret") === client.secret;
  const [scheme, credentials = ""] = (request.headers.authorization ?? "").split(" ");
  const basic = scheme === "Basic" ? atob(credentials).split(":").map(decodeFormText) : [];
  const inHeader = basic[0] === client.id && basic[1] === client.secret;
  return inBody || (inHeader && !shape.credentialsInBody);
}

const decodeFormText = (text: string) => new URLSearchParams(`text=${text}`).get("text");

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Returns the settings of a server that trusts these providers. */
export function providerSettings(url: string): Record<string, string> {
  return Object.fromEntries(
    providerNames.flatMap((name) => {
      const prefix = `GOTRUE_EXTERNAL_${name.toUpperCase()}`;
      const { origin }: Shape = shapes[name];
      return [
        [`${prefix}_ENABLED`, "true"],
        [`${prefix}_CLIENT_ID`, client.id],
        [`${prefix}_SECRET`, client.secret],
        [`${prefix}_REDIRECT_URI`, client.redirectUri],
        ...(origin ? [] : [[`${prefix}_URL`, `${url}/${name}`]]),
      ];
    }),
  );
}

import { randomUUID } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { exportJWK, generateKeyPair, SignJWT } from "jose";

/** What the provider says of whoever signs in. */
export type Person = { sub: string; email?: string; verified?: boolean; name?: string; others?: string[] };

/**
 * Identity providers as a server of their own, in the shapes of Keycloak, GitHub and Microsoft. The test plays the
 * browser: it says at `POST /people` who has agreed, and hands the code that it gets to the callback.
 */
export async function startProvider() {
  const people = new Map<string, Person>();
  const { privateKey, publicKey } = await generateKeyPair("RS256");
  const jwk = { ...(await exportJWK(publicKey)), kid: "provider", alg: "RS256", use: "sig" };
  let url = "";

  const idToken = ({ sub, email, verified = true, name }: Person) =>
    new SignJWT({ email, email_verified: verified, name, preferred_username: email })
      .setProtectedHeader({ alg: "RS256", kid: "provider" })
      .setIssuer(`${url}/azure`)
      .setSubject(sub)
      .setAudience("client")
      .setIssuedAt()
      .setExpirationTime("5m")
      .sign(privateKey);

  async function answer(request: IncomingMessage): Promise<unknown> {
    const path = new URL(request.url ?? "/", url).pathname;
    if (path.endsWith("/.well-known/openid-configuration")) {
      return {
        issuer: `${url}/azure`,
        jwks_uri: `${url}/jwks`,
        authorization_endpoint: `${url}/azure/oauth2/v2.0/authorize`,
        token_endpoint: `${url}/azure/oauth2/v2.0/token`,
        id_token_signing_alg_values_supported: ["RS256"],
        response_types_supported: ["code"],
        subject_types_supported: ["public"],
      };
    }
    if (path === "/people") {
      const code = randomUUID();
      people.set(code, JSON.parse(await read(request)) as Person);
      return { code };
    }
    if (path === "/jwks") return { keys: [jwk] };
    if (path.endsWith("/token") || path.endsWith("/access_token")) {
      const form = new URLSearchParams(await read(request));
      const code = form.get("code") ?? "";
      const person = people.get(code);
      if (!person || form.get("grant_type") !== "authorization_code") return undefined;
      return {
        access_token: code,
        refresh_token: `refresh-${code}`,
        token_type: "bearer",
        expires_in: 60,
        ...(path.includes("azure") ? { id_token: await idToken(person) } : {}),
      };
    }
    const person = people.get((request.headers.authorization ?? "").replace(/^bearer /i, ""));
    if (!person) return undefined;
    const { sub, email, verified = true, name = "Someone", others = [] } = person;
    if (path.endsWith("/userinfo")) return { sub, email, email_verified: verified, name };
    if (path.endsWith("/user/emails")) {
      const more = others.map((other) => ({ email: other, verified: true, primary: false }));
      return email ? [...more, { email, verified, primary: true }] : more;
    }
    if (path.endsWith("/user")) return { id: Number(sub), login: "someone", name, avatar_url: `${url}/face.png` };
    return undefined;
  }

  const respond = async (request: IncomingMessage, response: ServerResponse) => {
    const body = await answer(request);
    response.writeHead(body ? 200 : 400, { "Content-Type": "application/json" });
    response.end(JSON.stringify(body ?? { error: "invalid_grant" }));
  };
  const server = createServer((request, response) => void respond(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  if (address === null || typeof address === "string") throw new Error("the provider has no address");
  url = `http://127.0.0.1:${address.port}`;
  return {
    url,
    async stop() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function read(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Settings of a server that trusts these providers. */
export function providerSettings(url: string): Record<string, string> {
  const names = ["keycloak", "github", "azure"];
  return Object.fromEntries(
    names.flatMap((name) => {
      const prefix = `GOTRUE_EXTERNAL_${name.toUpperCase()}`;
      return [
        [`${prefix}_ENABLED`, "true"],
        [`${prefix}_CLIENT_ID`, "client"],
        [`${prefix}_SECRET`, "secret"],
        [`${prefix}_URL`, `${url}/${name}`],
        [`${prefix}_REDIRECT_URI`, "https://api.example.test/auth/v1/callback"],
      ];
    }),
  );
}

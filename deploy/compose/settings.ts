import { randomBytes } from "node:crypto";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { z } from "zod";

const origin = z
  .url({ protocol: /^https?$/, error: "must be an address, such as https://app.example.com" })
  .transform((text) => new URL(text).origin);

const smtpError =
  "must be an address, such as smtps://user:password@smtp.example.com:465, with % codes in the password";

/** What an operator decides. Everything else is generated. */
export const composeOptions = z
  .object({
    /** Where browsers find the web server. */
    app: origin,
    /** Where clients find Supabase and the gateway. */
    api: origin,
    /** The mail server that delivers the emails. */
    smtp: z.url({ protocol: /^smtps?$/, error: smtpError, abort: true }).refine(isMailServer, smtpError),
    from: z
      .string()
      .regex(/^[^<>]+ <[^\s<>@]+@[^\s<>@]+>$/, "must be a sender, such as Gatehouse <no-reply@example.com>"),
  })
  .refine(({ app, api }) => app !== api, { path: ["api"], error: "must be another address than --app" });

/** Returns whether an address names only a server and an account. A password with `/` or `#` would cut the address. */
function isMailServer(address: string): boolean {
  const { hostname, username, password, pathname, search, hash } = new URL(address);
  try {
    decodeURIComponent(username + password);
  } catch {
    return false;
  }
  return hostname !== "" && pathname.length <= 1 && search === "" && hash === "";
}

const token = (bytes: number) => randomBytes(bytes).toString("base64url");
/** How long the proxy's token for the secret key is valid. Only the proxy has it. */
const roleTokenLifetime = "10y";

/** Returns the settings of compose.yaml: those that the options determine, and new secrets. */
export async function createComposeSettings({
  app,
  api,
  smtp,
  from,
}: z.output<typeof composeOptions>): Promise<Record<string, string>> {
  const relay = new URL(smtp);
  const address = from.slice(from.indexOf("<") + 1, -1);
  const kid = token(12);
  const { publicKey, privateKey } = await generateKeyPair("ES256", { extractable: true });
  const [publicJwk, privateJwk] = await Promise.all([exportJWK(publicKey), exportJWK(privateKey)]);
  const facts = { kid, alg: "ES256", use: "sig" };
  const serviceRoleToken = await new SignJWT({ role: "service_role", aud: "authenticated" })
    .setProtectedHeader({ alg: "ES256", kid, typ: "JWT" })
    .setIssuer(`${api}/auth/v1`)
    .setIssuedAt()
    .setExpirationTime(roleTokenLifetime)
    .sign(privateKey);
  const passwords = Object.fromEntries(
    ["SUPERUSER", "OWNER", "AUTH", "API", "GATEWAY"].map((role) => [
      `DB_${role}_PASSWORD`,
      randomBytes(24).toString("hex"),
    ]),
  );
  return {
    NODE_ENV: "production",
    BASE_URL: app,
    SUPABASE_URL: api,
    API_HOST: new URL(api).hostname,
    PASSKEY_DOMAIN: new URL(app).hostname,
    TRUSTED_PROXY_HOPS: "1",
    REQUIRED_MFA_POLICY_ENABLED: "on",
    SMTP_URL: smtp,
    MAIL_FROM: from,
    MAIL_ADDRESS: address,
    MAIL_DOMAIN: address.slice(address.indexOf("@") + 1),
    RELAY_HOST: `[${relay.hostname}]:${relay.port || (relay.protocol === "smtps:" ? "465" : "587")}`,
    RELAY_USERNAME: decodeURIComponent(relay.username),
    RELAY_PASSWORD: decodeURIComponent(relay.password),
    // With smtps, TLS begins with the connection. Otherwise a password is sent only after STARTTLS. Either way, the
    // certificate must name the server.
    RELAY_TLS_LEVEL: relay.protocol === "smtps:" || relay.password ? "secure" : "may",
    RELAY_TLS_WRAPPERMODE: relay.protocol === "smtps:" ? "yes" : "no",
    ...passwords,
    // Supabase's command requires TLS unless the address says otherwise.
    SUPABASE_DB_URL: `postgres://postgres:${passwords.DB_OWNER_PASSWORD}@127.0.0.1:5432/postgres?sslmode=disable`,
    AUTH_JWT_SECRET: token(48),
    AUTH_JWT_KEYS: JSON.stringify([{ ...privateJwk, ...facts, key_ops: ["sign", "verify"] }]),
    API_JWT_KEYS: JSON.stringify({ keys: [{ ...publicJwk, ...facts, key_ops: ["verify"] }] }),
    SERVICE_ROLE_TOKEN: serviceRoleToken,
    SUPABASE_PUBLISHABLE_KEY: `sb_publishable_${token(24)}`,
    SUPABASE_SECRET_KEY: `sb_secret_${token(24)}`,
    WEB_MULTI_ACCOUNT_SESSION_SECRET: token(48),
    AUTH_RECOVERY_HASH_SECRET: token(48),
    APP_SESSION_SECRET: token(48),
  };
}

/** Formats settings as an env file that Docker Compose and Node read alike. */
export function formatEnvFile(settings: Record<string, string>): string {
  return Object.entries(settings)
    .map(([name, value]) => {
      if (/['\n]|\\$/.test(value))
        throw new Error(`${name} must not contain a single quote or a line break, or end with a backslash.`);
      return `${name}='${value}'\n`;
    })
    .join("");
}

/** The gateway's model providers, before an operator adds any. */
export const providersExample = `# The gateway's model providers, and its other settings: docs/settings.md
#AI_PROVIDER_OPENAI_KIND=openai
#AI_PROVIDER_OPENAI_API_KEY=
`;

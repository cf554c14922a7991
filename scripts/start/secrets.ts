import { createHmac, randomBytes } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import path from "node:path";
import { codeOf, StackError } from "@gatehousehq/local-stack/errors";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { z } from "zod";

const token = (bytes: number) => randomBytes(bytes).toString("base64url");

const keptKey = z.object({ text: z.string(), lookup: z.string() });

const totp = z.object({ secret: z.string(), factorId: z.string() });

const secretsSchema = z.object({
  passwords: z.object({
    supabase_admin: z.string().min(1),
    postgres: z.string().min(1),
    authenticator: z.string().min(1),
    supabase_auth_admin: z.string().min(1),
    gateway: z.string().min(1),
  }),
  /** Signs the role tokens that replace opaque keys in requests to the identity backend (HS256). */
  jwtSecret: z.string().min(32),
  /** Signs users' tokens: a private ES256 JWK with `kid`. */
  signingKey: z.object({
    kty: z.literal("EC"),
    crv: z.literal("P-256"),
    x: z.string(),
    y: z.string(),
    d: z.string(),
    kid: z.string(),
    alg: z.literal("ES256"),
    use: z.literal("sig"),
    key_ops: z.array(z.string()),
  }),
  publishableKey: z.string().startsWith("sb_publishable_"),
  secretKey: z.string().startsWith("sb_secret_"),
  accountsSecret: z.string().min(32),
  providerKey: z.string().min(1),
  demoPassword: z.string().min(8),
  /** The authenticators of the demo admin and finance person, after the seed has enrolled them. */
  adminTotp: totp.optional(),
  financeTotp: totp.optional(),
  /** The AI gateway keys of the demo's workspace and external app. Absent until the seed has created them. */
  aiKey: keptKey.optional(),
  appKey: keptKey.optional(),
});

/** The text of a key, and the lookup value by which the database finds the key. */
export type KeptKey = z.infer<typeof keptKey>;

export type Secrets = z.infer<typeof secretsSchema>;

const remedy =
  "without it the data next to it cannot be opened.\nPut the file back as it was, or start afresh: npm run reset";

const fileIn = (dataDir: string) => path.join(dataDir, "secrets.json");

async function makeSecrets(): Promise<Secrets> {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const { x = "", y = "", d = "" } = await exportJWK(privateKey);
  return {
    passwords: {
      supabase_admin: token(24),
      postgres: token(24),
      authenticator: token(24),
      supabase_auth_admin: token(24),
      gateway: token(24),
    },
    jwtSecret: token(48),
    signingKey: {
      kty: "EC",
      crv: "P-256",
      x,
      y,
      d,
      kid: token(12),
      alg: "ES256",
      use: "sig",
      key_ops: ["sign", "verify"],
    },
    publishableKey: `sb_publishable_${token(24)}`,
    secretKey: `sb_secret_${token(24)}`,
    accountsSecret: token(48),
    providerKey: token(24),
    demoPassword: `demo-${token(9)}`,
  };
}

/** Saves the secrets in `dataDir/secrets.json` atomically, with mode 0600. */
export function saveSecrets(dataDir: string, secrets: Secrets): void {
  const draft = `${fileIn(dataDir)}.new`;
  writeFileSync(draft, `${JSON.stringify(secrets, null, 2)}\n`, { mode: 0o600, flush: true });
  renameSync(draft, fileIn(dataDir));
}

/**
 * Loads the stack's own secrets, which are generated at the first start and never change.
 * @throws StackError if the file is invalid, or if the file is missing but the cluster that needs its passwords exists
 */
export async function loadSecrets(dataDir: string, { clusterExists }: { clusterExists: boolean }): Promise<Secrets> {
  let text: string;
  try {
    text = readFileSync(fileIn(dataDir), "utf8");
  } catch (error) {
    if (codeOf(error) !== "ENOENT") throw error;
    if (clusterExists) throw new StackError(`${fileIn(dataDir)} is gone, and ${remedy}`);
    const secrets = await makeSecrets();
    saveSecrets(dataDir, secrets);
    return secrets;
  }
  try {
    return secretsSchema.parse(JSON.parse(text));
  } catch {
    throw new StackError(`${fileIn(dataDir)} is damaged, and ${remedy}`);
  }
}

/** Derives the client secret with which the identity backend authenticates to the stack's OpenID provider. */
export function oidcClientSecret({ jwtSecret }: Secrets): string {
  return createHmac("sha256", jwtSecret).update("secret of the OpenID client").digest("base64url");
}

/** Derives the secret that the identity backend sends to the simulated bot challenge service. */
export function turnstileSecret({ jwtSecret }: Secrets): string {
  return createHmac("sha256", jwtSecret).update("secret of the bot challenge").digest("base64url");
}

/** Derives the secret that signs satellites' app sessions. */
export function appSessionSecret({ jwtSecret }: Pick<Secrets, "jwtSecret">): string {
  return createHmac("sha256", jwtSecret).update("secret of app sessions").digest("base64url");
}

/** Derives, from the project's secret key, the secret with which this machine hashes the tokens of recovery emails. */
export function recoveryHashSecret(secretKey: string): string {
  return createHmac("sha256", secretKey).update("secret of recovery").digest("base64url");
}

/** Derives, from the project's secret key, the secret with which a scheduler calls this machine's web server. */
export function scheduleSecret(secretKey: string): string {
  return createHmac("sha256", secretKey).update("secret of the schedule").digest("base64url");
}

/** Derives the secret with which a satellite of the stack authenticates to the platform. */
export function demoAppSecret({ jwtSecret }: Secrets, name: string): string {
  return createHmac("sha256", jwtSecret).update(`secret of the app ${name}`).digest("base64url");
}

/**
 * Creates the token that represents an opaque API key at the identity backend: a token of this role, valid for ten
 * years.
 */
export function mintRoleToken(role: "anon" | "service_role", jwtSecret: string): Promise<string> {
  return new SignJWT({ role })
    .setProtectedHeader({ alg: "HS256", typ: "JWT" })
    .setIssuer("supabase")
    .setIssuedAt()
    .setExpirationTime("10y")
    .sign(new TextEncoder().encode(jwtSecret));
}

import { type ChildProcess, spawn } from "node:child_process";
import path from "node:path";
import { holdFreePort } from "../../ports.ts";
import { providerSettings } from "./oauth-provider.ts";

const startTimeoutMs = 20_000;

/** The services and secrets that the suite's servers share. */
export type Surroundings = {
  authDbUrl: string;
  smtpPort: number;
  jwtSecret: string;
  jwtKeys: string;
  /** The base URL of the simulated identity providers. */
  providerUrl: string;
  /** Environment variables that let a server reach the hosts that are fixed in its code. */
  internet: Record<string, string>;
};

export type RunningServer = { url: string; stop: () => Promise<void> };

/** Returns the settings that the suite expects of a server under test, as Supabase Auth's variables. */
function baseEnvironment(surroundings: Surroundings, port: number) {
  const { authDbUrl, smtpPort, jwtSecret, jwtKeys, providerUrl, internet } = surroundings;
  const url = `http://127.0.0.1:${port}`;
  const code = "{{ .Token }} {{ .TokenHash }}";
  return {
    ...providerSettings(providerUrl),
    ...internet,
    // Makes our server start much faster from the second process on.
    NODE_COMPILE_CACHE: path.resolve(".local/compile-cache"),
    DATABASE_URL: authDbUrl,
    GOTRUE_DB_DRIVER: "postgres",
    DB_NAMESPACE: "auth",
    PORT: String(port),
    GOTRUE_API_HOST: "127.0.0.1",
    API_EXTERNAL_URL: url,
    GOTRUE_SITE_URL: "http://localhost:3000",
    GOTRUE_URI_ALLOW_LIST: "https://app.example.test/**,myapp://*",
    GOTRUE_CORS_ALLOWED_HEADERS: "apikey",
    GOTRUE_JWT_SECRET: jwtSecret,
    GOTRUE_JWT_KEYS: jwtKeys,
    GOTRUE_JWT_AUD: "authenticated",
    GOTRUE_JWT_DEFAULT_GROUP_NAME: "authenticated",
    GOTRUE_JWT_ADMIN_ROLES: "service_role,supabase_admin",
    GOTRUE_JWT_EXP: "3600",
    GOTRUE_JWT_ISSUER: "https://issuer.example.test/auth/v1",
    GOTRUE_MAILER_OTP_EXP: "3600",
    GOTRUE_MAILER_SUBJECTS_CONFIRMATION: code,
    GOTRUE_MAILER_SUBJECTS_RECOVERY: code,
    GOTRUE_MAILER_SUBJECTS_MAGIC_LINK: code,
    GOTRUE_MAILER_SUBJECTS_INVITE: code,
    GOTRUE_MAILER_SUBJECTS_EMAIL_CHANGE: code,
    GOTRUE_MAILER_SUBJECTS_REAUTHENTICATION: "{{ .Token }} -",
    GOTRUE_SMTP_HOST: "127.0.0.1",
    GOTRUE_SMTP_PORT: String(smtpPort),
    GOTRUE_SMTP_ADMIN_EMAIL: "no-reply@example.test",
    GOTRUE_SMTP_SENDER_NAME: "Contract",
    GOTRUE_SMTP_MAX_FREQUENCY: "60s",
    GOTRUE_RATE_LIMIT_EMAIL_SENT: "100000",
    GOTRUE_SECURITY_REFRESH_TOKEN_REUSE_INTERVAL: "10",
    GOTRUE_SECURITY_MANUAL_LINKING_ENABLED: "true",
    GOTRUE_MFA_TOTP_ENROLL_ENABLED: "true",
    GOTRUE_MFA_TOTP_VERIFY_ENABLED: "true",
    GOTRUE_PASSKEY_ENABLED: "true",
    GOTRUE_WEBAUTHN_RP_ID: "localhost",
    GOTRUE_WEBAUTHN_RP_DISPLAY_NAME: "Contract",
    GOTRUE_WEBAUTHN_RP_ORIGINS: "http://localhost:3000",
  };
}

/**
 * Starts a server of the implementation under test: the binary that IDENTITY_BIN names, otherwise ours.
 * @throws Error with its last output if it does not become healthy
 */
export async function startServer(
  surroundings: Surroundings,
  changes: Record<string, string> = {},
): Promise<RunningServer> {
  const heldPort = await holdFreePort();
  const { port } = heldPort;
  // An empty value counts as unset, as in .env.example.
  const binary = process.env.IDENTITY_BIN || undefined;
  const entryPoint = path.resolve(import.meta.dirname, "../../services/identity/main.ts");
  await heldPort.handOver();
  const child = spawn(binary ?? process.execPath, binary ? [] : [entryPoint], {
    stdio: ["ignore", "pipe", "pipe"],
    ...(binary ? { cwd: path.dirname(binary) } : {}),
    env: { NODE_ENV: "test", PATH: process.env.PATH, ...baseEnvironment(surroundings, port), ...changes },
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.on("data", (chunk) => {
      output = (output + chunk).slice(-4_000);
    });
  }
  const url = `http://127.0.0.1:${port}`;
  const healthy = await becomesHealthy(child, url);
  await heldPort.release();
  if (!healthy) {
    await stop(child);
    throw new Error(`The identity server did not become healthy:\n${output}`);
  }
  return { url, stop: () => stop(child) };
}

async function becomesHealthy(child: ChildProcess, url: string): Promise<boolean> {
  for (const deadline = Date.now() + startTimeoutMs; Date.now() < deadline && child.exitCode === null; ) {
    const health = await fetch(`${url}/health`).catch(() => undefined);
    if (health?.ok) return true;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exited = new Promise((resolve) => child.once("exit", resolve));
  child.kill("SIGTERM");
  const forced = setTimeout(() => child.kill("SIGKILL"), 5_000);
  await exited;
  clearTimeout(forced);
}

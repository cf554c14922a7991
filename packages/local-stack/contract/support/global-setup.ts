import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { exportJWK, generateKeyPair, SignJWT } from "jose";
import { MailDev } from "maildev";
import { freePort } from "../../ports.ts";
import { bootstrapCluster, type ClusterPasswords, initialiseCluster } from "../../services/postgres/cluster.ts";
import { placeCluster } from "../../services/postgres/placement.ts";
import { startTemporaryServer } from "../../services/postgres/temporary-server.ts";
import { captchaVerifiers } from "./captcha-verifier.ts";
import { startInternet } from "./internet.ts";
import { startProvider } from "./oauth-provider.ts";
import { type Surroundings, startServer } from "./servers.ts";
import { startVariants } from "./variant-starter.ts";

/**
 * Starts a Postgres, a mailbox and a server for the suite, unless IDENTITY_URL names a running server. Passes their
 * addresses and secrets to the tests in environment variables such as IDENTITY_DB_URL.
 */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env.IDENTITY_URL) return undefined;
  const endings: (() => Promise<unknown>)[] = [];
  const stop = async () => {
    for (const end of endings.reverse()) await end();
  };
  try {
    const database = await startPostgres(endings);
    const mail = await startMail(endings);
    const provider = await startProvider();
    endings.push(provider.stop);
    const internet = await startInternet({ ...provider.hosts, ...captchaVerifiers() });
    endings.push(internet.stop);
    const secret = randomBytes(32).toString("hex");
    const surroundings: Surroundings = {
      authDbUrl: database.authDbUrl,
      smtpPort: mail.smtpPort,
      jwtSecret: secret,
      jwtKeys: JSON.stringify(await makeKeys(secret)),
      providerUrl: provider.url,
      internet: internet.environment,
    };
    const server = await startServer(surroundings);
    endings.push(server.stop);
    const variants = await startVariants(surroundings);
    endings.push(variants.stop);
    Object.assign(process.env, {
      IDENTITY_URL: server.url,
      IDENTITY_SERVICE_KEY: await new SignJWT({ role: "service_role" })
        .setProtectedHeader({ alg: "HS256" })
        .setIssuedAt()
        .setExpirationTime("1d")
        .sign(new TextEncoder().encode(secret)),
      IDENTITY_JWT_SECRET: secret,
      IDENTITY_DB_URL: database.dbUrl,
      IDENTITY_MAIL_URL: mail.url,
      IDENTITY_PROVIDER_URL: provider.url,
      IDENTITY_VARIANTS_URL: variants.url,
    });
    return stop;
  } catch (error) {
    await stop();
    throw error;
  }
}

async function startPostgres(endings: (() => Promise<unknown>)[]) {
  await mkdir(".local", { recursive: true });
  const directory = await mkdtemp(path.resolve(".local/contract-"));
  endings.push(() => rm(directory, { recursive: true, force: true }));
  const dataDir = path.join(directory, "postgres");
  const port = await freePort();
  const password = randomBytes(12).toString("hex");
  const passwords: ClusterPasswords = {
    postgres: password,
    authenticator: password,
    supabase_auth_admin: password,
    supabase_admin: password,
  };
  const placement = await placeCluster(dataDir);
  await initialiseCluster({ dataDir: placement.dataDir, passwords, placement });
  const settings = { max_connections: "300" };
  const server = await startTemporaryServer({ placement, port, passwords, settings });
  endings.push(server.stop);
  await bootstrapCluster({ port, passwords });
  return { dbUrl: server.url("postgres"), authDbUrl: `${server.url("supabase_auth_admin")}?search_path=auth` };
}

async function startMail(endings: (() => Promise<unknown>)[]) {
  const smtpPort = await freePort();
  const webPort = await freePort();
  // MailDev's default directory is shared by everyone on the machine.
  const mailDirectory = await mkdtemp(path.join(tmpdir(), "identity-contract-mail-"));
  const mail = new MailDev({
    mailDirectory,
    smtp: smtpPort,
    web: webPort,
    ip: "127.0.0.1",
    webIp: "127.0.0.1",
    maxEmails: 5_000,
    hideExtensions: ["STARTTLS"],
    silent: true,
  });
  await mail.start();
  endings.push(async () => {
    await mail.stop();
    await rm(mailDirectory, { recursive: true, force: true });
  });
  return { smtpPort, url: `http://127.0.0.1:${webPort}` };
}

async function makeKeys(secret: string) {
  const { privateKey } = await generateKeyPair("ES256", { extractable: true });
  const signing = await exportJWK(privateKey);
  return [
    { ...signing, alg: "ES256", kid: "signing", use: "sig", key_ops: ["sign", "verify"] },
    { kty: "oct", alg: "HS256", kid: "shared", k: Buffer.from(secret).toString("base64url"), key_ops: ["verify"] },
  ];
}

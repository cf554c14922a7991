import type { Env } from "../../remix-app/env.server.ts";
import type { Configuration } from "./configuration.ts";
import { type Finding, fail, unseen } from "./finding.ts";
import { checkMail } from "./mail-check.ts";
import { checkAuthority, checkBackend, checkClock, checkDatabase, checkGateway, checkKeys } from "./project-checks.ts";
import { checkAddresses, checkBoot, checkFeatures, checkFunctions, checkSecrets } from "./settings-checks.ts";

/**
 * Looks at a configuration and at the project that it names, and changes nothing. What needs the project is left out
 * where it does not answer.
 */
export async function examine({ settings, local }: Configuration): Promise<Finding[]> {
  const { env, findings } = checkBoot(settings);
  // A local stack's secrets are its own, and are not in what it tells of itself.
  if (!local) findings.push(...checkSecrets(settings), ...checkFunctions(settings));
  if (!env) return [...findings, unseen("project", "not asked: first mend what keeps the web server from starting")];
  findings.push(...(local ? [] : [...checkAddresses(env), ...checkFeatures(env)]));
  const keys = await checkKeys(env);
  findings.push(...keys);
  if (env.SMTP_URL) findings.push(...(await checkMail(env.SMTP_URL)));
  if (keys.some(({ level }) => level === "fail")) return findings;
  for (const check of projectChecks(env, settings.SUPABASE_DB_URL)) findings.push(...(await check().catch(asFinding)));
  return findings;
}

const projectChecks = (env: Env, dbUrl: string | undefined) => [
  () => checkClock(env),
  () => checkDatabase(env, dbUrl || undefined),
  () => checkAuthority(env),
  () => checkBackend(env),
  () => checkGateway(env),
];

const asFinding = (error: unknown): Finding[] => [
  fail("project", error instanceof Error ? error.message : String(error)),
];

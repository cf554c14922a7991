import { isLoopback } from "#shared/loopback.ts";
import type { Env } from "../../../remix-app/config/env.server.ts";
import { type Provider, readProviders } from "../../../supabase/functions/_gateway/providers/provider-settings.ts";
import { readAuthConfig } from "./auth-config.ts";
import { checkBackendSettings } from "./backend-settings-checks.ts";
import type { Configuration } from "./configuration.ts";
import { checkCron, checkPooler, checkProxyHops, checkSettingNames } from "./deployment-checks.ts";
import { type Finding, fail, unseen } from "./finding.ts";
import { checkKeys } from "./key-checks.ts";
import { checkMail } from "./mail-check.ts";
import { checkNotifications } from "./notification-checks.ts";
import { checkPasswords } from "./password-checks.ts";
import {
  checkAuthority,
  checkBackend,
  checkClock,
  checkDatabase,
  checkGateway,
  checkOpenidClients,
  checkUsageSums,
} from "./project-checks.ts";
import { checkProviders } from "./provider-checks.ts";
import { checkRoutes, groupByProvider, type RoutedModel, readModels } from "./route-checks.ts";
import { checkAddresses, checkBoot, checkFeatures, checkFunctions, checkSecrets } from "./settings-checks.ts";

/**
 * Examines a configuration, its project and its model providers, and changes nothing. If the project does not answer,
 * skips the checks that need it.
 */
export async function examine({ settings, local }: Configuration): Promise<Finding[]> {
  const { env, findings } = checkBoot(settings);
  // A local stack generates its own secrets and does not publish them.
  if (!local) {
    findings.push(...checkSettingNames(settings), ...checkSecrets(settings));
    findings.push(...checkFunctions(settings), ...checkPooler(settings));
  }
  const { providers, faults } = findProviders(settings);
  findings.push(...faults);
  if (!env) {
    findings.push(unseen("project", "not asked: first mend what keeps the web server from starting"));
    return [...findings, ...(await checkModels(providers, undefined))];
  }
  findings.push(...(local ? [] : [...checkAddresses(env), ...checkFeatures(env), ...(await checkProxyHops(env))]));
  const keys = await checkKeys(env);
  findings.push(...keys);
  if (env.SMTP_URL) findings.push(...(await checkMail(env.SMTP_URL)));
  const isOpen = keys.every(({ level }) => level !== "fail");
  if (isOpen)
    for (const check of projectChecks(env, { settings, local })) findings.push(...(await check().catch(asFinding)));
  return [...findings, ...(await checkModels(providers, isOpen ? env : undefined))];
}

const projectChecks = (env: Env, { settings, local }: Pick<Configuration, "settings" | "local">) => [
  () => checkClock(env),
  () =>
    checkDatabase({
      url: env.SUPABASE_URL,
      secretKey: env.SUPABASE_SECRET_KEY,
      dbUrl: settings.SUPABASE_DB_URL || undefined,
    }),
  ...(local ? [] : [() => checkCron(settings.SUPABASE_DB_URL || undefined, env)]),
  () => checkAuthority(env),
  () => checkUsageSums(env),
  // A local stack generates its own app session secret, so the secret is not among these settings.
  ...(local ? [] : [() => checkOpenidClients(env)]),
  () => checkBackend(env),
  async () => {
    const config = await readAuthConfig({ settings: { ...settings, SUPABASE_URL: env.SUPABASE_URL }, local });
    return [checkNotifications(config), ...checkPasswords(config), ...checkBackendSettings(config)];
  },
  () => checkGateway(env),
];

const messageOf = (error: unknown) => (error instanceof Error ? error.message : String(error));
const asFinding = (error: unknown): Finding[] => [fail("project", messageOf(error))];

type Providers = ReadonlyMap<string, Provider> | undefined;

/**
 * Reads the model providers from the functions' settings. `providers` is undefined if these settings are missing or
 * invalid.
 */
function findProviders(settings: Configuration["settings"]): { providers: Providers; faults: Finding[] } {
  if (!Object.entries(settings).some(([name, value]) => value && name.startsWith("AI_PROVIDER_"))) {
    const advice = "name their file too, as in npm run doctor -- --env .env --env supabase/functions/.env";
    return {
      providers: undefined,
      faults: [unseen("AI providers", `not asked: the functions' AI_PROVIDER_ settings are not here; ${advice}`)],
    };
  }
  const { SUPABASE_URL: url = "" } = settings;
  try {
    const local = URL.canParse(url) && isLoopback(new URL(url).hostname);
    return { providers: readProviders(settings, { local }), faults: [] };
  } catch (error) {
    // If GATEWAY_DB_URL is set, checkFunctions reports this error.
    const faults = settings.GATEWAY_DB_URL ? [] : [fail("functions", messageOf(error))];
    return {
      providers: undefined,
      faults: [...faults, unseen("AI providers", "not asked: first correct their settings")],
    };
  }
}

/** @param env the environment, or undefined if the environment is invalid or checkKeys reports a failure */
async function checkModels(providers: Providers, env: Env | undefined): Promise<Finding[]> {
  const findings: Finding[] = [];
  let models: RoutedModel[] | undefined;
  try {
    models = env && (await readModels(env));
  } catch (error) {
    findings.push(fail("models", messageOf(error)));
  }
  if (providers) findings.push(...(await checkProviders(providers, models && groupByProvider(models, providers))));
  return [...findings, ...(models ? checkRoutes(models, providers) : [])];
}

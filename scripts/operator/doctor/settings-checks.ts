import { getDomain, getPublicSuffix } from "tldts";
import { isLoopback } from "#shared/loopback.ts";
import { type Env, parseEnv } from "../../../remix-app/config/env.server.ts";
import { readEnvironment } from "../../../supabase/functions/_gateway/environment.ts";
import { type Finding, fail, ok, warn } from "./finding.ts";

type Settings = Record<string, string | undefined>;

const ourSecrets = [
  "WEB_MULTI_ACCOUNT_SESSION_SECRET",
  "AUTH_RECOVERY_HASH_SECRET",
  "APP_SESSION_SECRET",
  "SCHEDULE_SECRET",
] as const;
const previousSecrets = ["WEB_MULTI_ACCOUNT_PREVIOUS_SECRETS", "APP_SESSION_PREVIOUS_SECRETS"] as const;
const projectKeys = ["SUPABASE_SECRET_KEY", "SUPABASE_SERVICE_ROLE_KEY", "SUPABASE_SERVICE_KEY"] as const;
/** A random secret of 32 characters has fewer distinct characters only once in a million cases. */
const fewestDistinctCharacters = 10;

/** Checks whether the web server would start with these settings, and returns its parsed environment. */
export function checkBoot(settings: Settings): { env: Env | undefined; findings: Finding[] } {
  try {
    return { env: parseEnv(settings), findings: [ok("settings", "the web server starts with them")] };
  } catch (error) {
    const lines = (error instanceof Error ? error.message : String(error)).split("\n");
    return { env: undefined, findings: lines.map((line) => fail("settings", line)) };
  }
}

/**
 * Finds weak, shared and missing secrets. Takes the settings unparsed, so that it works even if the server would not
 * start.
 */
export function checkSecrets(settings: Settings): Finding[] {
  const given = [...ourSecrets, ...projectKeys].flatMap((name) => {
    const value = settings[name];
    return value ? [{ name, value }] : [];
  });
  // A previous secret may equal the project's key. Only secrets in use are compared with each other.
  const before = previousSecrets.flatMap(
    (name) =>
      (settings[name] || undefined)
        ?.split(",")
        .map((entry) => ({ name: `an entry of ${name}`, value: entry.trim() })) ?? [],
  );
  const findings: Finding[] = [];
  for (const { name, value } of [...given, ...before]) {
    if (value.startsWith("example-only-"))
      findings.push(fail("secrets", `${name} holds the example's value: make one with \`openssl rand -base64 32\`.`));
    else if (!isProjectKey(name) && new Set(value).size < fewestDistinctCharacters)
      findings.push(
        fail(
          "secrets",
          `${name} can be guessed, it repeats few characters: make one with \`openssl rand -base64 32\`.`,
        ),
      );
  }
  for (const [index, { name, value }] of given.entries()) {
    const twin = given
      .slice(index + 1)
      .find((other) => other.value === value && !(isProjectKey(name) && isProjectKey(other.name)));
    if (twin)
      findings.push(
        fail("secrets", `${name} and ${twin.name} are the same secret: a leak of one exposes both. Give each its own.`),
      );
  }
  if (!settings.WEB_MULTI_ACCOUNT_SESSION_SECRET) {
    findings.push(
      warn(
        "secrets",
        "WEB_MULTI_ACCOUNT_SESSION_SECRET is not set: the project's key seals the vault, and rotating that key signs everybody out.",
      ),
    );
  }
  if (!settings.APP_SESSION_SECRET) {
    findings.push(warn("secrets", "APP_SESSION_SECRET is not set: handing people over to apps answers 503."));
  }
  return findings.some(({ level }) => level === "fail")
    ? findings
    : [ok("secrets", "none is weak, shared or the example's"), ...findings];
}

const isProjectKey = (name: string) => (projectKeys as readonly string[]).includes(name);

/** Checks the configured addresses, cookies and proxies. */
export function checkAddresses(env: Env): Finding[] {
  const { protocol, hostname } = new URL(env.BASE_URL);
  const production = env.NODE_ENV === "production";
  const findings: Finding[] = [];
  if (!production && !isLoopback(hostname)) {
    findings.push(warn("address", `NODE_ENV is ${env.NODE_ENV}, and BASE_URL is ${env.BASE_URL}: set production.`));
  }
  if (production && protocol !== "https:") {
    findings.push(
      isLoopback(hostname)
        ? warn("address", `BASE_URL is ${env.BASE_URL}: for a rehearsal. Only browsers of this machine get there.`)
        : fail(
            "address",
            `BASE_URL is ${env.BASE_URL}: without https cookies are not Secure, and passkeys do not work.`,
          ),
    );
  }
  if (production) findings.push(...checkTransport(env));
  if (production && env.TRUSTED_PROXY_HOPS === 0) {
    findings.push(
      warn(
        "address",
        "TRUSTED_PROXY_HOPS is 0: behind a proxy, every visitor has the proxy's address and shares its limits. Set it to the number of your proxies.",
      ),
    );
  }
  findings.push(...checkCookieDomain(env));
  return findings.some(({ level }) => level === "fail") ? findings : [ok("address", env.BASE_URL), ...findings];
}

/** Finds addresses to which this machine, or people's browsers, would connect without TLS. */
function checkTransport({ SUPABASE_URL, AI_URL, WEB_ALLOWED_ORIGINS = [], TURNSTILE_ORIGIN }: Env): Finding[] {
  const addresses = [
    ["SUPABASE_URL", SUPABASE_URL, "sessions and keys would travel in the clear"],
    // If AI_URL is below SUPABASE_URL, the finding about SUPABASE_URL covers both.
    ...(AI_URL.startsWith(`${SUPABASE_URL}/`)
      ? []
      : [["AI_URL", AI_URL, "the project's secret key would travel in the clear"] as const]),
    ...WEB_ALLOWED_ORIGINS.map(
      (each) => ["WEB_ALLOWED_ORIGINS", each, `${each} would get sessions in the clear`] as const,
    ),
    [
      "TURNSTILE_ORIGIN",
      TURNSTILE_ORIGIN,
      "its script would come in the clear, and anybody on the way could change it",
    ],
  ] as const;
  return addresses.flatMap(([name, address, says]) => {
    const { protocol, hostname } = new URL(address);
    return protocol === "https:" || isLoopback(hostname) ? [] : [fail("address", `${name} is not https: ${says}.`)];
  });
}

function checkCookieDomain({ PARENT_DOMAIN: parent, NODE_ENV, BASE_URL, WEB_ALLOWED_ORIGINS = [] }: Env): Finding[] {
  const hosts = [BASE_URL, ...WEB_ALLOWED_ORIGINS].map((each) => new URL(each).hostname);
  if (parent === undefined) {
    const domain = getDomain(hosts[0] ?? "", { allowPrivateDomains: true });
    const alone = `for ${hosts.join(", ")} alone`;
    if (NODE_ENV !== "production" || domain === null) return [ok("cookies", alone)];
    const says = `${alone}: PARENT_DOMAIN is not set, so apps on other hosts of ${domain} do not share the session. Set it to ${domain} in the web server's settings, if all of them are yours.`;
    return [warn("cookies", says)];
  }
  if (getPublicSuffix(parent, { allowPrivateDomains: true }) === parent) {
    return [
      fail(
        "cookies",
        `PARENT_DOMAIN is ${parent}, under which strangers register their hosts: browsers refuse such cookies.`,
      ),
    ];
  }
  const outside = hosts.filter((host) => host !== parent && !host.endsWith(`.${parent}`));
  if (outside.length > 0) {
    const says = `PARENT_DOMAIN is ${parent}, and ${outside.join(", ")} is not under it: it takes no effect there. Correct one of the two.`;
    return [(outside.length === hosts.length ? fail : warn)("cookies", says)];
  }
  const shared = `shared by every host under ${parent}`;
  return [NODE_ENV === "production" ? warn("cookies", `${shared}: each of them must be yours`) : ok("cookies", shared)];
}

/** Checks settings that only work together. */
export function checkFeatures(env: Env): Finding[] {
  const mail = env.SMTP_URL
    ? []
    : [warn("mail", "SMTP_URL is not set: notices of changes, invitations and warnings about budgets are not sent.")];
  const policy = env.REQUIRED_MFA_POLICY_ENABLED
    ? []
    : [
        warn(
          "required MFA",
          "REQUIRED_MFA_POLICY_ENABLED is off: what is required stays enforced, and admins cannot change it.",
        ),
      ];
  return [...mail, ...checkBypass(env), ...policy];
}

function checkBypass(env: Env): Finding[] {
  if (env.E2E_BOT_CHALLENGE_BYPASS !== "on") return [];
  const takesEffect = env.NODE_ENV === "production" && isLoopback(new URL(env.SUPABASE_URL).hostname);
  return [
    takesEffect
      ? fail(
          "bot challenge",
          "E2E_BOT_CHALLENGE_BYPASS is on, and the backend is on this machine: no bot challenge is shown. Take it out.",
        )
      : warn(
          "bot challenge",
          "E2E_BOT_CHALLENGE_BYPASS is on: it is for browser tests, and works with a backend on this machine alone.",
        ),
  ];
}

/** Counts traffic on this machine as encrypted, since it needs no TLS. */
function isEncrypted(address: string): boolean {
  const { protocol, hostname } = new URL(address);
  return protocol === "https:" || isLoopback(hostname);
}

/**
 * Checks the functions' settings. Returns no findings if GATEWAY_DB_URL is missing, because `settings` then does not
 * contain the functions' settings.
 */
export function checkFunctions(settings: Settings): Finding[] {
  if (!settings.GATEWAY_DB_URL) return [];
  try {
    const { databaseUrl, providers } = readEnvironment(settings);
    const { username } = new URL(databaseUrl);
    if (!/^gateway(\.|$)/.test(username)) {
      return [
        fail(
          "functions",
          `GATEWAY_DB_URL logs in as ${username}: use role gateway, which may execute named functions alone.`,
        ),
      ];
    }
    if (providers.size === 0)
      return [warn("functions", "no provider is set, by AI_PROVIDER_<ID>_KIND or _BASE_URL: every model is refused.")];
    const named = [...providers].map(([id, { kind }]) => (id === kind.name ? id : `${id} (${kind.name})`));
    const inTheClear = [...providers].filter(([, { baseUrl }]) => !isEncrypted(baseUrl)).map(([id]) => id);
    return [
      ok("functions", `role gateway; providers ${named.join(", ")}`),
      ...inTheClear.map((id) =>
        warn("functions", `provider ${id} is reached without TLS: its key and all prompts travel in the clear.`),
      ),
    ];
  } catch (error) {
    return [fail("functions", error instanceof Error ? error.message : String(error))];
  }
}

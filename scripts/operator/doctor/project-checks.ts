import { z } from "zod";
import { createAiKey } from "#shared/ai-key.ts";
import type { Env } from "../../../remix-app/config/env.server.ts";
import { isTenantAddress } from "../../../remix-app/config/oauth-providers.ts";
import { findPasskeyFaults } from "../../../remix-app/passkeys/boot-check.ts";
import { createServiceClient } from "../../../remix-app/supabase/data-api.ts";
import { describeAuthTriggers } from "../../database/contents/auth-triggers.ts";
import { readCheckout } from "../../database/contents/checkout.ts";
import { compareContents } from "../../database/contents/differences.ts";
import { type Project, readContents } from "../../database/contents/read-contents.ts";
import { type Finding, fail, ok, unseen, warn } from "./finding.ts";

const askLimitMs = 10_000;
/** Sums of runs usually end about a minute ago. */
const maxSumsAgeMs = 10 * 60_000;
/**
 * Limits for the difference between our clock and the project's. The web server uses our clock to decide when a token
 * has expired and when to refresh a session (90 s before its token expires).
 */
const skew = { warnMs: 5_000, failMs: 30_000 };

const backendSettings = z.looseObject({
  external: z.record(z.string(), z.boolean()),
  disable_signup: z.boolean().optional(),
});
const keySet = z.object({ keys: z.array(z.looseObject({ kty: z.string() })) });
/**
 * The codes that the backend itself returns for a sign-in that cannot succeed. A rate limit or proxy returns others.
 */
const verdict = z.object({ error_code: z.enum(["captcha_failed", "invalid_credentials", "email_provider_disabled"]) });
const refused = z.object({ error: z.object({ code: z.string() }) });
const progress = z.array(z.object({ summed_until: z.string() }));
const consolePeople = z.array(z.object({ role: z.string(), hasAuthenticator: z.boolean() }));

/**
 * Measures how far our clock is from the project's. Uses the Date header of responses, which has whole seconds (RFC
 * 9110 section 6.6.1).
 */
export async function checkClock(env: Env, now: () => number = Date.now): Promise<Finding[]> {
  const began = now();
  const answer = await ask(`${env.SUPABASE_URL}/auth/v1/settings`, env.SUPABASE_PUBLISHABLE_KEY);
  const theirs = Date.parse(answer?.headers.get("date") ?? "");
  if (Number.isNaN(theirs)) return [unseen("clock", "the project's answers carry no Date")];
  return [judgeSkew((began + now()) / 2 - (theirs + 500))];
}

/** @param skewMs our clock minus the project's */
export function judgeSkew(skewMs: number): Finding {
  const size = Math.abs(skewMs);
  const says = `this machine's clock is ${(size / 1000).toFixed(1)} s ${skewMs < 0 ? "behind" : "ahead of"} the project's`;
  if (size < skew.warnMs) return ok("clock", "agrees with the project's");
  return (size < skew.failMs ? warn : fail)("clock", `${says}: sessions end early or late. Keep it by NTP.`);
}

/**
 * Compares the project's database with the objects that this checkout's migrations create, including the triggers on
 * auth's tables.
 */
export async function checkDatabase(project: Project): Promise<Finding[]> {
  const contents = await readContents(project);
  const checkout = await readCheckout(process.cwd(), contents);
  const differences = compareContents(contents, checkout);
  const compared =
    differences.length === 0
      ? [ok("database", "it holds what this checkout's migrations make")]
      : differences.map(({ level, says, advice }) => ({ level, about: "database", says: `${says}. ${advice}` }));
  const triggers = describeAuthTriggers(contents, checkout.changes);
  return [...compared, ...triggers.map(({ level, says }) => ({ level, about: "auth triggers", says }))];
}

/** Checks that the database enforces required MFA and that the console has an admin. */
export async function checkAuthority(env: Env): Promise<Finding[]> {
  const database = createServiceClient(env, { timeoutMs: askLimitMs });
  const [version, listed] = await Promise.all([
    database.rpc("required_mfa_enforcement_version"),
    database.schema("private").rpc("list_console_people"),
  ]);
  const enforced =
    version.data === 1
      ? ok("required MFA", "the database enforces it (version 1)")
      : fail(
          "required MFA",
          "the database does not enforce it: a trigger, a policy or a privilege is missing. Apply the migrations; then read supabase/migrations/20260923130000_required_account_mfa.sql.",
        );
  const known = consolePeople.safeParse(listed.data);
  if (!known.success) return [enforced, fail("admins", "they cannot be read: apply the migrations.")];
  const admins = known.data.filter(({ role }) => role === "admin");
  const able = admins.filter(({ hasAuthenticator }) => hasAuthenticator).length;
  if (able > 0) return [enforced, ok("admins", `${able} can use the console`)];
  const advice =
    admins.length > 0
      ? "no admin has an authenticator. Add one at /mfa/enroll."
      : "there is no admin. Add one with npm run gatehouse -- admin grant <email>";
  return [enforced, warn("admins", `no account can use the console: ${advice}`)];
}

/** Checks that the secret required by OpenID Connect is set if a client is registered. */
export async function checkOpenidClients(env: Env): Promise<Finding[]> {
  const database = createServiceClient(env, { timeoutMs: askLimitMs });
  const { data } = await database.schema("private").rpc("list_openid_clients", { page_size: 1 });
  const known = z.array(z.unknown()).safeParse(data);
  if (!known.success) return [fail("OpenID clients", "they cannot be read: apply the migrations.")];
  return judgeOpenidClients({ registered: known.data.length > 0, secretIsSet: env.APP_SESSION_SECRET !== undefined });
}

/** @returns nothing if no client is registered */
export function judgeOpenidClients(facts: { registered: boolean; secretIsSet: boolean }): Finding[] {
  if (!facts.registered) return [];
  return [
    facts.secretIsSet
      ? ok("OpenID clients", "APP_SESSION_SECRET, which seals the signing keys, is set")
      : fail(
          "OpenID clients",
          "a client is registered and APP_SESSION_SECRET is not set: tokens can't be signed, so people can't sign in to it. Set it to the output of `openssl rand -base64 32`.",
        ),
  ];
}

/** Checks that runs are being summed for reports. */
export async function checkUsageSums(env: Env, now: () => number = Date.now): Promise<Finding[]> {
  const database = createServiceClient(env, { timeoutMs: askLimitMs }).schema("ai");
  const { data } = await database.from("usage_progress").select("summed_until");
  const known = progress.safeParse(data);
  if (!known.success) return [fail("usage sums", "they cannot be read: apply the migrations.")];
  return [judgeUsageSums(known.data[0] && now() - Date.parse(known.data[0].summed_until))];
}

/** @param ageMs the time since the last summed run; NaN for sums that are built again, undefined if there are none */
export function judgeUsageSums(ageMs: number | undefined): Finding {
  const advice =
    "Until they are current, reports are correct but slower. Look for errors of the job gateway-roll-up-usage or of the web servers' task roll-up-usage, and for a transaction that has been open for long.";
  if (ageMs === undefined || Number.isNaN(ageMs)) return warn("usage sums", `no runs are summed yet. ${advice}`);
  if (ageMs < 0) return warn("usage sums", `they end in the future: the database's clock was set back. ${advice}`);
  const minutes = Math.floor(ageMs / 60_000);
  if (ageMs > maxSumsAgeMs)
    return warn("usage sums", `they end ${minutes.toLocaleString("en")} minutes ago. ${advice}`);
  return ok("usage sums", `they end ${minutes} min ${Math.floor((ageMs % 60_000) / 1_000)} s ago`);
}

/** Compares the identity backend's published settings with ours. */
export async function checkBackend(env: Env): Promise<Finding[]> {
  const answer = await ask(`${env.SUPABASE_URL}/auth/v1/settings`, env.SUPABASE_PUBLISHABLE_KEY);
  const settings = backendSettings.safeParse(await answer?.json().catch(() => undefined));
  const findings: Finding[] = [];
  if (settings.success) {
    const off = env.OAUTH_PROVIDERS.filter((name) => settings.data.external[name] !== true);
    if (off.length > 0)
      findings.push(fail("providers", `${off.join(", ")} in OAUTH_PROVIDERS, and off at the identity backend.`));
    else if (env.OAUTH_PROVIDERS.length > 0)
      findings.push(ok("providers", `${env.OAUTH_PROVIDERS.join(", ")}: on at the backend`));
    if (env.OAUTH_PROVIDERS.includes("azure") && settings.data.external.azure) findings.push(await checkTenant(env));
    if (settings.data.disable_signup) findings.push(warn("sign-up", "sign-up is disabled at the identity backend."));
  }
  const keys = await ask(`${env.SUPABASE_URL}/auth/v1/.well-known/jwks.json`, env.SUPABASE_PUBLISHABLE_KEY);
  findings.push(...judgeKeySet(await keys?.json().catch(() => undefined)));
  findings.push(...judgePasskeys(await findPasskeyFaults(env)));
  findings.push(await checkBotChallenge(env));
  findings.push(
    unseen("mail texts", "templates and SMTP of the backend are not shown by it: docs/deploying.md lists them"),
  );
  return findings;
}

/** @param published the backend's key set, which includes standby keys; undefined if the response is not JSON */
export function judgeKeySet(published: unknown): Finding[] {
  const keys = keySet.safeParse(published);
  if (!keys.success) {
    return [
      fail(
        "tokens",
        "the backend's key set (/auth/v1/.well-known/jwks.json) cannot be read, so every request has to ask the backend. Check what answers there, and any proxy in front of it.",
      ),
    ];
  }
  if (!keys.data.keys.some(({ kty }) => kty === "EC")) {
    return [
      fail(
        "tokens",
        "the backend has no asymmetric signing key: every request would have to ask it. Rotate to ES256 (Dashboard, JWT keys).",
      ),
    ];
  }
  return [
    ok("tokens", "the key set has an elliptic-curve key"),
    unseen(
      "tokens",
      "the key set does not say which key signs: it must be the ES256 one, since others' tokens are refused",
    ),
  ];
}

/** @param faults undefined if the relying party could not be read from the backend */
export function judgePasskeys(faults: string[] | undefined): Finding[] {
  if (faults === undefined)
    return [
      unseen(
        "passkeys",
        "the backend does not show the relying party of its passkeys: it requires a bot challenge, or fails",
      ),
    ];
  if (faults.length === 0) return [ok("passkeys", "the relying party is this site's")];
  return faults.map((fault) => fail("passkeys", fault));
}

/** Checks that the backend sends Microsoft sign-ins to the tenant in MICROSOFT_TENANT. */
async function checkTenant(env: Env): Promise<Finding> {
  const url = `${env.SUPABASE_URL}/auth/v1/authorize?provider=azure&redirect_to=${encodeURIComponent(env.BASE_URL)}`;
  const answer = await fetch(url, { redirect: "manual", signal: AbortSignal.timeout(askLimitMs) }).catch(() => null);
  const leadsTo = answer?.headers.get("location");
  if (!leadsTo) return unseen("Microsoft", "the backend does not say where it sends people");
  if (await isTenantAddress(leadsTo, env))
    return ok("Microsoft", `accounts of tenant ${env.MICROSOFT_TENANT} alone, here and at the backend`);
  const { origin, pathname } = new URL(leadsTo);
  return fail(
    "Microsoft",
    `the backend sends people to ${origin}/${pathname.split("/")[1]}, and MICROSOFT_TENANT is ${env.MICROSOFT_TENANT}: each such sign-in is refused. Give the backend's URL for azure that tenant.`,
  );
}

/** Attempts a sign-in that cannot succeed, to find out whether the backend requires a bot challenge. */
async function checkBotChallenge(env: Env): Promise<Finding> {
  const response = await fetch(`${env.SUPABASE_URL}/auth/v1/token?grant_type=password`, {
    method: "POST",
    headers: { apikey: env.SUPABASE_PUBLISHABLE_KEY, "content-type": "application/json" },
    body: JSON.stringify({ email: "doctor@gatehouse.invalid", password: "no account has this" }),
    signal: AbortSignal.timeout(askLimitMs),
  }).catch(() => null);
  return judgeBotChallenge({
    here: env.TURNSTILE_SITE_KEY !== undefined,
    there: asksForChallenge(await response?.json().catch(() => null)),
  });
}

/**
 * Reports whether the backend requires a bot challenge, which it checks before anything else in a sign-in.
 * @returns undefined if the response came from elsewhere, such as a rate limit, a fault or a proxy
 */
export function asksForChallenge(answer: unknown): boolean | undefined {
  const judged = verdict.safeParse(answer);
  return judged.success ? judged.data.error_code === "captcha_failed" : undefined;
}

/** @param sides whether our pages show a bot challenge, and whether the backend requires one */
export function judgeBotChallenge({ here, there }: { here: boolean; there: boolean | undefined }): Finding {
  if (there === undefined)
    return unseen("bot challenge", "the backend did not say whether it asks for one: try again in a few minutes");
  if (here && there) return ok("bot challenge", "shown here, checked by the backend");
  if (here)
    return fail("bot challenge", "TURNSTILE_SITE_KEY is set, and the backend checks nothing: set its captcha secret.");
  if (there)
    return fail(
      "bot challenge",
      "the backend asks for one, and TURNSTILE_SITE_KEY is not set: every sign-in is refused.",
    );
  return warn(
    "bot challenge",
    "none: plans without attempt hooks leave direct guessing to the backend's own limits (docs/abuse.md).",
  );
}

/**
 * Checks that the functions are deployed and reach their database. Sends a key that does not exist but is well-formed,
 * since malformed keys are refused without a database query. It also checks which component refused the key, since the
 * platform's own token check returns 401 too.
 */
export async function checkGateway(env: Env): Promise<Finding[]> {
  const { text } = await createAiKey();
  const url = `${env.AI_URL}/v1/models`;
  const answer = await ask(url, env.SUPABASE_PUBLISHABLE_KEY, { authorization: `Bearer ${text}` });
  if (answer === null)
    return [fail("gateway", `${env.AI_URL} does not answer: deploy the functions, or correct AI_URL.`)];
  const refusal = refused.safeParse(await answer.json().catch(() => undefined));
  if (refusal.data?.error.code === "invalid_api_key")
    return [ok("gateway", `${env.AI_URL}/v1 answers, and knows keys from the database`)];
  if (answer.status === 503)
    return [fail("gateway", "the functions do not reach their database: set GATEWAY_DB_URL, and the role's password.")];
  return [
    fail("gateway", `${url} answered ${answer.status} to an unknown key: deploy the functions with verify_jwt off.`),
  ];
}

async function ask(url: string, apikey: string, headers: Record<string, string> = {}): Promise<Response | null> {
  return fetch(url, { headers: { apikey, ...headers }, signal: AbortSignal.timeout(askLimitMs) }).catch(() => null);
}

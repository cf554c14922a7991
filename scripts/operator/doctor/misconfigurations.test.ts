import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, expect, test } from "vitest";
import { type Env, parseEnv } from "../../../remix-app/config/env.server.ts";
import { listMigrations } from "../../database/migrations.ts";
import { readAuthConfig } from "./auth-config.ts";
import { checkBackendSettings, judgeMailInterval } from "./backend-settings-checks.ts";
import { checkPooler, checkProxyHops, checkSettingNames, judgeCron, judgeScheduler } from "./deployment-checks.ts";
import type { Finding } from "./finding.ts";
import { checkKeys, kindOfKey } from "./key-checks.ts";
import { checkNotifications } from "./notification-checks.ts";
import { checkDatabase } from "./project-checks.ts";
import { checkAddresses } from "./settings-checks.ts";

let server: Server | undefined;
afterEach(() => {
  server?.close();
});

/** Starts a server with a fixed response for each path. @returns its origin */
async function answering(answers: Record<string, [status: number, body: unknown]>): Promise<string> {
  server = createServer((request, response) => {
    const [status, body] = answers[(request.url ?? "").split("?")[0] ?? ""] ?? [404, { message: "no Route matched" }];
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

const legacyKey = (role: string) =>
  `eyJhbGciOiJIUzI1NiJ9.${Buffer.from(JSON.stringify({ iss: "supabase", ref: "abcdefghijklmnopqrst", role })).toString("base64url")}.c2ln`;
const complete = {
  NODE_ENV: "production",
  BASE_URL: "https://app.example.com",
  SUPABASE_URL: "https://abcdefghijklmnopqrst.supabase.co",
  SUPABASE_PUBLISHABLE_KEY: "sb_publishable_abc",
  SUPABASE_SECRET_KEY: "sb_secret_0123456789abcdef",
  AUTH_RECOVERY_HASH_SECRET: "bAbCdEfGhIjKlMnOpQrStUvWxYz0123456789",
  SUPABASE_ACCESS_TOKEN: "sbp_0123456789abcdef0123456789abcdef01234567",
  TRUSTED_PROXY_HOPS: "1",
};
const envOf = (change: Record<string, string>): Env => parseEnv({ ...complete, ...change });

/** Part of GET /v1/projects/{ref}/config/auth (supabase.com/docs/reference/api/v1-get-auth-service-config). */
const authConfig = {
  smtp_max_frequency: 180,
  hook_password_verification_attempt_enabled: true,
  hook_password_verification_attempt_uri: "pg-functions://postgres/private/password_verification_attempt",
  hook_mfa_verification_attempt_enabled: true,
  hook_mfa_verification_attempt_uri: "pg-functions://postgres/private/mfa_verification_attempt",
  mailer_notifications_password_changed_enabled: false,
  mailer_notifications_email_changed_enabled: null,
  mailer_notifications_phone_changed_enabled: null,
  mailer_notifications_identity_linked_enabled: null,
  mailer_notifications_identity_unlinked_enabled: null,
  mailer_notifications_mfa_factor_enrolled_enabled: null,
  mailer_notifications_mfa_factor_unenrolled_enabled: null,
};
const managed = (change: object) =>
  answering({ "/v1/projects/abcdefghijklmnopqrst/config/auth": [200, { ...authConfig, ...change }] });
const checkBackend = async (settings: Record<string, string>, api?: string) =>
  checkBackendSettings(await readAuthConfig({ settings, local: false }, api));
const backend = async (change: object) => checkBackend(complete, await managed(change));

/** Serves a result of private.describe_database() as the Data API does. */
const database = async (contents: object) => {
  const url = await answering({ "/rest/v1/rpc/describe_database": [200, contents] });
  return checkDatabase({ url, secretKey: "sb_secret_1", dbUrl: undefined });
};
const migrationsOf = async () => (await listMigrations("supabase/migrations")).map(({ version }) => version);

type Row = [name: string, examine: () => Promise<Finding[]> | Finding[], level: Finding["level"], says: RegExp];

test.each<Row>([
  [
    "a key of the wrong kind",
    () => checkKeys(envOf({ SUPABASE_PUBLISHABLE_KEY: "sb_secret_0123456789abcdef" })),
    "fail",
    /^SUPABASE_PUBLISHABLE_KEY holds a secret key, which phones must never hold: .*Dashboard, Settings, API Keys/,
  ],
  [
    "disabled legacy keys",
    async () => {
      const refusal = {
        message: "Legacy API keys are disabled",
        hint: "Your legacy API keys (anon, service_role) were disabled on 2026-10-01T00:00:00.000000+00:00. Re-enable them in the Supabase dashboard, or use the new publishable and secret API keys.",
      };
      const url = await answering({ "/auth/v1/settings": [401, refusal] });
      return checkKeys(envOf({ SUPABASE_URL: url, SUPABASE_PUBLISHABLE_KEY: legacyKey("anon") }));
    },
    "fail",
    /^the project's legacy API keys are disabled, and SUPABASE_PUBLISHABLE_KEY is one: .*Dashboard, Settings, API Keys/,
  ],
  [
    "a pooler in session mode",
    () =>
      checkPooler({
        GATEWAY_DB_URL:
          "postgres://gateway.abcdefghijklmnopqrst:p@aws-0-eu-central-1.pooler.supabase.com:5432/postgres",
      }),
    "warn",
    /^GATEWAY_DB_URL reaches the pooler in session mode \(port 5432\): .*port 6543/,
  ],
  [
    "too many proxy hops",
    async () => {
      const url = await answering({ "/healthz": [200, { status: "ok", app: "web", forwarded: 1 }] });
      return checkProxyHops(envOf({ BASE_URL: url, TRUSTED_PROXY_HOPS: "2" }));
    },
    "fail",
    /^TRUSTED_PROXY_HOPS is 2, and a request of ours came through 1: callers choose their own address.*Set it to 1/,
  ],
  [
    "a missing parent domain",
    () => checkAddresses(envOf({})),
    "warn",
    /PARENT_DOMAIN is not set, .* of example\.com .* Set it to example\.com/,
  ],
  [
    "one email per second",
    () => backend({ smtp_max_frequency: 1 }),
    "fail",
    /^the backend sends a mail to one address every 1 s: .*Set 180 s \(Dashboard, Authentication, Emails/,
  ],
  [
    "a missing pg_cron extension",
    () => [judgeCron({ installed: false, jobs: 0 })],
    "warn",
    /^pg_cron is not enabled: .*Dashboard, Integrations, Cron/,
  ],
  [
    "a schedule that nothing runs",
    () => judgeScheduler({ schedulers: 0 }, { SCHEDULE_LOOP: false }),
    "warn",
    /^SCHEDULE_LOOP is off, and no job of pg_cron calls POST \/api\/v1\/schedule/,
  ],
  [
    "Postgres 15",
    async () => database({ postgres: 150_008, migrations: await migrationsOf() }),
    "fail",
    /Postgres 15 is below 17.*[Uu]pgrade/,
  ],
  [
    "a missing auth hook",
    () => backend({ hook_mfa_verification_attempt_enabled: false }),
    "warn",
    /^the hook for a MFA verification attempt is off: .*pg-functions:.*Dashboard, Authentication, Auth Hooks/,
  ],
  [
    "notification emails that are enabled",
    async () => {
      const api = await managed({ mailer_notifications_password_changed_enabled: true });
      return [checkNotifications(await readAuthConfig({ settings: complete, local: false }, api))];
    },
    "fail",
    /password_changed: owners get two mails.*Dashboard, Authentication, Emails/,
  ],
  [
    "an outdated database",
    async () => database({ postgres: 170_006, migrations: (await migrationsOf()).slice(0, 2) }),
    "fail",
    /older.*db push/s,
  ],
  [
    "a misspelt setting",
    () => checkSettingNames({ TRUSTED_PROXY_HOP: "1" }),
    "fail",
    /^TRUSTED_PROXY_HOP is not a setting and has no effect: did you mean TRUSTED_PROXY_HOPS\?/,
  ],
])("the doctor reports %s and says where to correct it", async (_, examine, level, says) => {
  const findings = await examine();
  expect(findings).toContainEqual(expect.objectContaining({ level, says: expect.stringMatching(says) }));
  expect(findings.map((finding) => finding.says).join()).not.toContain(complete.SUPABASE_ACCESS_TOKEN);
});

test("the doctor finds nothing wrong with a correctly configured hosted project", async () => {
  expect((await backend({})).map(({ level }) => level)).toEqual(["ok", "ok"]);
  const url = await answering({
    "/auth/v1/settings": [200, {}],
    "/healthz": [200, { status: "ok", app: "web", forwarded: 1 }],
  });
  expect((await checkProxyHops(envOf({ BASE_URL: url }))).map(({ level }) => level)).toEqual(["ok"]);
  expect(judgeCron({ installed: true, jobs: 10 }).level).toBe("ok");
  expect(judgeScheduler({ schedulers: 1 }, { SCHEDULE_LOOP: false })).toMatchObject([{ level: "ok" }]);
  expect(judgeScheduler({ schedulers: 0 }, { SCHEDULE_LOOP: true })).toEqual([]);
  expect(checkSettingNames({ ...complete, AI_PROVIDER_OPENAI_KIND: "openai", MY_OWN_SETTING: "1" })).toEqual([]);
  const address = "postgres://gateway.ref:p@aws-0-eu-central-1.pooler.supabase.com:6543/postgres";
  expect(checkPooler({ GATEWAY_DB_URL: address })).toEqual([]);
  expect(checkPooler({ GATEWAY_DB_URL: "postgres://gateway:p@db.ref.supabase.co:5432/postgres" })).toEqual([]);
});

test.each([
  [1, 2, "fail"],
  [2, 2, "ok"],
  [3, 2, "warn"],
])("a proxy count of %d with TRUSTED_PROXY_HOPS=%d is reported as %s", async (forwarded, hops, level) => {
  const url = await answering({ "/healthz": [200, { status: "ok", app: "web", forwarded }] });
  const findings = await checkProxyHops(envOf({ BASE_URL: url, TRUSTED_PROXY_HOPS: String(hops) }));
  expect(findings.map((finding) => finding.level)).toEqual([level]);
});

test.each([
  ["an older release", { status: "ok", app: "web" }],
  ["another service", { message: "not found" }],
])("the doctor can't check the number of proxies if %s answers at the health endpoint", async (_, body) => {
  const url = await answering({ "/healthz": [200, body] });
  expect((await checkProxyHops(envOf({ BASE_URL: url }))).map(({ level }) => level)).toEqual(["unseen"]);
});

test.each([
  [59, "fail"],
  [60, "warn"],
  [null, "warn"],
  [179, "warn"],
  [180, "ok"],
])("judges an email interval of %s seconds as %s", (seconds, level) => {
  expect(judgeMailInterval(seconds).level).toBe(level);
});

test.each([
  ["180s", "ok"],
  ["3m0s", "ok"],
  ["2m59s", "warn"],
  ["1s", "fail"],
  ["", "warn"],
])("judges a self-hosted backend with GOTRUE_SMTP_MAX_FREQUENCY=%s as %s", async (frequency, level) => {
  const SUPABASE_URL = "https://auth.example.com";
  const settings = { ...complete, SUPABASE_URL, GOTRUE_JWT_SECRET: "x", GOTRUE_SMTP_MAX_FREQUENCY: frequency };
  const [interval, ...hooks] = await checkBackend(settings);
  expect(interval?.level).toBe(level);
  expect(hooks.map((finding) => finding.level)).toEqual(["warn", "warn"]);
});

test.each([
  ["without a token", { SUPABASE_ACCESS_TOKEN: "" }, "SUPABASE_ACCESS_TOKEN"],
  ["behind a custom domain", { SUPABASE_URL: "https://auth.example.com" }, "SUPABASE_PROJECT_ID"],
])(
  "%s, the doctor can't read the backend's settings and names the missing environment variable",
  async (_, change, needs) => {
    const findings = await checkBackend({ ...complete, ...change });
    expect(findings.map(({ level }) => level)).toEqual(["unseen", "unseen"]);
    for (const { says } of findings) expect(says).toContain(needs);
  },
);

test.each([
  [401, { message: "Unauthorized" }],
  [200, { smtp_max_frequency: "soon" }],
])(
  "does not judge the backend's settings if the Management API returns %d without the settings",
  async (status, body) => {
    const api = await answering({ "/v1/projects/abcdefghijklmnopqrst/config/auth": [status, body] });
    const findings = await checkBackend(complete, api);
    expect(findings.map(({ level }) => level)).toEqual(["unseen", "unseen"]);
  },
);

test.each([
  ["sb_publishable_abc", "publishable key"],
  ["sb_secret_abc", "secret key"],
  ["sbp_abc", "access token"],
  [legacyKey("anon"), "legacy anon key"],
  [legacyKey("service_role"), "legacy service_role key"],
  [legacyKey("authenticated"), undefined],
  ["a.b.c", undefined],
  ["own-key", undefined],
])("recognizes the key %s as %s", (key, kind) => {
  expect(kindOfKey(key)).toBe(kind);
});

test.each([
  ["SUPABASE_URLS", ["SUPABASE_URL"]],
  ["SUPABASE_PUBLISHABEL_KEY", ["SUPABASE_PUBLISHABLE_KEY"]],
  ["PARENT_DOMIAN", ["PARENT_DOMAIN"]],
  ["SMTP_UR", ["SMTP_URL"]],
  ["FTP_URL", []],
  ["SMTP_UR", ["SMTP_URL"]],
  ["FTP_URL", []],
  ["AI_PROVIDER_OPENAI_API_KEY", []],
  ["HOST", []],
  ["HOME", []],
  ["DATABASE_URL", []],
])("compares the unknown setting %s with the known names and suggests %j", (name, near) => {
  expect(checkSettingNames({ [name]: "x" }).map(({ says }) => /did you mean (\w+)/.exec(says)?.[1])).toEqual(near);
});

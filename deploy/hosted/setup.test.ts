import { spawn, spawnSync } from "node:child_process";
import { createHash, createHmac, pbkdf2Sync } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { readCheckout, runSupabase } from "./checkout.ts";
import { createManagementApi } from "./management-api.ts";
import { accessToken, projectRef, startManagementApi } from "./management-api-server.ts";
import { scramVerifier } from "./scram.ts";
import { addSettings, readSettings, webSettings } from "./settings.ts";
import { setUp } from "./setup.ts";

const smtpPassword = "p@ss word";
const providerKey = "sk-provider-1";
const productionEnv = `BASE_URL=https://app.example.com
SMTP_URL=smtps://mailer:${encodeURIComponent(smtpPassword)}@smtp.example.com:465
MAIL_FROM=Acme <no-reply@example.com>
OAUTH_PROVIDERS=google,github
`;
const functionsEnv = `AI_PROVIDER_OPENAI_KIND=openai\nAI_PROVIDER_OPENAI_API_KEY=${providerKey}`;
const backendEnv = "GOTRUE_EXTERNAL_GOOGLE_ENABLED=true\nGOTRUE_EXTERNAL_GOOGLE_SECRET=google-secret\n";

const checkout = readCheckout(
  webSettings.parse({
    BASE_URL: "https://app.example.com",
    SMTP_URL: "smtp://127.0.0.1",
    MAIL_FROM: "a@example.com",
  }),
);

let api: Awaited<ReturnType<typeof startManagementApi>>;
let folder: string;
let web: string;
let functions: string;
const waits: number[] = [];
const commands: string[] = [];
const printed: string[] = [];

beforeEach(async () => {
  api = await startManagementApi();
  folder = mkdtempSync(path.join(tmpdir(), "gatehouse-setup-"));
  web = path.join(folder, "production.env");
  functions = path.join(folder, "functions.env");
  writeFileSync(web, productionEnv);
  writeFileSync(functions, functionsEnv);
  writeFileSync(path.join(folder, "backend.env"), backendEnv);
  for (const list of [waits, commands, printed]) list.length = 0;
});
afterEach(() => {
  api.close();
  rmSync(folder, { recursive: true });
});

/** Runs setup as the command does, but for Supabase's command line, whose outcome is recorded in the project. */
async function run({
  apply = true,
  failingCommand = "",
  token = accessToken,
  ref = projectRef,
  address = api.address,
} = {}) {
  const settings = webSettings.parse(readSettings(web));
  printed.length = 0;
  return setUp({
    ref,
    api: createManagementApi({ token, address, wait: async (milliseconds) => waits.push(milliseconds) }),
    checkout,
    web: settings,
    files: {
      web: { path: web, settings: readSettings(web) },
      functions: { path: functions, settings: readSettings(functions) },
    },
    backend: readSettings(path.join(folder, "backend.env")),
    supabase: async (args) => {
      if (args.slice(0, 2).join(" ") === failingCommand) throw new Error(`npx supabase ${failingCommand} failed.`);
      commands.push(args.slice(0, 2).join(" "));
      if (args[0] === "db") api.state.migrations = checkout.migrations;
      else
        for (const slug of Object.keys(checkout.functions))
          api.state.functions.set(slug, {
            slug,
            name: slug,
            id: slug,
            status: "ACTIVE",
            version: 1,
            verify_jwt: false,
          });
    },
    confirm: apply ? async () => true : undefined,
    print: (text) => printed.push(text),
  });
}

const stepNames = [
  "API keys",
  "settings files",
  "extensions",
  "migrations",
  "Data API",
  "functions",
  "database role",
  "function secrets",
  "identity backend",
  "signing key",
];
const changes = () => api.requests.filter((line) => !/^GET |read-only$/.test(line));

test("setup shows a plan without changing anything, applies it, and then finds nothing to change", async () => {
  expect(await run({ apply: false })).toBe("planned");
  expect(changes()).toEqual([]);
  expect(readFileSync(web, "utf8")).toBe(productionEnv);
  const plan = printed.join("\n");
  for (const line of [
    "identity backend: site_url: http://localhost:3000 → https://app.example.com",
    "identity backend: smtp_max_frequency: 1 → 180",
    "identity backend: smtp_pass: unset → set",
    "Data API: db_schema: public,graphql_public → public,private,ai",
    "signing key: algorithm: the legacy secret → ES256",
    "function secrets: AI_PROVIDER_OPENAI_API_KEY: unset → set",
    "functions: 28, from chat to videos: not deployed → this checkout's",
    "extensions: pg_cron: off → on",
  ])
    expect(plan).toContain(line);
  expect(plan).toMatch(
    /identity backend: mailer_templates_recovery_content: text of \d+ characters → text of \d+ characters/,
  );
  // The recorded plan is Pro, which has neither attempt hook. GitHub has no credentials.
  expect(plan).toMatch(
    /plan lacks hook_password_verification_attempt_enabled, .*hook_mfa_verification_attempt_enabled/,
  );
  expect(plan).toContain("Turn on github");
  expect(plan).not.toContain("Turn on google");

  expect(await run()).toBe("applied");
  expect(commands).toEqual(["db push", "functions deploy"]);
  expect(api.state.auth).toMatchObject({
    site_url: "https://app.example.com",
    uri_allow_list: "https://app.example.com,https://app.example.com/**",
    webauthn_rp_id: "example.com",
    webauthn_rp_origins: "https://app.example.com",
    webauthn_rp_display_name: "Gatehouse",
    passkey_enabled: true,
    disable_signup: false,
    mailer_autoconfirm: false,
    mailer_otp_length: 10,
    mfa_totp_enroll_enabled: true,
    smtp_host: "smtp.example.com",
    smtp_port: "465",
    smtp_sender_name: "Acme",
    smtp_admin_email: "no-reply@example.com",
    security_sb_forwarded_for_enabled: true,
    password_hibp_enabled: true,
    external_google_enabled: true,
    hook_password_verification_attempt_enabled: false,
    mailer_subjects_recovery: "Reset your Gatehouse password",
    mailer_templates_recovery_content: readFileSync("supabase/templates/recovery.html", "utf8"),
  });
  const written = { ...readSettings(web), ...readSettings(functions) };
  expect(written).toMatchObject({
    SUPABASE_URL: `https://${projectRef}.supabase.co`,
    SUPABASE_SECRET_KEY: expect.stringMatching(/^sb_secret_/),
    SUPABASE_PUBLISHABLE_KEY: expect.stringMatching(/^sb_publishable_/),
    APP_SESSION_SECRET: expect.stringMatching(/^[\w-]{48}$/),
    GATEWAY_DB_URL: expect.stringMatching(/^postgres:\/\/gateway\.[a-z]{20}:[0-9a-f]{48}@[\w.-]+:6543\/postgres$/),
  });
  expect(Object.fromEntries(api.state.secrets)).toMatchObject({
    AI_PROVIDER_OPENAI_API_KEY: providerKey,
    GATEWAY_DB_URL: written.GATEWAY_DB_URL,
  });
  const [, salt = ""] = /:([^$]+)\$/.exec(api.state.gatewayVerifier ?? "") ?? [];
  const { password } = new URL(written.GATEWAY_DB_URL ?? "");
  expect(api.state.gatewayVerifier).toBe(scramVerifier(password, Buffer.from(salt, "base64")));
  expect(api.state.signingKeys.map(({ algorithm, status }) => `${algorithm} ${status}`)).toEqual([
    "HS256 previously_used",
    "ES256 in_use",
  ]);

  const before = {
    requests: changes().length,
    web: readFileSync(web, "utf8"),
    functions: readFileSync(functions, "utf8"),
  };
  expect(await run()).toBe("unchanged");
  expect(printed.join("\n")).toContain("Nothing to change.");
  expect({
    requests: changes().length,
    web: readFileSync(web, "utf8"),
    functions: readFileSync(functions, "utf8"),
  }).toEqual(before);
});

test("nothing that setup prints contains a secret", async () => {
  expect(await run()).toBe("applied");
  const shown = printed.join("\n");
  const {
    GATEWAY_DB_URL = "",
    SUPABASE_SECRET_KEY,
    APP_SESSION_SECRET,
  } = {
    ...readSettings(web),
    ...readSettings(functions),
  };
  for (const secret of [
    accessToken,
    smtpPassword,
    providerKey,
    "google-secret",
    new URL(GATEWAY_DB_URL).password,
    SUPABASE_SECRET_KEY,
    APP_SESSION_SECRET,
  ])
    expect(shown).not.toContain(secret);
});

test.each([
  "POST .*/api-keys$",
  "POST .*/database/query$",
  "PATCH .*/postgrest$",
  "PATCH .*/config/auth$",
  "POST .*/signing-keys/legacy$",
  "POST .*/signing-keys$",
  "PATCH .*/signing-keys/.*",
  "POST .*/secrets$",
  "supabase db push",
  "supabase functions deploy",
])("after a failure at %s, setup says what was not applied, and the next run finishes", async (line) => {
  const failingCommand = /^supabase (.*)/.exec(line)?.[1];
  if (!failingCommand)
    api.faults.push({ matches: new RegExp(line), fault: { status: 400, body: { message: "not now" } } });
  expect(await run({ failingCommand })).toBe("failed");
  const reported = printed.flatMap(
    (text) => /^(applied|FAILED|not applied): ([^:]+)/.exec(text)?.[2]?.split(", ") ?? [],
  );
  expect(reported).toEqual(stepNames);
  expect(printed.join(" ")).toMatch(/FAILED: .*\(400\)\. The API says: not now( |$)|FAILED: .* failed\./);
  expect(printed.at(-1)).toBe("Run setup again: it continues where it stopped.");
  const generated = readSettings(functions).GATEWAY_DB_URL;
  expect(await run()).toBe("applied");
  if (generated) expect(readSettings(functions).GATEWAY_DB_URL).toBe(generated);
  expect(await run()).toBe("unchanged");
  expect(api.state.keys).toHaveLength(2);
  expect(api.state.signingKeys).toHaveLength(2);
});

test.each([
  ["a changed setting", () => (api.state.auth.mailer_otp_length = 6), "identity backend: mailer_otp_length: 6 → 10"],
  [
    "a changed secret",
    () => api.state.secrets.set("AI_PROVIDER_OPENAI_KIND", "x"),
    "AI_PROVIDER_OPENAI_KIND: set → changed",
  ],
  ["another SMTP password", () => (api.state.auth.smtp_pass = "0".repeat(64)), "smtp_pass: set → changed"],
  [
    "functions that were deployed from elsewhere",
    () => Object.assign(api.state.functions.get("chat") ?? {}, { version: 2 }),
    "deployed from other sources or settings → this checkout's",
  ],
  [
    "a function that checks JWTs",
    () => Object.assign(api.state.functions.get("chat") ?? {}, { verify_jwt: true }),
    "deployed from other sources or settings → this checkout's",
  ],
  ["a missing migration", () => api.state.migrations.pop(), "not applied → applied"],
])("a later run repairs %s, and nothing else", async (_, damage, line) => {
  expect(await run()).toBe("applied");
  api.state.migrations = [...api.state.migrations];
  damage();
  expect(await run({ apply: false })).toBe("planned");
  expect(printed.join("\n")).toContain(line);
  expect(await run()).toBe("applied");
  expect(printed.filter((text) => text.startsWith("applied"))).toHaveLength(1);
  expect(await run()).toBe("unchanged");
});

test.each(["sb_secret_1\nNODE_OPTIONS=--import=data:text/javascript,", 'sb_secret_1"', "sb_secret_1 # 2", ""])(
  "a value that a settings file would not hold unchanged is not written: %j",
  (value) => {
    expect(() => addSettings(web, { HOST: "0.0.0.0", SUPABASE_SECRET_KEY: value })).toThrow(
      "The project returned no usable SUPABASE_SECRET_KEY.",
    );
    expect(readFileSync(web, "utf8")).toBe(productionEnv);
  },
);

test("a plan that has the hooks gets them", async () => {
  const set = ["HOOK_PASSWORD_VERIFICATION_ATTEMPT", "HOOK_MFA_VERIFICATION_ATTEMPT"];
  const feature = {
    feature: { key: "auth.hooks", type: "set" },
    hasAccess: true,
    type: "set",
    config: { enabled: true, set },
  };
  api.state.entitlements = [feature];
  expect(await run()).toBe("applied");
  expect(api.state.auth).toMatchObject({
    hook_password_verification_attempt_enabled: true,
    hook_password_verification_attempt_uri: "pg-functions://postgres/private/password_verification_attempt",
    hook_mfa_verification_attempt_enabled: true,
    password_hibp_enabled: false,
  });
});

test("a mail server without a password leaves nothing to change", async () => {
  writeFileSync(web, productionEnv.replace(/mailer:.*@smtp/, "smtp"));
  expect(await run()).toBe("applied");
  expect(await run()).toBe("unchanged");
});

test("a failure of Supabase's command line shows the end of its output", async () => {
  await expect(runSupabase(["functions", "deploy", "--no-such-flag"])).rejects.toThrow(/failed\.\n[\s\S]*no-such-flag/);
});

test("on the Free plan, calls end before their isolate does", async () => {
  api.state.plan = "free";
  expect(await run()).toBe("applied");
  expect(api.state.secrets.get("AI_TOTAL_LIMIT_SECONDS")).toBe("70");
});

test.each<[string, () => unknown, Parameters<typeof run>[0], string]>([
  ["a refused token", () => {}, { token: "sbp_wrong" }, "refuses SUPABASE_ACCESS_TOKEN (401)"],
  ["an unknown project", () => {}, { ref: "z".repeat(20) }, "not found (404)"],
  ["a paused project", () => (api.state.project.status = "INACTIVE"), {}, "is paused. Restore it: https://"],
  ["a project that is restarting", () => (api.state.project.status = "RESTARTING"), {}, "is not ready (RESTARTING)"],
  [
    "Postgres 15",
    () => Object.assign(api.state.project, { database: { postgres_engine: "15" } }),
    {},
    "runs Postgres 15. Upgrade it to 17",
  ],
  ["a newer database", () => api.state.migrations.push("29991231000000"), {}, "migrations that this checkout lacks"],
  ["an unreachable API", () => {}, { address: "http://127.0.0.1:9" }, "127.0.0.1:9 does not answer"],
])("setup refuses %s, and changes nothing", async (_, prepare, options, message) => {
  prepare();
  await expect(run(options)).rejects.toThrow(message);
  expect(changes()).toEqual([]);
  expect(readFileSync(web, "utf8")).toBe(productionEnv);
});

const base = `/v1/projects/${projectRef}`;
test.each([
  ["waits as long as a 429 says", 1, { status: 429, headers: { "retry-after": "7" } }, [7_000]],
  [
    "waits for the rate-limit window without Retry-After",
    1,
    { status: 429, headers: { "x-ratelimit-reset": "9" } },
    [9_000],
  ],
  ["repeats a read after 502", 2, { status: 502 }, [1_000, 2_000]],
  ["repeats a read after a lost connection", 1, "disconnect" as const, [1_000]],
])("setup %s", async (_, count, fault, expected) => {
  for (let n = 0; n < count; n++) api.faults.push({ matches: /config\/auth$/, fault });
  expect(await run({ apply: false })).toBe("planned");
  expect(waits).toEqual(expected);
});

test.each([
  ["repeats an idempotent change whose response was lost", `PATCH ${base}/config/auth`, "applied", 2],
  ["does not repeat the creation of a key whose response was lost", `POST ${base}/api-keys`, "failed", 1],
])("setup %s", async (_, line, outcome, sent) => {
  api.faults.push({ matches: new RegExp(`^${line}$`), fault: "disconnect", isDone: true });
  expect(await run()).toBe(outcome);
  expect(api.requests.filter((request) => request === line)).toHaveLength(sent);
  if (outcome === "failed") expect(await run()).toBe("applied");
  expect(api.state.keys).toHaveLength(2);
});

test.each([
  ["a field that it does not know", { hook_password_attempt_enabled: true }, "additional properties"],
  ["a wrong type", { smtp_port: 465 }, "must be string"],
  ["a value beyond its bounds", { mailer_otp_length: 11 }, "must be <= 10"],
])("the replayed API refuses %s", async (_, fields, message) => {
  const client = createManagementApi({ token: accessToken, address: api.address });
  await expect(client.put("PATCH", `${base}/config/auth`, fields)).rejects.toThrow(message);
});

test("gives up on a rate limit after four attempts", async () => {
  for (let n = 0; n < 4; n++)
    api.faults.push({ matches: /postgrest$/, fault: { status: 429, headers: { "retry-after": "1" } } });
  await expect(run()).rejects.toThrow("rate limit is exceeded (429)");
  expect(changes()).toEqual([]);
});

test("the password's verifier is the one that Postgres checks a login against", () => {
  const salt = Buffer.from("W22ZaJ0SNY7soEsUEjb6gQ==", "base64");
  const [, proofs = ""] = scramVerifier("pencil", salt).split("==$");
  const salted = pbkdf2Sync("pencil", salt, 4096, 32, "sha256");
  const mac = (label: string) => createHmac("sha256", salted).update(label).digest();
  expect(proofs).toBe(
    `${createHash("sha256").update(mac("Client Key")).digest("base64")}:${mac("Server Key").toString("base64")}`,
  );
  // RFC 7677, section 3: the server signature of its example exchange.
  const exchange =
    "n=user,r=rOprNGfwEbeRWgbNEkqO,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
  const serverKey = Buffer.from(proofs.split(":")[1] ?? "", "base64");
  expect(createHmac("sha256", serverKey).update(exchange).digest("base64")).toBe(
    "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
  );
});

test.each([
  ["--env", "production.env"],
  ["--functions", "functions.env"],
  ["--backend", "backend.env"],
])("the command refuses %s with a file that does not exist", (option, name) => {
  const missing = path.join(folder, "missing", name);
  const { status, stderr } = spawnSync(
    process.execPath,
    ["scripts/gatehouse.ts", "setup", "--project", projectRef]
      .concat("--env", web, "--functions", functions)
      .concat(option, missing),
    { env: { ...process.env, SUPABASE_ACCESS_TOKEN: accessToken }, encoding: "utf8" },
  );
  expect(stderr).toContain(`There is no file ${missing}.`);
  expect(status).toBe(1);
});

test("the command applies its plan with Supabase's command line, and ends with the doctor", {
  timeout: 120_000,
}, async () => {
  api.state.migrations = checkout.migrations;
  // The doctor asks the project and the web server, which are not there.
  writeFileSync(
    web,
    `${productionEnv.replace("https://app.example.com", "http://127.0.0.1:9").replace("smtp.example.com", "127.0.0.1")}SUPABASE_URL=${api.address}\n`,
  );
  const profile = path.join(folder, "profile.json");
  writeFileSync(
    profile,
    JSON.stringify({ name: "replay", api_url: api.address, dashboard_url: api.address, project_host: "localhost" }),
  );
  const command = spawn(
    process.execPath,
    ["scripts/gatehouse.ts", "setup", "--project", projectRef, "--yes", "--env", web, "--functions", functions],
    {
      env: {
        PATH: process.env.PATH,
        NODE_ENV: process.env.NODE_ENV,
        HOME: folder,
        SUPABASE_ACCESS_TOKEN: accessToken,
        SUPABASE_PROFILE: profile,
        SUPABASE_TELEMETRY_DISABLED: "1",
        DO_NOT_TRACK: "1",
        HTTPS_PROXY: "http://127.0.0.1:9",
      },
    },
  );
  const [stdout, stderr] = await Promise.all([command.stdout.toArray(), command.stderr.toArray()]);
  const output = Buffer.concat([...stdout, ...stderr]).toString();
  expect(output).toContain("applied: functions");
  expect(output).not.toContain("FAILED");
  expect(output).not.toContain("Uploading asset");
  expect(output).toMatch(/Configuration of .*production\.env and .*functions\.env[\s\S]*\d+ failed, /);
  expect(output).not.toContain(accessToken);
  expect([...api.state.functions.keys()].sort()).toEqual(Object.keys(checkout.functions).sort());
  expect([...api.state.functions.values()].every(({ verify_jwt }) => verify_jwt === false)).toBe(true);
  expect(statSync(functions).size).toBeGreaterThan(functionsEnv.length);
});

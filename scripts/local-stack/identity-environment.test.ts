import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addressesOf } from "./addresses.ts";
import { identityEnvironment } from "./identity-environment.ts";
import { defaultPorts } from "./ports.ts";
import { loadSecrets } from "./secrets.ts";

const config = readFileSync("supabase/config.toml", "utf8");
const setting = (name: string) => new RegExp(`^${name} = "?([^"\n]+)"?$`, "m").exec(config)?.[1];
const dataDir = mkdtempSync(path.join(tmpdir(), "gatehouse-identity-"));
let environment: Record<string, string>;

beforeAll(async () => {
  environment = identityEnvironment({
    addresses: addressesOf(defaultPorts, {}),
    ports: defaultPorts,
    secrets: await loadSecrets(dataDir, { clusterExists: false }),
    databaseUrl: "postgres://localhost/postgres",
    templatesUrl: "http://localhost/templates",
    parentDomain: undefined,
    given: {},
    isBinary: false,
  });
});
afterAll(() => rmSync(dataDir, { recursive: true }));

test.each([
  ["max_frequency", "GOTRUE_SMTP_MAX_FREQUENCY"],
  ["otp_length", "GOTRUE_MAILER_OTP_LENGTH"],
  ["otp_expiry", "GOTRUE_MAILER_OTP_EXP"],
  ["minimum_password_length", "GOTRUE_PASSWORD_MIN_LENGTH"],
])("the embedded stack's %s is that of supabase/config.toml", (name, variable) => {
  expect(setting(name)).toBeDefined();
  expect(environment[variable]).toBe(setting(name));
});

test("the embedded stack's mails have the subjects and templates of supabase/config.toml", () => {
  const mails = [
    ...config.matchAll(/^\[auth\.email\.template\.(\w+)\]\nsubject = "(.*)"\ncontent_path = ".*\/(.*)"$/gm),
  ];
  expect(mails).toHaveLength(6);
  for (const [, kind = "", subject, file] of mails) {
    expect(environment[`GOTRUE_MAILER_SUBJECTS_${kind.toUpperCase()}`]).toBe(subject);
    expect(environment[`GOTRUE_MAILER_TEMPLATES_${kind.toUpperCase()}`]).toBe(`http://localhost/templates/${file}`);
  }
});

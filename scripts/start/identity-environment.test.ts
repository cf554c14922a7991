import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { defaultPorts } from "@gatehousehq/local-stack/ports";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defaultAccent, defaultName } from "../../remix-app/config/brand.ts";
import { addressesOf } from "./addresses.ts";
import { identityEnvironment, notificationMails, notificationSetting } from "./identity-environment.ts";
import { loadSecrets } from "./secrets.ts";

const config = readFileSync("supabase/config.toml", "utf8");
const setting = (name: string) => new RegExp(`^${name} = "?([^"\n]+)"?$`, "m").exec(config)?.[1];
const dataDir = mkdtempSync(path.join(tmpdir(), "gatehouse-identity-"));
let options: Parameters<typeof identityEnvironment>[0];
let environment: Record<string, string>;

beforeAll(async () => {
  options = {
    addresses: addressesOf(defaultPorts, {}),
    ports: defaultPorts,
    secrets: await loadSecrets(dataDir, { clusterExists: false }),
    databaseUrl: "postgres://localhost/postgres",
    templatesUrl: "http://localhost/templates",
    brand: { name: defaultName, accent: defaultAccent },
    parentDomain: undefined,
    given: {},
    isBinary: false,
  };
  environment = identityEnvironment(options);
});
afterAll(() => rmSync(dataDir, { recursive: true }));

test.each([
  ["max_frequency", "GOTRUE_SMTP_MAX_FREQUENCY"],
  ["otp_length", "GOTRUE_MAILER_OTP_LENGTH"],
  ["otp_expiry", "GOTRUE_MAILER_OTP_EXP"],
  ["minimum_password_length", "GOTRUE_PASSWORD_MIN_LENGTH"],
])("the embedded stack's %s matches the setting in supabase/config.toml", (name, variable) => {
  expect(setting(name)).toBeDefined();
  expect(environment[variable]).toBe(setting(name));
});

test("the embedded stack's emails have the subjects and templates of supabase/config.toml", () => {
  const mails = [
    ...config.matchAll(/^\[auth\.email\.template\.(\w+)\]\nsubject = "(.*)"\ncontent_path = ".*\/(.*)"$/gm),
  ];
  expect(mails).toHaveLength(6);
  for (const [, kind = "", subject, file] of mails) {
    expect(environment[`GOTRUE_MAILER_SUBJECTS_${kind.toUpperCase()}`]).toBe(subject);
    expect(environment[`GOTRUE_MAILER_TEMPLATES_${kind.toUpperCase()}`]).toBe(`http://localhost/templates/${file}`);
  }
});

test("the embedded stack's emails and passkey prompts show the configured brand", () => {
  const branded = identityEnvironment({ ...options, brand: { name: "Acme", accent: "#1d4ed8" } });
  expect(branded).toMatchObject({
    GOTRUE_SMTP_SENDER_NAME: "Acme",
    GOTRUE_WEBAUTHN_RP_DISPLAY_NAME: "Acme",
    GOTRUE_MAILER_SUBJECTS_CONFIRMATION: "Confirm your email for Acme",
  });
});

test.each([false, true])(
  "the backend's notification emails stay off even if the environment enables them (with Supabase Auth's own binary: %s)",
  (isBinary) => {
    const given = Object.fromEntries(notificationMails.map((name) => [notificationSetting(name), "true"]));
    const started = identityEnvironment({ ...options, given, isBinary });
    // These are the names in the example.env of Supabase Auth 2.196.
    const names = Object.keys(started).filter((name) => name.startsWith("GOTRUE_MAILER_NOTIFICATIONS_"));
    expect(names.sort()).toEqual([
      "GOTRUE_MAILER_NOTIFICATIONS_EMAIL_CHANGED_ENABLED",
      "GOTRUE_MAILER_NOTIFICATIONS_IDENTITY_LINKED_ENABLED",
      "GOTRUE_MAILER_NOTIFICATIONS_IDENTITY_UNLINKED_ENABLED",
      "GOTRUE_MAILER_NOTIFICATIONS_MFA_FACTOR_ENROLLED_ENABLED",
      "GOTRUE_MAILER_NOTIFICATIONS_MFA_FACTOR_UNENROLLED_ENABLED",
      "GOTRUE_MAILER_NOTIFICATIONS_PASSWORD_CHANGED_ENABLED",
      "GOTRUE_MAILER_NOTIFICATIONS_PHONE_CHANGED_ENABLED",
    ]);
    expect(names.map((name) => started[name])).toEqual(names.map(() => "false"));
  },
);

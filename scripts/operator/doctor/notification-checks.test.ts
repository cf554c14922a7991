import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { expect, test } from "vitest";
import { readAuthConfig } from "./auth-config.ts";
import { checkNotifications } from "./notification-checks.ts";

const token = "sbp_0123456789abcdef0123456789abcdef01234567";
const project = "abcdefghijklmnopqrst";
const hosted = { SUPABASE_URL: `https://${project}.supabase.co`, SUPABASE_ACCESS_TOKEN: token };

/**
 * Part of the response of GET /v1/projects/{ref}/config/auth, as documented at
 * https://supabase.com/docs/reference/api/v1-get-auth-service-config. Each setting may be null, and the response
 * contains secrets.
 */
const authConfig = {
  site_url: "https://gatehouse.example",
  mailer_autoconfirm: false,
  mailer_secure_email_change_enabled: true,
  mailer_notifications_password_changed_enabled: false,
  mailer_notifications_email_changed_enabled: false,
  mailer_notifications_phone_changed_enabled: false,
  mailer_notifications_identity_linked_enabled: null,
  mailer_notifications_identity_unlinked_enabled: null,
  mailer_notifications_mfa_factor_enrolled_enabled: false,
  mailer_notifications_mfa_factor_unenrolled_enabled: false,
  smtp_pass: "the mail server's password",
};

/**
 * Checks a project against a Management API that gives this response. Returns the finding and the requests sent to the
 * API.
 */
async function check(settings: Record<string, string>, [status, body]: [status: number, body: unknown]) {
  const requests: string[] = [];
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    response.writeHead(status, { "content-type": "application/json" }).end(JSON.stringify(body));
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const finding = checkNotifications(await readAuthConfig({ settings, local: false }, `http://127.0.0.1:${port}`));
  server.close();
  expect(finding.says).not.toContain(token);
  expect(finding.says).not.toContain(authConfig.smtp_pass);
  return { finding, requests };
}

test("confirms with one Management API call that notification emails are off", async () => {
  const { finding, requests } = await check(hosted, [200, authConfig]);
  expect(finding).toEqual({ level: "ok", about: "notifications", says: "off at the backend" });
  expect(requests).toEqual([`GET /v1/projects/${project}/config/auth Bearer ${token}`]);
});

test("checks notification emails of the project in SUPABASE_URL even if SUPABASE_PROJECT_ID names another", async () => {
  const { requests } = await check({ ...hosted, SUPABASE_PROJECT_ID: "another" }, [200, authConfig]);
  expect(requests).toEqual([`GET /v1/projects/${project}/config/auth Bearer ${token}`]);
});

test.each([
  ["password_changed"],
  ["email_changed"],
  ["phone_changed"],
  ["identity_linked"],
  ["identity_unlinked"],
  ["mfa_factor_enrolled"],
  ["mfa_factor_unenrolled"],
])("fails if the backend has the notification email %s on, and reports only that setting", async (name) => {
  const { finding } = await check(hosted, [200, { ...authConfig, [`mailer_notifications_${name}_enabled`]: true }]);
  expect(finding.level).toBe("fail");
  expect(finding.says).toMatch(new RegExp(`^the backend mails ${name}: .*Dashboard, Authentication, Emails`));
});

test("uses SUPABASE_PROJECT_ID for a project behind a custom domain", async () => {
  const settings = { ...hosted, SUPABASE_URL: "https://auth.gatehouse.example", SUPABASE_PROJECT_ID: project };
  const { finding, requests } = await check(settings, [200, authConfig]);
  expect(finding.level).toBe("ok");
  expect(requests).toHaveLength(1);
});

test.each([
  ["a token that is refused", 401, { message: "Unauthorized" }, "refuses SUPABASE_ACCESS_TOKEN (401)"],
  ["a token without permission", 403, { message: "Forbidden resource" }, "refuses SUPABASE_ACCESS_TOKEN (403)"],
  ["somebody else's project", 404, { message: "Project not found" }, "does not show them (404)"],
  ["a rate limit", 429, { message: "ThrottlerException: Too Many Requests" }, "does not show them (429)"],
  ["an answer without the settings", 200, { site_url: "" }, "does not show them"],
  ["an answer that is not an object", 200, "", "does not show them"],
])("with %s, the doctor cannot judge notification emails and says where to look", async (_, status, body, says) => {
  const { finding } = await check(hosted, [status, body]);
  expect(finding.level).toBe("unseen");
  expect(finding.says).toContain(says);
  expect(finding.says).toContain("Look at Dashboard, Authentication, Emails, Security: all seven must be off.");
});

test("cannot judge notification emails when the Management API does not answer", async () => {
  const finding = checkNotifications(await readAuthConfig({ settings: hosted, local: false }, "http://127.0.0.1:9"));
  expect(finding).toMatchObject({ level: "unseen", says: expect.stringContaining("127.0.0.1:9 does not answer") });
});

const own = { SUPABASE_URL: "https://auth.gatehouse.example", SUPABASE_ACCESS_TOKEN: token };
const ownBackend = { ...own, GOTRUE_JWT_SECRET: "secret" };

test.each([
  [
    "a hosted project without a token",
    { SUPABASE_URL: hosted.SUPABASE_URL },
    "unseen",
    "without SUPABASE_ACCESS_TOKEN",
  ],
  ["a custom domain without a project id", own, "unseen", "set SUPABASE_PROJECT_ID"],
  ["backend settings that name no notification emails", ownBackend, "ok", "off in the backend's settings"],
  [
    "backend settings with one notification email off",
    { ...ownBackend, GOTRUE_MAILER_NOTIFICATIONS_EMAIL_CHANGED_ENABLED: "false" },
    "ok",
    "off in the backend's settings",
  ],
  [
    "backend settings with one notification email on",
    { ...ownBackend, GOTRUE_MAILER_NOTIFICATIONS_MFA_FACTOR_ENROLLED_ENABLED: "true" },
    "fail",
    "GOTRUE_MAILER_NOTIFICATIONS_MFA_FACTOR_ENROLLED_ENABLED: owners get two mails",
  ],
  // Supabase Auth reads settings with Go's strconv.ParseBool.
  [
    "backend settings with one notification email set to 1",
    { ...own, GOTRUE_MAILER_NOTIFICATIONS_IDENTITY_LINKED_ENABLED: "1" },
    "fail",
    "GOTRUE_MAILER_NOTIFICATIONS_IDENTITY_LINKED_ENABLED",
  ],
  [
    "a local backend, even if the shell names a project",
    { ...hosted, SUPABASE_URL: "http://127.0.0.1:54321", SUPABASE_PROJECT_ID: project },
    "unseen",
    "Self-hosted: name its settings too",
  ],
])("for %s, the check of notification emails does not call the Management API", async (_, settings, level, says) => {
  const { finding, requests } = await check(settings, [200, authConfig]);
  expect(finding).toMatchObject({ level, says: expect.stringContaining(says) });
  expect(requests).toEqual([]);
});

test("the doctor reports no problem with notification emails for a local stack, which turns them off", async () => {
  const settings = { SUPABASE_URL: "http://127.0.0.1:54321" };
  expect(checkNotifications(await readAuthConfig({ settings, local: true }))).toMatchObject({ level: "ok" });
});

import { createHash, randomBytes } from "node:crypto";
import { createClient } from "@supabase/supabase-js";
import type { Page } from "playwright/test";
import { playedProviders } from "../scripts/local-stack/identity-environment.ts";
import { standIns } from "../scripts/local-stack/services/oidc/stand-ins.ts";
import { readStack } from "../scripts/test/stack.ts";
import { mailsTo } from "./mailbox.ts";
import { expect, expectAccessible, expectFitsSmallScreens, test } from "./test.ts";

const stack = readStack();
const auth = `${stack.supabase.url}/auth/v1`;
/** One of the web server's pages, which ignores the callback parameters. */
const returnTo = `${stack.base}/healthz?kept=1`;

/** Begins a sign-in with PKCE (RFC 7636) and waits for the provider's page. @returns the verifier */
async function beginSignIn(page: Page, provider = "keycloak", title = "provider"): Promise<string> {
  const verifier = randomBytes(42).toString("base64url");
  const query = new URLSearchParams({
    provider,
    redirect_to: returnTo,
    scopes: provider === "azure" ? "email" : "openid",
    code_challenge: createHash("sha256").update(verifier).digest("base64url"),
    code_challenge_method: "s256",
  });
  await page.goto(`${auth}/authorize?${query}`);
  await expect(page.getByRole("heading", { name: `Sign in to the demo ${title}` })).toBeVisible();
  expect(new URL(page.url()).origin).toBe(stack.oidc);
  return verifier;
}

/** Waits until the browser is back at the web server. @returns the callback parameters */
async function outcome(page: Page): Promise<Record<string, string>> {
  await page.waitForURL((url) => url.origin === stack.base);
  const { pathname, searchParams } = new URL(page.url());
  expect(pathname).toBe("/healthz");
  return Object.fromEntries(searchParams);
}

async function post(path: string, body: Record<string, string>) {
  const response = await fetch(`${auth}${path}`, {
    method: "POST",
    headers: {
      apikey: stack.supabase.publishableKey,
      "Content-Type": "application/json",
      "X-Supabase-Api-Version": "2024-01-01",
    },
    body: JSON.stringify(body),
  });
  return { status: response.status, body: await response.json() };
}

const exchange = (auth_code: string, code_verifier: string) =>
  post("/token?grant_type=pkce", { auth_code, code_verifier });

test("a provider sign-in returns a code that is exchanged for a session", async ({ page, newcomer }) => {
  const verifier = await beginSignIn(page);
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByRole("button", { name: "Continue" }).click();
  const { kept, code = "", ...rest } = await outcome(page);
  expect(kept).toBe("1");
  expect(rest).toEqual({});
  expect(code).toMatch(/^[0-9a-f-]{36}$/);
  expect(new URL(page.url()).hash).toBe("");

  expect(await exchange(code, randomBytes(42).toString("base64url"))).toMatchObject({
    status: 400,
    body: { code: "bad_code_verifier" },
  });
  const { status, body } = await exchange(code, verifier);
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body).toMatchObject({
    token_type: "bearer",
    provider_token: expect.any(String),
    user: {
      email: newcomer.email,
      email_confirmed_at: expect.any(String),
      app_metadata: { provider: "keycloak", providers: ["keycloak"] },
      user_metadata: { email: newcomer.email, email_verified: true, full_name: newcomer.email.split("@")[0] },
      identities: [{ provider: "keycloak" }],
    },
  });
  const { data, error } = await createClient(stack.supabase.url, stack.supabase.publishableKey).auth.getClaims(
    body.access_token,
  );
  expect(error).toBeNull();
  expect(data?.claims).toMatchObject({ aal: "aal1", amr: [{ method: "oauth" }], email: newcomer.email });
  expect(await exchange(code, verifier)).toMatchObject({ status: 404, body: { code: "flow_state_not_found" } });
});

test("a provider sign-in with the email of a confirmed account adds the identity to that account", async ({
  page,
  member,
}) => {
  const verifier = await beginSignIn(page);
  await page.getByLabel("Email").fill(member.email);
  await page.getByRole("button", { name: "Continue" }).click();
  const { body } = await exchange((await outcome(page)).code ?? "", verifier);
  const identities = (body.user.identities as { provider: string }[]).map(({ provider }) => provider);
  expect(identities.sort()).toEqual(["email", "keycloak"]);
  const signedIn = await post("/token?grant_type=password", { email: member.email, password: member.password });
  expect(signedIn.body.user.id).toBe(body.user.id);
});

test("a sign-in that is canceled at the provider returns access_denied and no code", async ({ page }) => {
  await beginSignIn(page);
  await page.getByRole("button", { name: "Cancel" }).click();
  const result = await outcome(page);
  expect(result).toMatchObject({ error: "access_denied", error_description: "The sign-in was cancelled" });
  expect(result).not.toHaveProperty("code");
});

test("an email address that the provider has not verified gets a confirmation email and no session", async ({
  page,
  newcomer,
}) => {
  await beginSignIn(page);
  await page.getByLabel("Email").fill(newcomer.email);
  await page.getByLabel("The address is verified").uncheck();
  await page.getByRole("button", { name: "Continue" }).click();
  const result = await outcome(page);
  expect(result).toMatchObject({ error: "access_denied", error_code: "provider_email_needs_verification" });
  expect(result).not.toHaveProperty("code");
  await expect.poll(async () => (await mailsTo(newcomer.email)).length).toBe(1);
});

test("the simulated provider's page reports an invalid email, and is accessible", async ({ page }) => {
  await beginSignIn(page);
  await expectAccessible(page);
  await expectFitsSmallScreens(page);
  await page.getByLabel("Email").fill("no address");
  await page.getByRole("button", { name: "Continue" }).click();
  await expect(page.getByRole("alert")).toContainText("Enter an address");
  await expect(page.getByLabel("Email")).toHaveValue("no address");
  await expectAccessible(page);
});

for (const provider of playedProviders({ isBinary: !!process.env.IDENTITY_BIN })) {
  test(`the simulated ${provider} shows its name on its page, and the session contains its identity`, async ({
    page,
    newcomer,
  }) => {
    const verifier = await beginSignIn(page, provider, `of ${standIns[provider].company}`);
    await expectAccessible(page);
    await expectFitsSmallScreens(page);
    await page.getByLabel("Email").fill(newcomer.email);
    await page.getByRole("button", { name: "Continue" }).click();
    const { status, body } = await exchange((await outcome(page)).code ?? "", verifier);
    expect(status, JSON.stringify(body)).toBe(200);
    expect(body.user).toMatchObject({ email: newcomer.email, identities: [{ provider }] });
  });
}

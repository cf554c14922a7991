import { createClient } from "@supabase/supabase-js";
import type { Page } from "playwright/test";
import { readStack } from "../scripts/test/stack.ts";
import { addAuthenticator } from "./authenticator.ts";
import { expect, type Person, test } from "./test.ts";

const stack = readStack();
const auth = `${stack.supabase.url}/auth/v1`;
const clockSkewMs = 5_000;

async function call(route: string, { bearer, body }: { bearer?: string; body?: unknown } = {}) {
  const [method = "GET", path = "/"] = route.split(" ");
  const response = await fetch(`${auth}${path}`, {
    method,
    headers: {
      apikey: stack.supabase.publishableKey,
      "X-Supabase-Api-Version": "2024-01-01",
      ...(bearer ? { Authorization: `Bearer ${bearer}` } : {}),
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: text ? JSON.parse(text) : undefined };
}

async function bearerOf({ email, password }: Person): Promise<string> {
  const { body } = await call("POST /token?grant_type=password", { body: { email, password } });
  return body.access_token;
}

/** Creates a credential in the page's browser. */
const create = (page: Page, options: PublicKeyCredentialCreationOptionsJSON) =>
  page.evaluate(async (json) => {
    const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(json);
    const credential = await navigator.credentials.create({ publicKey });
    if (!(credential instanceof PublicKeyCredential)) throw new Error("no credential");
    return credential.toJSON();
  }, options);

/** Signs a challenge with a passkey of the page's browser. */
const get = (page: Page, options: PublicKeyCredentialRequestOptionsJSON) =>
  page.evaluate(async (json) => {
    const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(json);
    const credential = await navigator.credentials.get({ publicKey });
    if (!(credential instanceof PublicKeyCredential)) throw new Error("no credential");
    return credential.toJSON();
  }, options);

async function register(page: Page, bearer: string) {
  const { status, body } = await call("POST /passkeys/registration/options", { bearer, body: {} });
  expect(status, JSON.stringify(body)).toBe(200);
  const credential = await create(page, body.options);
  return call("POST /passkeys/registration/verify", { bearer, body: { challenge_id: body.challenge_id, credential } });
}

async function signIn(page: Page) {
  const { status, body } = await call("POST /passkeys/authentication/options", { body: {} });
  expect(status, JSON.stringify(body)).toBe(200);
  const credential = await get(page, body.options);
  const answer = { challenge_id: body.challenge_id, credential };
  return { answer, ...(await call("POST /passkeys/authentication/verify", { body: answer })) };
}

test.beforeEach(async ({ page }) => {
  // Opens a page on the relying party's origin. The test itself acts as the relying party's server.
  await page.goto("/healthz");
});

test("a passkey can be registered, used to sign in, listed, renamed and deleted", async ({ page, member }) => {
  const authenticator = await addAuthenticator(page);
  const bearer = await bearerOf(member);
  const begun = Date.now() - clockSkewMs;

  const registered = await register(page, bearer);
  expect(registered).toMatchObject({
    status: 200,
    body: { id: expect.any(String), friendly_name: expect.any(String), created_at: expect.any(String) },
  });
  const [held] = await authenticator.credentials();
  expect(held).toMatchObject({ isResidentCredential: true, rpId: new URL(stack.base).hostname });

  const { status, body, answer } = await signIn(page);
  expect(status, JSON.stringify(body)).toBe(200);
  expect(body.user.email).toBe(member.email);
  const { data, error } = await createClient(stack.supabase.url, stack.supabase.publishableKey).auth.getClaims(
    body.access_token,
  );
  expect(error).toBeNull();
  expect(data?.claims).toMatchObject({ aal: "aal1", sub: body.user.id });
  expect(data?.claims.amr).toEqual([{ method: "passkey", timestamp: expect.any(Number) }]);
  expect(await call("POST /passkeys/authentication/verify", { body: answer })).toMatchObject({
    status: 400,
    body: { code: "webauthn_challenge_not_found" },
  });

  const list = await call("GET /passkeys", { bearer });
  expect(list).toMatchObject({ status: 200, body: [{ id: registered.body.id, last_used_at: expect.any(String) }] });
  expect(list.body).toHaveLength(1);
  expect(Date.parse(list.body[0].last_used_at)).toBeGreaterThan(begun);

  const path = `/passkeys/${registered.body.id}`;
  expect(await call(`PATCH ${path}`, { bearer, body: { friendly_name: "Laptop" } })).toMatchObject({
    status: 200,
    body: { id: registered.body.id, friendly_name: "Laptop" },
  });
  expect((await call("GET /passkeys", { bearer })).body[0].friendly_name).toBe("Laptop");

  expect(await call(`DELETE ${path}`, { bearer })).toEqual({ status: 204, body: undefined });
  expect((await call("GET /passkeys", { bearer })).body).toEqual([]);
  const refused = await signIn(page);
  expect(refused.status).toBe(400);
  expect(refused.body.code).toBe("webauthn_verification_failed");
});

test("the browser creates no second passkey for the account on the same authenticator", async ({ page, member }) => {
  const authenticator = await addAuthenticator(page);
  const bearer = await bearerOf(member);
  expect((await register(page, bearer)).status).toBe(200);
  await expect(register(page, bearer)).rejects.toThrow("InvalidStateError");
  expect(await authenticator.credentials()).toHaveLength(1);
});

test("a passkey response to one challenge is rejected for another", async ({ page, member }) => {
  await addAuthenticator(page);
  const bearer = await bearerOf(member);
  const [first, second] = await Promise.all([
    call("POST /passkeys/registration/options", { bearer, body: {} }),
    call("POST /passkeys/registration/options", { bearer, body: {} }),
  ]);
  const credential = await create(page, first.body.options);
  const body = { challenge_id: second.body.challenge_id, credential };
  expect(await call("POST /passkeys/registration/verify", { bearer, body })).toMatchObject({
    status: 400,
    body: { code: "webauthn_verification_failed" },
  });
  expect((await call("GET /passkeys", { bearer })).body).toEqual([]);
});

test("a page on another origin cannot use this origin's passkeys", async ({ page, member }) => {
  await addAuthenticator(page);
  expect((await register(page, await bearerOf(member))).status).toBe(200);
  const { body } = await call("POST /passkeys/authentication/options", { body: {} });
  await page.goto(`${stack.oidc}/healthz`);
  await expect(get(page, body.options)).rejects.toThrow("SecurityError");
});

import { createClient } from "@supabase/supabase-js";
import * as oauth from "oauth4webapi";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  askFromDevice,
  createDeviceClient,
  type DeviceClient,
  deleteDeviceClient,
  expireRequest,
  passSincePoll,
} from "../../../scripts/test/device-requests.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
} from "../../../scripts/test/people.ts";
import { readStack } from "../../../scripts/test/stack.ts";
import { atOnce, callAtOnce } from "../../testing/at-once.ts";
import { codeOf } from "../../testing/authenticator-app.ts";
import { openPhone, unlockedPhone } from "../../testing/phone.ts";
import { newAddress } from "../../testing/visitor.ts";
import { startWeb } from "../../testing/web-process.ts";
import { readUserCode } from "./user-code.ts";

const { base, supabase } = readStack();
const server = {
  issuer: base,
  token_endpoint: `${base}/oauth/token`,
  userinfo_endpoint: `${base}/oauth/userinfo`,
  device_authorization_endpoint: `${base}/oauth/device_authorization`,
  jwks_uri: `${base}/.well-known/jwks.json`,
};
let person: Person;
let client: DeviceClient;
let confidential: DeviceClient;

beforeAll(async () => {
  [person, client, confidential] = await Promise.all([
    createPerson(),
    createDeviceClient(),
    createDeviceClient({ isPublic: false }),
  ]);
});
afterAll(() => Promise.all([deletePerson(person), ...[client, confidential].map(deleteDeviceClient)]));

const loopback = (address = newAddress()) => ({
  [oauth.allowInsecureRequests]: true,
  headers: { "x-forwarded-for": address, "user-agent": "curl/8.11.0" },
});
const clientOf = ({ name }: DeviceClient) => ({ client_id: name });
const authOf = ({ secret }: DeviceClient) => (secret === null ? oauth.None() : oauth.ClientSecretBasic(secret));

function ask(
  by: DeviceClient,
  { scope = "openid profile offline_access", auth = authOf(by), address = newAddress() } = {},
): Promise<Response> {
  return oauth.deviceAuthorizationRequest(server, clientOf(by), auth, { scope }, loopback(address));
}

async function begin(by = client, options?: Parameters<typeof ask>[1]): Promise<oauth.DeviceAuthorizationResponse> {
  return oauth.processDeviceAuthorizationResponse(server, clientOf(by), await ask(by, options));
}

const poll = (by: DeviceClient, deviceCode: string, auth = authOf(by)) =>
  oauth.deviceCodeGrantRequest(server, clientOf(by), auth, deviceCode, loopback());

/** Polls regardless of the interval. @returns the error */
async function pollError(by: DeviceClient, deviceCode: string, auth = authOf(by)): Promise<string> {
  const response = await poll(by, deviceCode, auth);
  expect(response.headers.get("cache-control")).toContain("no-store");
  const { error, error_description, ...more } = await response.json();
  expect([typeof error_description, more]).toEqual(["string", {}]);
  return `${response.status} ${error}`;
}

async function answer(decision: "approve" | "deny", { user_code }: { user_code: string }, as = person): Promise<void> {
  const browser = await enter(as);
  const { status } = await browser.post("/device", { accountId: as.id, userCode: user_code, decision });
  expect(status).toBe(303);
}

async function signIn(by = client, as = person): Promise<oauth.TokenEndpointResponse> {
  const begun = await begin(by);
  await answer("approve", begun, as);
  return oauth.processDeviceCodeResponse(server, clientOf(by), await poll(by, begun.device_code));
}

const userinfo = (token: string) => oauth.userInfoRequest(server, clientOf(client), token, loopback());

describe("the device authorization endpoint", () => {
  test("the device authorization endpoint returns a device code, a user code, the URL and the lifetime (RFC 8628 section 3.2)", async () => {
    const response = await ask(client);
    expect(response.headers.get("cache-control")).toContain("no-store");
    const body = await response.json();
    expect([response.status, body]).toEqual([
      200,
      {
        device_code: expect.stringMatching(/^ghd_[\w-]{43}$/),
        user_code: expect.stringMatching(/^[A-Z]{4}-[A-Z]{4}$/),
        verification_uri: `${base}/device`,
        verification_uri_complete: `${base}/device?user_code=${body.user_code}`,
        expires_in: 600,
        interval: 5,
      },
    ]);
  });

  test("stores the address, place and user agent of a device's request, and only a hash of the device code", async () => {
    const address = newAddress();
    const web = await startWeb(supabase.url, {
      env: {
        SUPABASE_PUBLISHABLE_KEY: supabase.publishableKey,
        SUPABASE_SECRET_KEY: supabase.secretKey,
        TRUSTED_PROXY_HOPS: "1",
        VISITOR_CITY_HEADER: "CF-IPCity",
        VISITOR_COUNTRY_HEADER: "CF-IPCountry",
      },
    });
    try {
      const asked = await web.fetch("/oauth/device_authorization", {
        method: "POST",
        headers: {
          "x-forwarded-for": address,
          "user-agent": "curl/8.11.0",
          "CF-IPCity": "Porto",
          "CF-IPCountry": "PT",
        },
        body: new URLSearchParams({ client_id: client.name, scope: "openid" }),
      });
      const begun = (await asked.json()) as { user_code: string; device_code: string };
      const [row] = await query<{ text: string; ip: string; place: string; user_agent: string }>(
        `select to_jsonb(d)::text as text, host(ip) as ip, place ->> 'name' as place, user_agent
         from private.device_authorizations d where user_code = $1`,
        [readUserCode(begun.user_code)],
      );
      expect(row).toMatchObject({ ip: address, place: "Porto, Portugal", user_agent: "curl/8.11.0" });
      expect(row?.text).not.toContain(begun.device_code);
    } finally {
      await web.stop();
    }
  });

  test("accepts a confidential client only with its secret in the header or the body", async () => {
    const secret = confidential.secret ?? "";
    for (const auth of [oauth.ClientSecretBasic(secret), oauth.ClientSecretPost(secret)]) {
      expect((await ask(confidential, { auth })).status).toBe(200);
    }
    for (const auth of [oauth.None(), oauth.ClientSecretBasic("wrong"), oauth.ClientSecretPost("wrong")]) {
      const response = await ask(confidential, { auth });
      expect([response.status, await response.json()]).toMatchObject([401, { error: "invalid_client" }]);
    }
  });

  test("refuses a client without the device grant, and a request with none of the client's scopes", async () => {
    const without = await createDeviceClient({ allowsDeviceGrant: false });
    const refused = await ask(without);
    expect([refused.status, await refused.json()]).toMatchObject([400, { error: "unauthorized_client" }]);
    for (const scope of ["", "studio:read", "ai:use unknown"]) {
      const response = await ask(client, { scope });
      expect([response.status, await response.json()]).toMatchObject([400, { error: "invalid_scope" }]);
    }
    await deleteDeviceClient(without);
  });

  test("refuses the 61st device request from one IP address in 10 minutes with 429 and Retry-After", async () => {
    const address = newAddress();
    for (let nth = 0; nth < 60; nth += 12) {
      const answers = await callAtOnce(() => ask(client, { address }), { times: 12 });
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    }
    const refused = await ask(client, { address });
    expect([refused.status, await refused.json()]).toMatchObject([429, { error: "temporarily_unavailable" }]);
    expect(Number(refused.headers.get("retry-after"))).toBeGreaterThan(0);
  });

  test("the device authorization endpoint accepts no method but POST", async () => {
    expect((await fetch(server.device_authorization_endpoint)).status).toBe(405);
  });
});

describe("a device that polls for its tokens", () => {
  test("a device polls until a person approves it, and then gets working access and refresh tokens with the granted scopes", async () => {
    const begun = await begin();
    expect(await pollError(client, begun.device_code)).toBe("400 authorization_pending");
    expect(await pollError(client, begun.device_code)).toBe("400 slow_down");
    await answer("approve", begun);
    // The slow_down response raised the interval from 5 to 10 seconds, so a poll after 5 seconds is still too early.
    await passSincePoll({ deviceCode: begun.device_code }, 5);
    expect(await pollError(client, begun.device_code)).toBe("400 slow_down");
    await passSincePoll({ deviceCode: begun.device_code }, 15);
    const response = await poll(client, begun.device_code);
    const tokens = await oauth.processDeviceCodeResponse(server, clientOf(client), response);
    expect(tokens).toMatchObject({
      access_token: expect.stringMatching(/^gho_/),
      refresh_token: expect.stringMatching(/^ghr_/),
      scope: "offline_access openid profile",
      expires_in: 3600,
    });
    const claims = oauth.getValidatedIdTokenClaims(tokens);
    expect(claims).toMatchObject({ sub: person.id, aud: client.name, acr: "aal1", amr: ["pwd"] });
    expect(await (await userinfo(tokens.access_token)).json()).toMatchObject({ sub: person.id });
    const refreshed = await oauth.refreshTokenGrantRequest(
      server,
      clientOf(client),
      authOf(client),
      tokens.refresh_token ?? "",
      loopback(),
    );
    expect(refreshed.status).toBe(200);
    expect(await pollError(client, begun.device_code)).toBe("400 invalid_grant");
  });

  test("a poll gets access_denied after a denial, and expired_token after 10 minutes", async () => {
    const [denied, late] = [await begin(), await askFromDevice(client)];
    await answer("deny", denied);
    expect(await pollError(client, denied.device_code)).toBe("400 access_denied");
    await expireRequest(late);
    expect(await pollError(client, late.deviceCode)).toBe("400 expired_token");
  });

  test("many concurrent polls redeem a device code only once", async () => {
    const begun = await begin();
    await answer("approve", begun);
    const answers = await callAtOnce(() => poll(client, begun.device_code));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(atOnce - 1);
  });

  test("refuses another client's device code, an unknown device code, and a wrong client secret", async () => {
    const begun = await begin(confidential);
    await answer("approve", begun);
    expect(await pollError(client, begun.device_code)).toBe("400 invalid_grant");
    expect(await pollError(client, "ghd_unknown")).toBe("400 invalid_grant");
    expect(await pollError(confidential, begun.device_code, oauth.ClientSecretBasic("wrong"))).toBe(
      "401 invalid_client",
    );
    expect((await poll(confidential, begun.device_code)).status).toBe(200);
  });

  test("refuses a poll without a device code", async () => {
    const grant_type = "urn:ietf:params:oauth:grant-type:device_code";
    const response = await fetch(server.token_endpoint, {
      method: "POST",
      headers: { "x-forwarded-for": newAddress() },
      body: new URLSearchParams({ grant_type, client_id: client.name }),
    });
    expect([response.status, await response.json()]).toMatchObject([400, { error: "invalid_request" }]);
  });
});

describe("a device's login", () => {
  const ofLogin = async ({ access_token, refresh_token = "" }: oauth.TokenEndpointResponse) => {
    const refreshed = await oauth.refreshTokenGrantRequest(
      server,
      clientOf(client),
      authOf(client),
      refresh_token,
      loopback(),
    );
    return [(await userinfo(access_token)).status, refreshed.status];
  };

  test("a device's login ends when the factor that approved it is deleted", async () => {
    const owner = await createPerson();
    try {
      const [app] = await insertAuthenticators(owner, ["Phone"]);
      const prove = { factorId: app?.factorId ?? "", code: app ? codeOf(app, 1) : "" };
      const phone = await openPhone({ base, ...supabase }, { ...owner, prove });
      const begun = await begin();
      const path = `/api/v1/auth/device-authorizations/${begun.user_code}/approve`;
      expect((await phone.post(path, { device: unlockedPhone })).status).toBe(200);
      const polled = await poll(client, begun.device_code);
      const tokens = await oauth.processDeviceCodeResponse(server, clientOf(client), polled);
      expect((await userinfo(tokens.access_token)).status).toBe(200);
      const deleted = await fetch(`${supabase.url}/auth/v1/factors/${prove.factorId}`, {
        method: "DELETE",
        headers: { apikey: supabase.publishableKey, authorization: `Bearer ${phone.accessToken}` },
      });
      expect(deleted.status).toBe(200);
      expect(await ofLogin(tokens)).toEqual([401, 400]);
    } finally {
      await deletePerson(owner);
    }
  });

  test("a device's login ends when the owner's password changes", async () => {
    const owner = await createPerson();
    try {
      const tokens = await signIn(client, owner);
      expect((await userinfo(tokens.access_token)).status).toBe(200);
      const { admin } = createClient(supabase.url, supabase.secretKey, { auth: { persistSession: false } }).auth;
      const { error } = await admin.updateUserById(owner.id, { password: `new horse ${crypto.randomUUID()}` });
      expect(error).toBeNull();
      expect(await ofLogin(tokens)).toEqual([401, 400]);
    } finally {
      await deletePerson(owner);
    }
  });

  test("a device's login outlives the sign-out of the browser that approved it", async () => {
    const owner = await createPerson();
    try {
      const { access_token } = await signIn(client, owner);
      await query("delete from auth.sessions where user_id = $1", [owner.id]);
      expect((await userinfo(access_token)).status).toBe(200);
    } finally {
      await deletePerson(owner);
    }
  });

  test("a device's login ends when MFA becomes required, the person is banned, or the client is disabled", async () => {
    const [owner, other, own] = await Promise.all([createPerson(), createPerson(), createDeviceClient()]);
    try {
      const [first, second, third] = [
        await signIn(client, owner),
        await signIn(client, other),
        await signIn(own, person),
      ];
      await requireMfa(owner);
      await query("update auth.users set banned_until = now() + interval '1 hour' where id = $1", [other.id]);
      await query("update private.apps set enabled = false where id = $1", [own.id]);
      for (const { access_token } of [first, second, third]) expect((await userinfo(access_token)).status).toBe(401);
    } finally {
      await Promise.all([deletePerson(owner), deletePerson(other), deleteDeviceClient(own)]);
    }
  });
});

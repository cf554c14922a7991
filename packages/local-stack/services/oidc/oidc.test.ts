import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { client, openBrowser, type RunningServer, startOidcServer } from "./test-server.ts";

let server: RunningServer;
let issuer: string;

beforeAll(async () => {
  server = await startOidcServer();
  issuer = server.origin;
});
afterAll(() => server.stop());

const authorizePath = (changes: Record<string, string> = {}) =>
  `/protocol/openid-connect/auth?${new URLSearchParams({
    client_id: client.id,
    redirect_uri: client.redirectUri,
    response_type: "code",
    scope: "profile email openid",
    state: "a-state",
    ...changes,
  })}`;

/** Submits the sign-in page's form. @returns the response, and where it redirects the browser */
async function submit(form: Record<string, string>, changes: Record<string, string> = {}, open = openBrowser(issuer)) {
  const page = await (await open(authorizePath(changes))).text();
  const action = /<form method="post" action="([^"]+)"/.exec(page)?.[1];
  if (!action) throw new Error(`There is no form on the page: ${page}`);
  const response = await open(action, form);
  return { response, target: URL.parse(response.headers.get("location") ?? "") };
}

function exchange(code: string, { id, secret, redirectUri } = client): Promise<Response> {
  return fetch(`${issuer}/protocol/openid-connect/token`, {
    method: "POST",
    headers: { Authorization: `Basic ${btoa(`${encodeURIComponent(id)}:${encodeURIComponent(secret)}`)}` },
    body: new URLSearchParams({ grant_type: "authorization_code", code, redirect_uri: redirectUri }),
  });
}

const userinfo = (token: string) =>
  fetch(`${issuer}/protocol/openid-connect/userinfo`, { headers: { Authorization: `Bearer ${token}` } });

async function signIn(form: Record<string, string>, changes: Record<string, string> = {}, open = openBrowser(issuer)) {
  const { target } = await submit(form, changes, open);
  const response = await exchange(target?.searchParams.get("code") ?? "");
  const { access_token: token } = (await response.json()) as { access_token: string };
  return userinfo(token);
}

test("the discovery document lists Keycloak's endpoint paths", async () => {
  const response = await fetch(`${issuer}/.well-known/openid-configuration`);
  const base = `${issuer}/protocol/openid-connect`;
  expect(await response.json()).toMatchObject({
    issuer,
    authorization_endpoint: `${base}/auth`,
    token_endpoint: `${base}/token`,
    userinfo_endpoint: `${base}/userinfo`,
    jwks_uri: `${base}/certs`,
  });
});

test("the demo OpenID provider reports that it is healthy", async () => {
  const response = await fetch(`${issuer}/healthz`);
  expect(response.status).toBe(200);
});

describe("Signing in at the demo OpenID provider", () => {
  test("a sign-in with any email returns a code and the state, and the code can be exchanged for verified claims", async () => {
    const { target } = await submit({ email: "Ada@example.test", verified: "on" });
    expect(`${target?.origin}${target?.pathname}`).toBe(client.redirectUri);
    expect(target?.searchParams.get("state")).toBe("a-state");
    const tokens = await exchange(target?.searchParams.get("code") ?? "");
    expect(tokens.status).toBe(200);
    const { access_token: token } = (await tokens.json()) as { access_token: string };
    expect(await (await userinfo(token)).json()).toEqual({
      sub: expect.stringMatching(/^[\w-]{20,}$/),
      email: "ada@example.test",
      email_verified: true,
      name: "ada",
      preferred_username: "ada@example.test",
    });
  });

  test("returns an unverified email if the user chooses it", async () => {
    const claims = await (await signIn({ email: "eve@example.test" })).json();
    expect(claims).toMatchObject({ email: "eve@example.test", email_verified: false });
  });

  test("returns the same subject for the same email, even after another sign-in in the same browser", async () => {
    const open = openBrowser(issuer);
    const subjects: string[] = [];
    for (const email of ["one@example.test", "two@example.test", "one@example.test"]) {
      const { sub } = (await (await signIn({ email, verified: "on" }, {}, open)).json()) as { sub: string };
      subjects.push(sub);
    }
    expect(subjects[2]).toBe(subjects[0]);
    expect(subjects[1]).not.toBe(subjects[0]);
  });

  test("returns access_denied and the state if the user cancels", async () => {
    const { target } = await submit({ cancel: "yes" });
    expect(`${target?.origin}${target?.pathname}`).toBe(client.redirectUri);
    expect(Object.fromEntries(target?.searchParams ?? [])).toMatchObject({ error: "access_denied", state: "a-state" });
    expect(target?.searchParams.has("code")).toBe(false);
  });

  test.each(["", "no address", '"><script>alert(1)</script>'])(
    "shows an error on the page if %j is entered as the email",
    async (email) => {
      const { response } = await submit({ email });
      expect(response.status).toBe(422);
      const page = await response.text();
      expect(page).toContain("Enter an address");
      expect(page).not.toContain("<script>");
    },
  );

  test("refuses a sign-in form over 8 KiB and reads one just below that size", async () => {
    expect((await submit({ email: "a", rest: "x".repeat(8 * 1024) })).response.status).toBe(413);
    expect((await submit({ email: "a", rest: "x".repeat(8 * 1024 - 20) })).response.status).toBe(422);
  });
});

describe("Refusals of the demo OpenID provider", () => {
  test("answers 400 for the page of an unknown sign-in", async () => {
    expect((await openBrowser(issuer)("/sign-in/unknown")).status).toBe(400);
  });

  test.each<Record<string, string>>([{ redirect_uri: "http://127.0.0.1:9/elsewhere" }, { client_id: "another" }])(
    "refuses an authorization request with %j and does not redirect it",
    async (changes) => {
      const response = await openBrowser(issuer)(authorizePath(changes));
      expect(response.status).toBe(400);
      expect(response.headers.has("location")).toBe(false);
    },
  );

  test("refuses a code with a wrong client secret, and a code that was already used", async () => {
    const { target } = await submit({ email: "ada@example.test" });
    const code = target?.searchParams.get("code") ?? "";
    expect((await exchange(code, { ...client, secret: "wrong" })).status).toBe(401);
    expect((await exchange(code)).status).toBe(200);
    expect((await exchange(code)).status).toBe(400);
  });

  test("refuses UserInfo to a client that did not request the openid scope, as Keycloak does since version 20", async () => {
    const answer = await signIn({ email: "ada@example.test" }, { scope: "profile email" });
    expect(answer.status).toBe(403);
  });
});

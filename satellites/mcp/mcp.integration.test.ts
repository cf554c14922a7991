import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { serve } from "@hono/node-server";
import type { OAuthClientProvider } from "@modelcontextprotocol/sdk/client/auth.js";
import { UnauthorizedError } from "@modelcontextprotocol/sdk/client/auth.js";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import type { OAuthClientInformationMixed, OAuthTokens } from "@modelcontextprotocol/sdk/shared/auth.js";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { codeOf } from "../../remix-app/testing/authenticator-app.ts";
import { openBrowser } from "../../remix-app/testing/browser.ts";
import { newAddress } from "../../remix-app/testing/visitor.ts";
import { createApp, type TestApp } from "../../scripts/test/apps.ts";
import { decisionForm, leadsTo } from "../../scripts/test/openid.ts";
import {
  createPerson,
  deletePerson,
  enter,
  insertAuthenticators,
  type Person,
  query,
  requireMfa,
  type SignedInBrowser,
  signIn,
} from "../../scripts/test/people.ts";
import { readStack } from "../../scripts/test/stack.ts";
import { createTools } from "./app.ts";

const { base } = readStack();
const redirectUri = "http://127.0.0.1:8976/callback";

/** An MCP server that is registered as an app, at the URL that is its token audience. */
interface Tools {
  app: TestApp;
  url: string;
  stop(): void;
}

async function startTools(displayName: string): Promise<Tools> {
  let fetchTools: (request: Request) => Response | Promise<Response> = () => new Response(null, { status: 503 });
  const server = serve({ fetch: (request) => fetchTools(request), hostname: "127.0.0.1", port: 0 }) as Server;
  await new Promise<void>((resolve) => (server.listening ? resolve() : server.once("listening", resolve)));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const app = await createApp({ displayName, scopes: ["profile"] });
  await query("update private.apps set resource_url = null where resource_url = $1", [url]);
  await query("update private.apps set resource_url = $2 where id = $1", [app.id, url]);
  const options = { appName: app.name, appSecret: app.secret, resourceUrl: url, platformUrl: base, env: {} };
  fetchTools = createTools(options).fetch;
  return { app, url, stop: () => server.close() };
}

/** The state that an application gives the SDK's client. Everything else is the unmodified SDK. */
class Connection implements OAuthClientProvider {
  readonly clientMetadata = { client_name: "Test editor", redirect_uris: [redirectUri] };
  readonly redirectUrl = redirectUri;
  information: OAuthClientInformationMixed | undefined;
  held: OAuthTokens | undefined;
  verifier = "";
  /** Where the SDK wants the person to sign in; null if it did not ask. */
  authorizationUrl: URL | null = null;
  readonly url: string;
  private readonly address = newAddress();

  constructor(url: string, information?: OAuthClientInformationMixed) {
    this.url = url;
    this.information = information;
  }

  clientInformation() {
    return this.information;
  }
  saveClientInformation(information: OAuthClientInformationMixed) {
    this.information = information;
  }
  tokens() {
    return this.held;
  }
  saveTokens(tokens: OAuthTokens) {
    this.held = tokens;
  }
  redirectToAuthorization(url: URL) {
    this.authorizationUrl = url;
  }
  saveCodeVerifier(verifier: string) {
    this.verifier = verifier;
  }
  codeVerifier() {
    return this.verifier;
  }
  invalidateCredentials(scope: string) {
    if (scope === "all" || scope === "tokens") this.held = undefined;
    if (scope === "all" || scope === "client") this.information = undefined;
  }

  /** Each connection has an address of its own, because an address may register few clients. */
  private transport() {
    const requestInit = { headers: { "x-forwarded-for": this.address } };
    return new StreamableHTTPClientTransport(new URL(this.url), { authProvider: this, requestInit });
  }

  /** Calls the tool. @returns its text, or null if the person has to sign in first */
  async whoami(): Promise<string | null> {
    const transport = this.transport();
    const client = new Client({ name: "test", version: "1" });
    try {
      await client.connect(transport);
      const { content } = await client.callTool({ name: "whoami" });
      return (content as { text: string }[])[0]?.text ?? "";
    } catch (error) {
      if (error instanceof UnauthorizedError) return null;
      throw error;
    } finally {
      await client.close();
    }
  }

  async finish(code: string): Promise<void> {
    const transport = this.transport();
    await transport.finishAuth(code);
  }

  /** The path of the authorization request, with changed parameters. */
  request(changes: Record<string, string | null> = {}): string {
    const url = new URL(this.authorizationUrl ?? "");
    for (const [name, value] of Object.entries(changes)) {
      if (value === null) url.searchParams.delete(name);
      else url.searchParams.set(name, value);
    }
    return `${url.pathname}${url.search}`;
  }
}

/** Agrees on the consent page. @returns the client's redirect URL */
async function agree(browser: SignedInBrowser, path: string): Promise<URL> {
  const page = await browser.get(path);
  const form = decisionForm(page.text);
  const address = leadsTo(form ? await browser.post(form.action, { accountId: form.accountId }) : page);
  if (!address) throw new Error(`the authorization answered ${page.status} ${page.location}: ${page.words}`);
  return address;
}

const codeIn = (address: URL) => address.searchParams.get("code") ?? "";

/** Connects a new client to the tools, as a person who agrees. */
async function connect(browser: SignedInBrowser, url: string, information?: OAuthClientInformationMixed) {
  const connection = new Connection(url, information);
  expect(await connection.whoami()).toBeNull();
  await connection.finish(codeIn(await agree(browser, connection.request())));
  return connection;
}

function post(path: string, form: Record<string, string>, headers: Record<string, string> = {}): Promise<Response> {
  const body = new URLSearchParams(form);
  return fetch(`${base}${path}`, { method: "POST", body, headers: { "x-forwarded-for": newAddress(), ...headers } });
}

const basic = ({ name, secret }: TestApp) => ({ authorization: `Basic ${btoa(`${name}:${secret}`)}` });

async function introspect(tools: Tools, token: string): Promise<Record<string, unknown>> {
  return (await post("/oauth/introspect", { token }, basic(tools.app))).json();
}

function claimsOf(token: string): Record<string, unknown> {
  return JSON.parse(Buffer.from(token.split(".")[1] ?? "", "base64url").toString());
}

const register = (body: unknown, address = newAddress()) =>
  fetch(`${base}/oauth/register`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-forwarded-for": address },
    body: JSON.stringify(body),
  });

let tools: Tools;
let others: Tools;
let person: Person;
let browser: SignedInBrowser;

beforeAll(async () => {
  [tools, others] = await Promise.all([startTools("Team tools"), startTools("Other tools")]);
});
beforeEach(async () => {
  person = await createPerson();
  await query("update public.profiles set display_name = 'Ada' where id = $1", [person.id]);
  browser = await enter(person);
  return () => deletePerson(person);
});
afterAll(async () => {
  for (const { stop, app } of [tools, others]) {
    stop();
    await query("delete from private.apps where id = $1", [app.id]);
  }
});

describe("the MCP SDK's client", () => {
  test("registers itself, signs a person in after their consent, and calls the tool", async () => {
    const connection = new Connection(tools.url);
    expect(await connection.whoami()).toBeNull();
    expect(connection.information).toMatchObject({
      client_id: expect.stringMatching(/^client-[0-9a-f]{32}$/),
      token_endpoint_auth_method: "none",
    });
    expect(connection.information).not.toHaveProperty("client_secret");
    const page = await browser.get(connection.request());
    expect(page.words).toMatch(
      /^Connect Test editor to Team tools You’ll return to 127\.0\.0\.1:8976\. “Test editor” is a name that the app chose itself\. Continue only if you started this\. Test editor will be able to: Use Team tools on your behalf See your name and picture Stay connected for up to 30 days/,
    );
    const address = await agree(browser, connection.request());
    expect(address.searchParams.get("iss")).toBe(base);
    await connection.finish(codeIn(address));
    expect(await connection.whoami()).toBe("You are Ada.");
    expect(claimsOf(connection.held?.access_token ?? "")).toMatchObject({
      iss: base,
      aud: tools.url,
      sub: person.id,
      client_id: connection.information?.client_id,
      scope: "openid profile",
    });
    expect(connection.held?.expires_in).toBe(600);
  });

  test("renews an expired access token, and reusing an old refresh token ends the connection", async () => {
    const connection = await connect(browser, tools.url);
    const first = connection.held;
    await query(
      `update private.openid_tokens set access_expires_at = now() where grant_id in
         (select id from private.openid_grants where user_id = $1)`,
      [person.id],
    );
    expect(await connection.whoami()).toBe("You are Ada.");
    expect(connection.held?.refresh_token).not.toBe(first?.refresh_token);
    await query(
      `update private.openid_tokens set refreshed_at = now() - interval '31 seconds'
       where refreshed_at is not null and grant_id in (select id from private.openid_grants where user_id = $1)`,
      [person.id],
    );
    const stolen = {
      grant_type: "refresh_token",
      refresh_token: first?.refresh_token ?? "",
      client_id: connection.information?.client_id ?? "",
    };
    expect(await (await post("/oauth/token", stolen)).json()).toMatchObject({ error: "invalid_grant" });
    expect(await connection.whoami()).toBeNull();
  });

  test("is refused on the next call after MFA became required, and works again after the second factor", async () => {
    const connection = await connect(browser, tools.url);
    expect(await connection.whoami()).toBe("You are Ada.");
    const [app] = await insertAuthenticators(person, ["Phone"]);
    await requireMfa(person);
    expect(await connection.whoami()).toBeNull();
    const { location } = await browser.get(connection.request());
    expect(location).toMatch(/^\/mfa\?returnUrl=/);
    const factor = { factorId: app?.factorId ?? "", code: codeOf({ secret: app?.secret ?? "" }) };
    const verified = await browser.post(location ?? "", factor);
    await connection.finish(codeIn(await agree(browser, verified.location ?? "")));
    expect(await connection.whoami()).toBe("You are Ada.");
    expect(claimsOf(connection.held?.access_token ?? "")).toMatchObject({ acr: "aal2" });
  });

  test.each([
    ["the person signs out everywhere", "select private.sign_out_everywhere($1, null)", () => person.id],
    [
      "the person is banned",
      "update auth.users set banned_until = now() + interval '1 day' where id = $1",
      () => person.id,
    ],
    ["the MCP server is turned off", "update private.apps set enabled = false where id = $1", () => tools.app.id],
  ])("is refused on the next call once %s", async (_, sql, id) => {
    const connection = await connect(browser, tools.url);
    const refreshToken = connection.held?.refresh_token ?? "";
    await query(sql, [id()]);
    const call = fetch(tools.url, {
      method: "POST",
      headers: { authorization: `Bearer ${connection.held?.access_token}` },
    });
    expect((await call).status).toBe(sql.includes("enabled") ? 503 : 401);
    const again = { grant_type: "refresh_token", refresh_token: refreshToken };
    const renewed = await post("/oauth/token", { ...again, client_id: connection.information?.client_id ?? "" });
    expect(await renewed.json()).toMatchObject({ error: "invalid_grant" });
    await query("update private.apps set enabled = true where id = $1", [tools.app.id]);
    expect(await introspect(tools, connection.held?.access_token ?? "")).toEqual({ active: false });
  });

  test("is listed with its server and last use, and is refused on the next call once it is disconnected", async () => {
    const connection = await connect(browser, tools.url);
    const list = "/settings/security/apps";
    expect((await browser.get(list)).words).toContain("This app can: Use Team tools on your behalf");
    expect((await browser.get("/settings/security/access")).words).toContain("Test editor for Team tools");
    const name = connection.information?.client_id;
    expect(
      await query(
        `select name, last_used_at is not null as used, is_live from private.account_credentials
         where user_id = $1 and kind = 'openid_login'`,
        [person.id],
      ),
    ).toEqual([{ name: "Test editor for Team tools", used: true, is_live: true }]);
    expect((await browser.post(`${list}/${name}/disconnect`, {})).status).toBe(303);
    expect(await connection.whoami()).toBeNull();
  });
});

/** A metadata document on this machine, whose answer a test can change. */
interface DocumentServer {
  url: string;
  requests: number;
  answer: { status: number; headers: Record<string, string>; body: string };
}

describe("a client with a metadata document", () => {
  const callback = "https://editor.example/callback";
  const document: DocumentServer = { url: "", requests: 0, answer: { status: 200, headers: {}, body: "" } };
  let server: Server;

  function describeClient(changes: object = {}, headers: Record<string, string> = {}) {
    const body = { client_id: document.url, client_name: "Web editor", redirect_uris: [callback], ...changes };
    document.answer = {
      status: 200,
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify(body),
    };
  }
  function padDocument(bytes: number) {
    document.answer.body = document.answer.body.padEnd(bytes);
  }
  const authorize = (changes: Record<string, string | null> = {}) => {
    const connection = new Connection(tools.url);
    connection.authorizationUrl = new URL(
      `${base}/oauth/authorize?${new URLSearchParams({
        client_id: document.url,
        redirect_uri: callback,
        response_type: "code",
        scope: "openid",
        resource: tools.url,
        code_challenge: "c".repeat(43),
        code_challenge_method: "S256",
      })}`,
    );
    return connection.request(changes);
  };

  beforeAll(async () => {
    server = createServer((_, response) => {
      document.requests += 1;
      response.writeHead(document.answer.status, document.answer.headers).end(document.answer.body);
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  });
  beforeEach(() => {
    const { port } = server.address() as AddressInfo;
    document.url = `http://127.0.0.1:${port}/${crypto.randomUUID()}.json`;
    document.requests = 0;
    describeClient();
  });
  afterAll(() => server.close());

  test("signs a person in with the SDK, and the document is fetched once while it is fresh", async () => {
    describeClient({ redirect_uris: [redirectUri] });
    const connection = await connect(browser, tools.url, { client_id: document.url });
    expect(await connection.whoami()).toBe("You are Ada.");
    expect(claimsOf(connection.held?.access_token ?? "")).toMatchObject({ client_id: document.url, aud: tools.url });
    await connect(browser, tools.url, { client_id: document.url });
    expect(document.requests).toBe(1);
  });

  test("is shown with the host of its document, and its consent is remembered for one server", async () => {
    const page = await browser.get(authorize());
    expect(page.words).toContain("Connect Web editor to Team tools You’ll return to editor.example.");
    expect(page.words).toContain(`This app is from ${new URL(document.url).host}.`);
    await agree(browser, authorize());
    expect(leadsTo(await browser.get(authorize()))?.origin).toBe("https://editor.example");
    expect(decisionForm((await browser.get(authorize({ resource: others.url }))).text)).not.toBeNull();
    expect(decisionForm((await browser.get(authorize({ scope: "openid profile" }))).text)).not.toBeNull();
  });

  test.each([
    ["names no server", { resource: null }],
    ["is too long", { state: "x".repeat(8_193) }],
  ])("has no document fetched for a request that %s", async (_, changes) => {
    const page = await openBrowser(base).get(authorize(changes));
    expect([page.status, document.requests]).toEqual([400, 0]);
  });

  test("may have a document of 16,384 bytes", async () => {
    padDocument(16_384);
    expect(decisionForm((await browser.get(authorize())).text)).not.toBeNull();
  });

  test("shows no sign-in to a visitor for a request with prompt=none, also while its document is not fresh", async () => {
    const silently = async () => {
      const { status, location, text } = await openBrowser(base).get(authorize({ prompt: "none" }));
      return [status, location, /error=\w+/.exec(text)?.[0]];
    };
    expect(await silently()).toEqual([400, null, undefined]);
    await agree(browser, authorize());
    await query("update private.openid_clients set metadata_expires_at = now() where metadata_url = $1", [
      document.url,
    ]);
    expect(await silently()).toEqual([400, null, "error=login_required"]);
    expect(document.requests).toBe(1);
  });

  test("is not fetched before the visitor has signed in, who then gets back to the request", async () => {
    const visitor = await openBrowser(base).get(authorize());
    expect([visitor.location, document.requests]).toEqual([expect.stringMatching(/^\/login\?/), 0]);
    const returnUrl = new URL(visitor.location ?? "", base).searchParams.get("returnUrl") ?? "";
    const signedIn = await signIn(person, { returnUrl });
    const page = await signedIn.get(signedIn.location ?? "");
    expect([page.words, document.requests]).toEqual([expect.stringContaining("Connect Web editor to Team tools"), 1]);
  });

  test.each([
    [
      "redirects",
      () => Object.assign(document.answer, { status: 302, headers: { location: document.url } }),
      "unavailable",
    ],
    ["is missing", () => Object.assign(document.answer, { status: 404 }), "unavailable"],
    [
      "is not JSON by its type",
      () => Object.assign(document.answer, { headers: { "content-type": "text/html" } }),
      "unavailable",
    ],
    ["has 16,385 bytes", () => padDocument(16_385), "unavailable"],
    ["is of another client", () => describeClient({ client_id: `${document.url}2` }), "invalid"],
    ["has no redirect URI", () => describeClient({ redirect_uris: [] }), "invalid"],
    ["has a secret", () => describeClient({ client_secret: "s" }), "invalid"],
    ["needs a client assertion", () => describeClient({ token_endpoint_auth_method: "private_key_jwt" }), "invalid"],
  ] as const)("is refused if the document %s", async (_, change, outcome) => {
    change();
    const page = await browser.get(authorize());
    expect(page.status).toBe(400);
    expect(page.words).toContain(outcome === "invalid" ? "Its description isn’t valid." : "couldn’t be loaded");
    expect(await query("select from private.openid_clients where metadata_url = $1", [document.url])).toEqual([]);
  });

  test.each(["https://10.0.0.1/client.json", "https://169.254.169.254/latest", "http://192.0.2.1/client.json"])(
    "is refused if its document is at %s",
    async (url) => {
      const page = await browser.get(authorize({ client_id: url }));
      expect(page.status).toBe(400);
    },
  );

  test("keeps its connections but has to ask again after its redirect URIs changed", async () => {
    await agree(browser, authorize());
    const other = "https://editor.example/other";
    describeClient({ redirect_uris: [other] });
    await query("update private.openid_clients set metadata_expires_at = now() where metadata_url = $1", [
      document.url,
    ]);
    const refused = await browser.get(authorize());
    expect([refused.status, leadsTo(refused)]).toEqual([400, null]);
    expect(decisionForm((await browser.get(authorize({ redirect_uri: other }))).text)).not.toBeNull();
  });

  test("is known by its URL only, not by its internal name", async () => {
    await agree(browser, authorize());
    const [client] = await query<{ name: string }>(
      "select a.name from private.apps a join private.openid_clients c on c.app_id = a.id where c.metadata_url = $1",
      [document.url],
    );
    const page = await browser.get(authorize({ client_id: client?.name ?? "" }));
    expect([page.status, page.words]).toEqual([400, expect.stringContaining("This app isn’t registered")]);
  });

  test("stays disabled after an operator disabled it", async () => {
    await agree(browser, authorize());
    await query(
      `update private.apps set enabled = false
       where id = (select app_id from private.openid_clients where metadata_url = $1)`,
      [document.url],
    );
    await query("update private.openid_clients set metadata_expires_at = now() where metadata_url = $1", [
      document.url,
    ]);
    expect((await browser.get(authorize())).words).toContain("This app is turned off");
  });
});

describe("attacks", () => {
  const refusalOf = async (response: Promise<Response>) => ((await (await response).json()) as { error: string }).error;

  test("a token for one server works nowhere else", async () => {
    const connection = await connect(browser, tools.url);
    const token = connection.held?.access_token ?? "";
    const use = (url: string, bearer: string) =>
      fetch(url, { method: "POST", headers: { authorization: `Bearer ${bearer}` } }).then(({ status }) => status);
    expect(await introspect(tools, token)).toMatchObject({ active: true, aud: tools.url, name: "Ada" });
    expect(await introspect(tools, token)).not.toHaveProperty("email");
    expect(await use(others.url, token)).toBe(401);
    expect(await introspect(others, token)).toEqual({ active: false });
    expect(await introspect(tools, connection.held?.refresh_token ?? "")).toEqual({ active: false });
    // The platform's own APIs refuse it, whole or as the opaque token within it.
    const opaque = `gho_${claimsOf(token).jti}`;
    for (const bearer of [token, opaque]) {
      const headers = { authorization: `Bearer ${bearer}` };
      for (const path of ["/oauth/userinfo", "/api/v1/workspaces"]) {
        expect((await fetch(`${base}${path}`, { headers })).status).toBe(401);
      }
    }
    // Neither does the server accept the platform's other tokens.
    for (const bearer of [opaque, connection.held?.id_token ?? "", connection.held?.refresh_token ?? ""]) {
      expect(await use(tools.url, bearer)).toBe(401);
    }
    const [header, , signature] = token.split(".");
    const claims = Buffer.from(JSON.stringify({ ...claimsOf(token), aud: others.url })).toString("base64url");
    expect(await use(others.url, [header, claims, signature].join("."))).toBe(401);
    expect(await introspect(others, [header, claims, signature].join("."))).toEqual({ active: false });
  });

  test("a code is worth nothing to another client, without its verifier, or for another server", async () => {
    const connection = new Connection(tools.url);
    await connection.whoami();
    const stranger = (await (await register(connection.clientMetadata)).json()) as { client_id: string };
    const code = codeIn(await agree(browser, connection.request()));
    const grant = {
      grant_type: "authorization_code",
      code,
      redirect_uri: redirectUri,
      client_id: connection.information?.client_id ?? "",
      code_verifier: connection.verifier,
      resource: tools.url,
    };
    const { code_verifier: _, ...withoutVerifier } = grant;
    const attempts: [Record<string, string>, string][] = [
      [{ ...grant, client_id: stranger.client_id }, "invalid_grant"],
      [{ ...grant, code_verifier: "v".repeat(43) }, "invalid_grant"],
      [{ ...grant, redirect_uri: "https://evil.example/callback" }, "invalid_grant"],
      [{ ...grant, resource: others.url }, "invalid_target"],
      [{ ...grant, resource: "not a URL" }, "invalid_target"],
    ];
    for (const [form, error] of attempts) expect(await refusalOf(post("/oauth/token", form))).toBe(error);
    expect((await post("/oauth/token", withoutVerifier)).status).toBe(400);
    const tokens = (await (await post("/oauth/token", grant)).json()) as OAuthTokens;
    const renewal = {
      grant_type: "refresh_token",
      refresh_token: tokens.refresh_token ?? "",
      client_id: grant.client_id,
    };
    expect(await refusalOf(post("/oauth/token", { ...renewal, resource: others.url }))).toBe("invalid_target");
    expect(await refusalOf(post("/oauth/token", { ...renewal, client_id: stranger.client_id }))).toBe("invalid_grant");
    expect((await post("/oauth/token", { ...renewal, resource: tools.url })).status).toBe(200);
  });

  test.each([
    ["no resource", { resource: null }, "invalid_target"],
    ["an unknown resource", { resource: "https://tools.example/mcp" }, "invalid_target"],
    ["an empty resource", { resource: "" }, "invalid_target"],
    ["no PKCE", { code_challenge: null, code_challenge_method: null }, "invalid_request"],
    ["plain PKCE", { code_challenge_method: "plain" }, "invalid_request"],
    ["only scopes of the platform's API", { scope: "workspaces:read studio:keys" }, "invalid_scope"],
    ["no page for the person", { prompt: "none" }, "consent_required"],
  ])(
    "a client that registered itself gets no code with %s; the error names the issuer, and leads to the client by a click only",
    async (_, changes, error) => {
      const connection = new Connection(tools.url);
      await connection.whoami();
      const page = await browser.get(connection.request(changes as Record<string, string | null>));
      expect([page.status, leadsTo(page)]).toEqual([400, null]);
      const [, link = ""] = /href="(http:\/\/127\.0\.0\.1:8976[^"]*)"/.exec(page.text) ?? [];
      const address = new URL(link.replaceAll("&amp;", "&"));
      expect(page.words).toContain("Return to 127.0.0.1:8976");
      expect([address.searchParams.get("error"), address.searchParams.get("iss")]).toEqual([error, base]);
    },
  );

  test("no code is issued without a click on this platform's page, also after an earlier consent", async () => {
    const connection = await connect(browser, tools.url);
    await connection.whoami();
    const silent = await browser.get(connection.request({ prompt: "none" }));
    expect([leadsTo(silent), silent.text]).toEqual([null, expect.stringContaining("error=consent_required")]);
    const page = await browser.get(connection.request());
    const form = decisionForm(page.text);
    const foreign = await fetch(new URL(form?.action ?? "", base), {
      method: "POST",
      redirect: "manual",
      headers: { cookie: browser.cookie(), origin: "https://evil.example", "sec-fetch-site": "cross-site" },
      body: new URLSearchParams({ accountId: form?.accountId ?? "" }),
    });
    expect([
      foreign.status,
      leadsTo({ location: foreign.headers.get("location"), text: await foreign.text() }),
    ]).toEqual([403, null]);
  });

  test("an address registers at most 20 clients an hour", async () => {
    const address = newAddress();
    const metadata = { client_name: "Bot", redirect_uris: ["https://bot.example/callback"] };
    const statuses: number[] = [];
    for (let count = 0; count < 21; count += 1) statuses.push((await register(metadata, address)).status);
    expect(statuses).toEqual([...Array(20).fill(201), 429]);
  });

  test.each([
    ["no redirect URI", { redirect_uris: [] }, "invalid_redirect_uri"],
    ["a wildcard", { redirect_uris: ["https://a.example/*"] }, "invalid_redirect_uri"],
    ["a script", { redirect_uris: ["javascript:alert(1)"] }, "invalid_redirect_uri"],
    ["plain http", { redirect_uris: ["http://a.example/callback"] }, "invalid_redirect_uri"],
    ["another grant", { redirect_uris: ["https://a.example/"], grant_types: ["password"] }, "invalid_client_metadata"],
    [
      "the platform's name",
      { redirect_uris: ["https://a.example/"], client_name: "Gаtehouse" },
      "invalid_client_metadata",
    ],
    ["a list for a name", { redirect_uris: ["https://a.example/"], client_name: [] }, "invalid_client_metadata"],
    ["no object", [], "invalid_client_metadata"],
  ])("a registration with %s is refused", async (_, metadata, error) => {
    const response = await register(metadata);
    expect([response.status, await response.json()]).toEqual([400, expect.objectContaining({ error })]);
  });

  test("a client that asks for a secret gets none", async () => {
    const metadata = { redirect_uris: ["cursor://anysphere.cursor-mcp/oauth/callback"] };
    const response = await register({ ...metadata, token_endpoint_auth_method: "client_secret_post" });
    const body = (await response.json()) as object;
    expect(body).toMatchObject({ token_endpoint_auth_method: "none", client_name: "An unnamed app", ...metadata });
    expect(Object.keys(body).filter((name) => name.includes("secret"))).toEqual([]);
  });
});

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

  /** Calls the tool. @returns its text, or null if the person has to sign in first */
  async whoami(): Promise<string | null> {
    const transport = new StreamableHTTPClientTransport(new URL(this.url), { authProvider: this });
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
    const transport = new StreamableHTTPClientTransport(new URL(this.url), { authProvider: this });
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

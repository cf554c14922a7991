import { describe, expect, test } from "vitest";
import { hashToBytea } from "../apps/opaque-tokens.ts";
import { readClientRequest } from "./client-auth.ts";

const context = { env: { BASE_URL: "https://accounts.example.com" } } as never;
const basic = (text: string) => `Basic ${Buffer.from(text).toString("base64")}`;

function requestOf(body: string, headers: Record<string, string> = {}) {
  return new Request("https://accounts.example.com/oauth/token", {
    method: "POST",
    body,
    headers: { "content-type": "application/x-www-form-urlencoded", ...headers },
  });
}
const read = (body: string, headers?: Record<string, string>) => readClientRequest(requestOf(body, headers), context);
async function refusal(body: string, headers?: Record<string, string>) {
  const thrown = await read(body, headers).then(
    () => Promise.reject(new Error("it was accepted")),
    (response: Response) => response,
  );
  const { error } = await thrown.json();
  return { status: thrown.status, error, challenge: thrown.headers.get("www-authenticate") };
}

describe("a client's credentials", () => {
  test("decodes the client credentials of a Basic Authorization header as form data (RFC 6749 section 2.3.1)", async () => {
    const { client } = await read("a=1", { authorization: basic("my%20app:s%3Acret%2B+x") });
    expect(client).toEqual({ id: "my app", secretHash: hashToBytea("s:cret+ x"), method: "client_secret_basic" });
  });

  test("reads client credentials from the body, and doesn't pass the secret on", async () => {
    const { client, form } = await read("client_id=charts&client_secret=s&code=c");
    expect(client).toEqual({ id: "charts", secretHash: hashToBytea("s"), method: "client_secret_post" });
    expect([...form]).toEqual([
      ["client_id", "charts"],
      ["code", "c"],
    ]);
  });

  test("reads only the id of a public client; an empty secret counts as absent", async () => {
    const expected = { id: "charts", secretHash: null, method: "none" };
    expect((await read("client_id=charts")).client).toEqual(expected);
    expect((await read("client_id=charts&client_secret=")).client).toEqual(expected);
  });

  test("accepts the same client id in the body and the header", async () => {
    expect((await read("client_id=charts", { authorization: basic("charts:s") })).client.id).toBe("charts");
  });

  test.each([
    ["in both places", "client_secret=s", "charts:s"],
    ["for two clients", "client_id=other", "charts:s"],
  ])("accepts client credentials in the body or the Authorization header, but not %s", async (_, body, credentials) => {
    expect(await refusal(body, { authorization: basic(credentials) })).toMatchObject({
      status: 400,
      error: "invalid_request",
    });
  });

  test.each([basic("charts:%zz"), basic("charts"), basic(":s"), basic("a%00:s"), "Bearer abc", "Basic !"])(
    "answers unreadable client credentials with a WWW-Authenticate challenge: %s",
    async (authorization) => {
      const challenge = 'Basic realm="https://accounts.example.com", charset="UTF-8"';
      expect(await refusal("a=1", { authorization })).toEqual({ status: 401, error: "invalid_client", challenge });
    },
  );

  test.each(["a=1", "client_assertion=x&client_assertion_type=y", "client_secret=s"])(
    "refuses missing client credentials and unknown authentication methods: %s",
    async (body) => {
      expect(await refusal(body)).toEqual({ status: 401, error: "invalid_client", challenge: null });
    },
  );
});

describe("the form body of an OpenID client's request", () => {
  const many = (count: number) => Array.from({ length: count }, (_, index) => `p${index}=1`).join("&");

  test.each(["client_id=a&client_id=a", "client_id=a&code=1&code=", "client_id=a&code=%00", `client_id=a&${many(50)}`])(
    "answers invalid_request to the form body %s",
    async (body) => {
      expect(await refusal(body)).toMatchObject({ status: 400, error: "invalid_request" });
    },
  );

  test("accepts an OpenID client's form with 50 parameters", async () => {
    expect((await read(`client_id=a&${many(49)}`)).form.size).toBe(50);
  });

  test("refuses JSON in place of a form", async () => {
    expect(await refusal("{}", { "content-type": "application/json" })).toMatchObject({ error: "invalid_request" });
  });
});

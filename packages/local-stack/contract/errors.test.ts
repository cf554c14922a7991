import { describe, expect, test } from "vitest";
import { newAccount, newEmail, password } from "./support/accounts.ts";
import { type CallOptions, call, expectOk, expectRefusal } from "./support/http.ts";

const wrongSignIn = (options: CallOptions = {}) =>
  call("POST /token?grant_type=password", { body: { email: newEmail(), password: "wrong" }, ...options });

describe("error bodies by API version", () => {
  test.each(["2024-01-01", "2024-05-31", "2199-01-01"])(
    "an error with API version %s has code and message, and echoes the version",
    async (version) => {
      const answer = await wrongSignIn({ version });
      expect(answer.body).toEqual({ code: "invalid_credentials", message: expect.any(String) });
      expect(answer.headers.get("x-supabase-api-version")).toBe("2024-01-01");
    },
  );

  test.each([null, "2023-12-31", "yesterday", "20240101", "2024-02-30"])(
    "errors of a request with API version %s have the older shape and no version header",
    async (version) => {
      const answer = await wrongSignIn({ version });
      expect(answer.body).toEqual({ code: 400, error_code: "invalid_credentials", msg: expect.any(String) });
      expect(answer.headers.has("x-supabase-api-version")).toBe(false);
    },
  );

  test("a successful response does not echo the API version", async () => {
    const answer = await call("GET /health");
    expect(answer.headers.has("x-supabase-api-version")).toBe(false);
  });

  test("an error has its code in x-sb-error-code, with or without an API version", async () => {
    expect((await wrongSignIn()).headers.get("x-sb-error-code")).toBe("invalid_credentials");
    expect((await wrongSignIn({ version: null })).headers.get("x-sb-error-code")).toBe("invalid_credentials");
  });

  test("a weak_password error always lists its reasons, but has x-sb-error-code only without an API version", async () => {
    const body = { email: newEmail(), password: "short" };
    const newer = await call("POST /signup", { body });
    expect(newer.body).toMatchObject({ code: "weak_password", weak_password: { reasons: ["length"] } });
    expect(newer.headers.has("x-sb-error-code")).toBe(false);
    const older = await call("POST /signup", { body, version: null });
    expect(older.body).toMatchObject({ error_code: "weak_password", weak_password: { reasons: ["length"] } });
    expect(older.headers.get("x-sb-error-code")).toBe("weak_password");
  });
});

describe("request bodies", () => {
  const json = { "Content-Type": "application/json" };

  test.each(["", "{", "[]", '"text"', '{"email":5}', '{"data":[]}', '{"email":{}}'])(
    "the request body %s gets 400 bad_json",
    async (rawBody) => {
      expectRefusal(await call("POST /signup", { rawBody, headers: json }), 400, "bad_json");
    },
  );

  test("the request body null counts as an empty object", async () => {
    const answer = (route: string) => call(route, { rawBody: "null", headers: json });
    expectRefusal(await answer("POST /signup"), 422, "anonymous_provider_disabled");
    expectRefusal(await answer("POST /token?grant_type=refresh_token"), 400, "validation_failed");
    expectRefusal(await answer("POST /verify"), 400, "validation_failed");
  });

  test("a form as the request body gets 400 bad_json", async () => {
    const rawBody = new URLSearchParams({ email: newEmail(), password: "correct horse 1" });
    expectRefusal(await call("POST /signup", { rawBody }), 400, "bad_json");
  });

  test("unknown fields of a request body are ignored", async () => {
    const answer = await wrongSignIn({ body: { email: newEmail(), password: "wrong", more: [1, { deep: null }] } });
    expectRefusal(answer, 400, "invalid_credentials");
  });

  test("field names of a request body are case-insensitive, and the last duplicate wins", async () => {
    const { email } = await newAccount();
    const send = (rawBody: string) => call("POST /token?grant_type=password", { rawBody, headers: json });
    expectOk(await send(JSON.stringify({ EMAIL: email, Password: password })));
    expectRefusal(await send(JSON.stringify({ email, password, PASSWORD: "wrong" })), 400, "invalid_credentials");
    expectOk(await send(JSON.stringify({ email, PASSWORD: "wrong", password })));
  });

  test("a null field of a request body counts as absent", async () => {
    expectRefusal(await call("POST /recover", { body: { email: null } }), 400, "validation_failed");
  });

  test("reads request bodies of up to 1 MiB, and refuses longer ones with 413 request_entity_too_large", async () => {
    const body = (bytes: number) => {
      const bare = JSON.stringify({ email: newEmail(), password: "wrong", pad: "" });
      return bare.replace('"pad":""', `"pad":"${"x".repeat(bytes - bare.length)}"`);
    };
    const send = (bytes: number) => call("POST /token?grant_type=password", { rawBody: body(bytes), headers: json });
    expectRefusal(await send(1_048_576), 400, "invalid_credentials");
    expectRefusal(await send(1_048_577), 413, "request_entity_too_large");
  });
});

describe("CORS", () => {
  test("CORS exposes the headers needed to interpret a response", async () => {
    const answer = await wrongSignIn({ headers: { Origin: "http://localhost:3000" } });
    const exposed = (answer.headers.get("access-control-expose-headers") ?? "").toLowerCase().split(/,\s*/);
    expect(exposed).toEqual(expect.arrayContaining(["x-total-count", "link", "x-supabase-api-version"]));
    expect(answer.headers.get("access-control-allow-origin")).toBe("*");
  });

  test("a CORS preflight allows the client's headers, including a configured apikey", async () => {
    const answer = await call("OPTIONS /token", {
      headers: {
        Origin: "http://localhost:3000",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "apikey,authorization,content-type,x-client-info,x-supabase-api-version",
      },
    });
    expect(answer.status).toBe(204);
    const allowed = (answer.headers.get("access-control-allow-headers") ?? "").toLowerCase().split(/,\s*/);
    expect(allowed).toEqual(
      expect.arrayContaining(["apikey", "authorization", "content-type", "x-client-info", "x-supabase-api-version"]),
    );
  });
});

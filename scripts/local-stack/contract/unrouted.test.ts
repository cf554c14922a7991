import { describe, expect, test } from "vitest";
import { newAccount, newSession } from "./support/accounts.ts";
import { admin, call, expectRefusal } from "./support/http.ts";

/** Addresses that only the user of a token may know, or an administrator, with a method that they do not have. */
const ofUsers = [
  "POST /reauthenticate",
  "DELETE /user",
  "PATCH /user",
  "GET /user/no-such-route",
  "POST /user/identities/authorize",
  "GET /factors",
  "GET /factors/x/challenge",
  "GET /passkeys/registration/options",
  "PUT /passkeys/x",
  "OPTIONS /user",
];
const ofAdministrators = ["PATCH /admin/users", "GET /admin/generate_link", "GET /admin/no-such-route"];

describe("another method, or another address, below one that takes a token", () => {
  test.each([...ofUsers, ...ofAdministrators])("%s without one: 401, with a bad one: 403", async (route) => {
    expectRefusal(await call(route), 401, "no_authorization");
    expectRefusal(await call(route, { bearer: "bad" }), 403, "bad_jwt");
  });

  test.each([
    ["POST /reauthenticate", 405],
    ["DELETE /user", 405],
    ["GET /user/no-such-route", 404],
    ["GET /factors", 405],
    ["GET /passkeys/registration/options", 405],
    ["PUT /passkeys/x", 405],
    ["POST /user/identities/authorize", 405],
  ] as const)("%s by a user: %i", async (route, status) => {
    const { accessToken } = await newSession();
    const answer = await call(route, { bearer: accessToken });
    expect(answer.status).toBe(status);
    expect(answer.headers.has("allow")).toBe(status === 405);
  });

  test.each(ofAdministrators)("%s by a user: 403 not_admin", async (route) => {
    const { accessToken } = await newSession();
    expectRefusal(await call(route, { bearer: accessToken }), 403, "not_admin");
  });

  test("by an administrator: 405 or 404", async () => {
    expect((await admin("PATCH /admin/users")).status).toBe(405);
    expect((await admin("GET /admin/no-such-route")).status).toBe(404);
  });

  test("of a factor or an account that is none: 404 first", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await call("GET /factors/x/challenge", { bearer: accessToken }), 404, "validation_failed");
    expectRefusal(await admin("PATCH /admin/users/x"), 404, "validation_failed");
    const { id } = await newAccount();
    expect((await admin(`PATCH /admin/users/${id}`)).status).toBe(405);
  });
});

describe("OPTIONS", () => {
  test("as a preflight: 204, whatever the address", async () => {
    const headers = { Origin: "https://app.example.test", "Access-Control-Request-Method": "PUT" };
    const answer = await call("OPTIONS /user", { headers });
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-methods")).toContain("PUT");
  });
});

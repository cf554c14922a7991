import { describe, expect, test } from "vitest";
import { newAccount, newSession } from "./support/accounts.ts";
import { admin, call, expectRefusal } from "./support/http.ts";

/** Unknown routes below paths that require a user's token. */
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

describe("an unknown method or path below a path that requires a token", () => {
  test.each([...ofUsers, ...ofAdministrators])(
    "the unknown route %s gets 401 without a token and 403 with an invalid one",
    async (route) => {
      expectRefusal(await call(route), 401, "no_authorization");
      expectRefusal(await call(route, { bearer: "bad" }), 403, "bad_jwt");
    },
  );

  test.each([
    ["POST /reauthenticate", 405],
    ["DELETE /user", 405],
    ["GET /user/no-such-route", 404],
    ["GET /factors", 405],
    ["GET /passkeys/registration/options", 405],
    ["PUT /passkeys/x", 405],
    ["POST /user/identities/authorize", 405],
  ] as const)("the unknown route %s gets %i with a user's token", async (route, status) => {
    const { accessToken } = await newSession();
    const answer = await call(route, { bearer: accessToken });
    expect(answer.status).toBe(status);
    expect(answer.headers.has("allow")).toBe(status === 405);
  });

  test.each(ofAdministrators)("the unknown route %s gets 403 not_admin with a user's token", async (route) => {
    const { accessToken } = await newSession();
    expectRefusal(await call(route, { bearer: accessToken }), 403, "not_admin");
  });

  test("an unknown admin method or path gets 405 or 404 for an administrator", async () => {
    expect((await admin("PATCH /admin/users")).status).toBe(405);
    expect((await admin("GET /admin/no-such-route")).status).toBe(404);
  });

  test("an unknown method gets 404 instead of 405 if the factor or account id is invalid", async () => {
    const { accessToken } = await newSession();
    expectRefusal(await call("GET /factors/x/challenge", { bearer: accessToken }), 404, "validation_failed");
    expectRefusal(await admin("PATCH /admin/users/x"), 404, "validation_failed");
    const { id } = await newAccount();
    expect((await admin(`PATCH /admin/users/${id}`)).status).toBe(405);
  });
});

describe("CORS preflight requests", () => {
  test("a preflight OPTIONS request gets 204 for any path", async () => {
    const headers = { Origin: "https://app.example.test", "Access-Control-Request-Method": "PUT" };
    const answer = await call("OPTIONS /user", { headers });
    expect(answer.status).toBe(204);
    expect(answer.headers.get("access-control-allow-methods")).toContain("PUT");
  });
});

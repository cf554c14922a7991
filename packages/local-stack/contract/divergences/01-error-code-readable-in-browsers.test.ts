import { expect, test } from "vitest";
import { newEmail } from "../support/accounts.ts";
import { call } from "../support/http.ts";

// auth-js reads `code` from the body only if the response has the API version in a header it can read.
test("an error echoes the API version in a header that scripts of other origins can read", async () => {
  const answer = await call("POST /token?grant_type=password", {
    body: { email: newEmail(), password: "wrong" },
    headers: { Origin: "http://localhost:3000" },
  });
  expect(answer.headers.get("x-supabase-api-version")).toBe("2024-01-01");
  expect(answer.headers.get("access-control-expose-headers")?.toLowerCase()).toContain("x-supabase-api-version");
});

test("an error for a request without an API version has the old shape and no version header", async () => {
  const body = { email: newEmail(), password: "wrong" };
  const answer = await call("POST /token?grant_type=password", { body, version: null });
  expect(answer.headers.has("x-supabase-api-version")).toBe(false);
  expect(answer.body).toMatchObject({ code: 400, error_code: "invalid_credentials" });
});

import { expect, test } from "vitest";
import { newEmail } from "../support/accounts.ts";
import { call } from "../support/http.ts";

// auth-js reads `code` of the body only where it can see the version in the answer's headers.
test("an error's version is echoed, and exposed to scripts of other origins", async () => {
  const answer = await call("POST /token?grant_type=password", {
    body: { email: newEmail(), password: "wrong" },
    headers: { Origin: "http://localhost:3000" },
  });
  expect(answer.headers.get("x-supabase-api-version")).toBe("2024-01-01");
  expect(answer.headers.get("access-control-expose-headers")?.toLowerCase()).toContain("x-supabase-api-version");
});

test("without the version asked for, neither the echo nor the new shape", async () => {
  const body = { email: newEmail(), password: "wrong" };
  const answer = await call("POST /token?grant_type=password", { body, version: null });
  expect(answer.headers.has("x-supabase-api-version")).toBe(false);
  expect(answer.body).toMatchObject({ code: 400, error_code: "invalid_credentials" });
});

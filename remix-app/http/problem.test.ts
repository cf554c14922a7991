import { expect, test } from "vitest";
import { parseProblem, problem } from "./problem.ts";

test("a problem response has the fields of RFC 9457, our code and the request id", async () => {
  const response = problem("REAUTH_REQUIRED", { requestId: "r-1", members: { requiresReauth: true } });
  expect(response.status).toBe(401);
  expect(response.headers.get("content-type")).toBe("application/problem+json");
  expect(response.headers.get("cache-control")).toBe("private, no-store");
  expect(await response.json()).toEqual({
    type: "/docs/errors#REAUTH_REQUIRED",
    title: "Sign in again to continue",
    status: 401,
    detail: "Sign in again to continue",
    code: "REAUTH_REQUIRED",
    requestId: "r-1",
    requiresReauth: true,
  });
});

test("parses a problem response from an error's text, and returns null for any other value", async () => {
  const text = await problem("NOT_FOUND", { requestId: "r-2" }).text();
  expect(parseProblem(text)?.code).toBe("NOT_FOUND");
  for (const other of ["", "null", "{}", '{"code":"ELSE"}', "<html>", 7, null]) expect(parseProblem(other)).toBeNull();
});

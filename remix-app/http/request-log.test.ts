import { expect, test } from "vitest";
import { requestLogLine } from "./request-log.ts";

test("logs a request without its query, and escapes the path so that it can't forge a second line", () => {
  const line = requestLogLine({
    method: "GET",
    pathname: '/auth/confirm"\nstatus=200',
    status: 400,
    durationMs: 1.25,
    requestId: "r",
    clientAddress: "203.0.113.7",
  });
  expect(line).toBe('status=400 method=GET path="/auth/confirm\\"\\nstatus=200" ms=1.3 request=r address=203.0.113.7');
});

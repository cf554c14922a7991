import { afterEach, expect, test, vi } from "vitest";
import { setLogFormat } from "#shared/log.ts";
import { requestLine } from "../../supabase/functions/_gateway/telemetry/log.ts";
import { logRequest } from "./request-log.ts";

const request = {
  method: "GET",
  pathname: '/auth/confirm"\nstatus=200',
  route: "/auth/confirm",
  status: 400,
  durationMs: 1.25,
  requestId: "r",
  clientAddress: "203.0.113.7",
};

afterEach(() => {
  setLogFormat("text");
  vi.restoreAllMocks();
});

function log(changes: object = {}): string {
  const logged = vi.spyOn(console, "log").mockImplementation(() => {});
  logRequest({ ...request, ...changes });
  return String(logged.mock.lastCall?.[0]);
}

test("logs a request without its query, and escapes the path so that it can't forge a second line", () => {
  expect(log()).toBe('status=400 method=GET path="/auth/confirm\\"\\nstatus=200" ms=1.3 request=r address=203.0.113.7');
});

test("logs a request as JSON with the members of the gateway's lines, and the path and address", () => {
  setLogFormat("json");
  const { path, address, ...shared } = JSON.parse(log());
  expect({ path, address }).toEqual({ path: request.pathname, address: "203.0.113.7" });
  const { method, route, requestId, status } = request;
  const gateway = JSON.parse(requestLine({ method, route, requestId, status, latencyMs: 1 }));
  expect({ ...shared, time: "" }).toEqual({ ...gateway, time: "" });
  expect(JSON.parse(log({ status: 503 })).level).toBe("error");
});

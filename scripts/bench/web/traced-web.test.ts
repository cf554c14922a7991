import { expect, test } from "vitest";
import { busyMs, isRefresh, toIdentity } from "./traced-web.ts";

const call = (beganMs: number, endedMs: number, path = "/rest/v1/x") => ({ method: "GET", path, beganMs, endedMs });

test("counts overlapping calls only once when measuring the time spent waiting", () => {
  expect(busyMs([])).toBe(0);
  expect(busyMs([call(0, 5), call(10, 12)])).toBe(7);
  expect(busyMs([call(2, 6), call(0, 5)])).toBe(6);
  expect(busyMs([call(0, 10), call(2, 3), call(9, 11)])).toBe(11);
});

test("recognizes a call to the identity backend by its path, and a token refresh by its grant type", () => {
  expect([call(0, 1, "/auth/v1/user"), call(0, 1)].map(toIdentity)).toEqual([true, false]);
  expect(
    ["/auth/v1/token?grant_type=refresh_token", "/auth/v1/token?grant_type=password", "/rest/v1/token"].map((path) =>
      isRefresh(call(0, 1, path)),
    ),
  ).toEqual([true, false, false]);
});

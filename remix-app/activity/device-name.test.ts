import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { deviceName } from "./device-name.ts";

describe("a device's name", () => {
  test.each([
    [
      "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36",
      "Chrome on macOS",
    ],
    ["Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:127.0) Gecko/20100101 Firefox/127.0", "Firefox on Windows"],
    [
      "Mozilla/5.0 (iPhone; CPU iPhone OS 17_5 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/17.5 Mobile/15E148 Safari/604.1",
      "Safari on iOS",
    ],
    ["curl/8.5.0", "curl"],
    ["node", "node"],
    ["", "Unknown device"],
    ["<script>alert(1)</script>", "Unknown browser"],
  ])("of %s is %s", (userAgent, expected) => {
    expect(deviceName(userAgent)).toBe(expected);
  });

  test("is of 1 to 100 characters whatever a visitor sends", () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 512 }), (userAgent) => {
        const name = deviceName(userAgent);
        expect(name.length).toBeGreaterThan(0);
        expect(name.length).toBeLessThanOrEqual(100);
      }),
      { numRuns: 2_000 },
    );
  });
});

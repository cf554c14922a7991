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
    ["Gatehouse security check - press approve", "Unknown browser"],
    ["Gatehouse security check - press approve/1.0 x", "Unknown browser"],
    ["curl - press approve/1.0", "Unknown browser"],
    ["Press-approve/2.1 (Windows NT 10.0; Win64; x64)", "Unknown browser on Windows"],
    ["Mozilla/5.0 (compatible; press approve/2.1; +https://evil.example)", "Unknown browser"],
    ["Gatehouse/3 CFNetwork/1494.0.7 Darwin/23.4.0", "Unknown browser"],
    ["okhttp/4.12.0", "okhttp"],
  ])("names the device of user agent %s: %s", (userAgent, expected) => {
    expect(deviceName(userAgent)).toBe(expected);
  });

  test("a device's name contains no free text from the user agent", () => {
    const part = fc.constantFrom(
      "Chrome/1",
      "Mozilla/5.0",
      "Press-approve",
      "Press-approve/1",
      "(Windows NT)",
      " ",
      "/",
      ";",
    );
    const userAgents = fc.array(fc.oneof(part, fc.string({ maxLength: 20 })), { maxLength: 8 });
    fc.assert(
      fc.property(userAgents, (parts) => {
        const name = deviceName(parts.join(""));
        expect(name).toMatch(/^[A-Z\w][\w .-]*$/);
        expect(name).not.toMatch(/press/i);
        expect(name.length).toBeLessThanOrEqual(60);
      }),
      { numRuns: 2_000 },
    );
  });
});

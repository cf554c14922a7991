import { expect, test } from "vitest";
import { isSuspiciousUserAgent } from "./attempts.ts";

test.each([
  "",
  "   ",
  "sqlmap/1.8.2#stable (https://sqlmap.org)",
  "Mozilla/5.00 (Nikto/2.1.6) (Evasions:None) (Test:Port Check)",
  "Mozilla/5.0 (compatible; Nmap Scripting Engine; https://nmap.org/book/nse.html)",
  "Mozilla/5.0 (Hydra)",
  "masscan/1.3",
  "gobuster/3.6",
  "Fuzz Faster U Fool v2.1.0-dev (ffuf)",
  "Mozilla/5.0 zgrab/0.x",
])("user agent %j cannot try credentials", (userAgent) => {
  expect(isSuspiciousUserAgent(userAgent)).toBe(true);
});

test.each([
  "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
  "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Version/18.0 Mobile/15E148 Safari/604.1",
  "Lynx/2.9.2 libwww-FM/2.14",
  "Gatehouse-Mobile/1.0",
  "node",
  "curl/8.9.1",
  "x",
])("user agent %j can try credentials", (userAgent) => {
  expect(isSuspiciousUserAgent(userAgent)).toBe(false);
});

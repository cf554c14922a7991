import { expect, test } from "vitest";
import { requestOrigin } from "./request-facts.ts";

const origins: [string, string] = ["https://app.example.com", "http://localhost:3000"];

test("uses the configured origin that matches the Host header, or the first configured origin if none matches", () => {
  expect(requestOrigin("localhost:3000", origins)).toBe("http://localhost:3000");
  expect(requestOrigin("app.example.com", origins)).toBe("https://app.example.com");
  expect(requestOrigin("evil.example", origins)).toBe("https://app.example.com");
  expect(requestOrigin(null, origins)).toBe("https://app.example.com");
});

import { expect, test } from "vitest";
import { maskEmail } from "./mailed-link.ts";

test.each([
  ["ada.lovelace@example.com", "a•••@example.com"],
  ["a@example.com", "a•••@example.com"],
  ["😀x@example.com", "😀•••@example.com"],
  ['"a@b"@example.com', '"•••@example.com'],
  ["no address", "•••"],
  ["", "•••"],
])("masks the email %j as %j", (email, masked) => {
  expect(maskEmail(email)).toBe(masked);
});

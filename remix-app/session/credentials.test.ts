import { expect, test } from "vitest";
import { emailSchema, newPasswordSchema, signUpSchema } from "./credentials.ts";

test.each([
  "ada@example.com",
  "Ada.Lovelace+gatehouse@mail.example.co.uk",
  "o'neill@example.com",
  "r&d@example.com",
  "who?what=#1!@example.com",
  ".ada.@example.com",
  `${"a".repeat(242)}@example.com`,
])("accepts an email that the identity backend accepts: %s", (email) => {
  expect(emailSchema.parse(` ${email} `)).toBe(email);
});

test.each([
  "",
  "ada",
  "ada@",
  "@example.com",
  "ada@example",
  "ada@-example.com",
  "ada @example.com",
  "ada@example.com, bob@example.com",
  "Ada <ada@example.com>",
  "ada@exa\r\nmple.com",
  `${"a".repeat(243)}@example.com`,
])("refuses an invalid email: %j", (text) => {
  expect(emailSchema.safeParse(text).success).toBe(false);
});

test.each([
  ["seven characters", "1234567", false],
  ["eight", "12345678", true],
  ["72 bytes", "é".repeat(36), true],
  ["73 bytes", `${"é".repeat(36)}a`, false],
])("checks the length of a new password: %s", (_, password, taken) => {
  expect(newPasswordSchema.safeParse(password).success).toBe(taken);
});

test.each([
  ["Ada  Lovelace ", "Ada Lovelace"],
  ["  ", undefined],
])("reads the optional name %j of a sign-up as %j", (name, expected) => {
  const form = { name, email: "ada@example.com", password: "12345678" };
  expect(signUpSchema.safeParse(form).data?.name).toBe(expected);
  expect(signUpSchema.safeParse(form).success).toBe(true);
});

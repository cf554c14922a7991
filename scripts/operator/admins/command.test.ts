import { expect, test } from "vitest";
import { readAdminCommand, usage } from "./command.ts";

const byOperator = "By the operator, on the command line";

test("in the admins command, grant and revoke accept an email, and optionally a role and a reason", () => {
  expect(readAdminCommand(["grant", "ada@example.com"])).toEqual({
    verb: "set",
    email: "ada@example.com",
    role: "admin",
    reason: byOperator,
  });
  expect(readAdminCommand(["revoke", "ada@example.com", "--reason", " left "])).toEqual({
    verb: "set",
    email: "ada@example.com",
    role: null,
    reason: "left",
  });
  expect(readAdminCommand(["grant", "ada@example.com", "--role", "finance"])).toMatchObject({ role: "finance" });
  expect(readAdminCommand(["list"])).toEqual({ verb: "list" });
});

test.each([
  ["203.0.113.7", { address: "203.0.113.7" }],
  ["2001:db8:1:7::9", { address: "2001:db8:1:7::9" }],
  ["2001:db8:1:7::/64", { address: "2001:db8:1:7::" }],
  ["ada@example.com", { email: "ada@example.com" }],
])("in the admins command, unblock accepts %s, and optionally a reason", (typed, subject) => {
  expect(readAdminCommand(["unblock", typed])).toEqual({ verb: "unblock", subject, reason: byOperator });
  const reason = "the office";
  expect(readAdminCommand(["unblock", typed, "--reason", reason])).toEqual({ verb: "unblock", subject, reason });
});

test.each([
  [[], usage],
  [["promote", "ada@example.com"], usage],
  [["grant"], "name an account by its email"],
  [["grant", "ada"], "name an account by its email"],
  [["grant", "ada@example.com", "eve@example.com"], "eve@example.com: one thing too many"],
  [["grant", "ada@example.com", "--reason", " "], "say why with --reason"],
  [["grant", "ada@example.com", "--role", "owner"], "--role is admin or finance"],
  [["revoke", "ada@example.com", "--role", "finance"], "revoke withdraws any role"],
  [["unblock"], "name an IP address, or an account by its email"],
  [["unblock", "203.0.113.0/24"], "name an IP address, or an account by its email"],
  [["unblock", "203.0.113.7", "203.0.113.8"], "203.0.113.8: one thing too many"],
  [["unblock", "203.0.113.7", "--role", "admin"], "unblock has no --role"],
  [["unblock", "203.0.113.7", "--reason", " "], "say why with --reason"],
])("the admins command refuses %j and says what to do", (argv, message) => {
  expect(() => readAdminCommand(argv)).toThrow(message);
});

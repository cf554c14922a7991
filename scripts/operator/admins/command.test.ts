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
  [[], usage],
  [["promote", "ada@example.com"], usage],
  [["grant"], "name an account by its email"],
  [["grant", "ada"], "name an account by its email"],
  [["grant", "ada@example.com", "eve@example.com"], "eve@example.com: one thing too many"],
  [["grant", "ada@example.com", "--reason", " "], "say why with --reason"],
  [["grant", "ada@example.com", "--role", "owner"], "--role is admin or finance"],
  [["revoke", "ada@example.com", "--role", "finance"], "revoke withdraws any role"],
])("the admins command refuses %j and says what to do", (argv, message) => {
  expect(() => readAdminCommand(argv)).toThrow(message);
});

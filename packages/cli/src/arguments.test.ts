import { expect, test } from "vitest";
import { readCommand } from "./arguments.ts";

test.each([
  [[], { verb: "help" }],
  [["connect", "--help"], { verb: "help" }],
  [["login"], { verb: "login", url: undefined, clientId: "gatehouse" }],
  [["login", "--url", "a.example", "--client-id", "x"], { verb: "login", url: "a.example", clientId: "x" }],
  [["connect", "codex", "--model", "m"], { verb: "connect", tool: "codex", workspace: undefined, model: "m" }],
  [["token"], { verb: "token", tool: undefined }],
  [["disconnect", "opencode"], { verb: "disconnect", tool: "opencode" }],
])("the gatehouse command reads the arguments %j", (argv, command) => {
  expect(readCommand(argv)).toEqual(command);
});

test.each([
  [["conect"], "Unknown command: conect"],
  [["connect"], "Name a coding agent."],
  [["connect", "cursor"], "Unknown coding agent: cursor"],
  [["connect", "codex", "claude"], "Unexpected argument: claude"],
  [["status", "codex"], "status takes no argument: codex"],
  [["logout", "--url", "x"], "--url and --client-id are for login."],
  [["token", "--model", "x"], "--workspace and --model are for connect."],
  [["login", "--password", "x"], "Unknown option '--password'"],
  [["doctor", "--env", "production.env"], "doctor runs in a checkout of the platform: npm run gatehouse -- doctor"],
])("the gatehouse command refuses the arguments %j: %s", (argv, message) => {
  expect(() => readCommand(argv)).toThrow(message);
});

import { expect, test } from "vitest";
import { readCommand } from "./arguments.ts";

test.each([
  [[], { verb: "help" }],
  [["connect", "--help"], { verb: "help" }],
  [["login"], { verb: "login", url: undefined, clientId: "gatehouse" }],
  [["login", "--url", "a.example", "--client-id", "x"], { verb: "login", url: "a.example", clientId: "x" }],
  [
    ["connect", "codex", "--model", "m"],
    { verb: "connect", tool: "codex", workspace: undefined, model: "m", limit: undefined },
  ],
  [
    ["connect", "codex", "--limit", "$0.50", "--limit-calls", "200"],
    { verb: "connect", tool: "codex", workspace: undefined, model: undefined, limit: { usd: 0.5, calls: 200 } },
  ],
  [
    ["connect", "codex", "--limit", "999999999.999999"],
    {
      verb: "connect",
      tool: "codex",
      workspace: undefined,
      model: undefined,
      limit: { usd: 999_999_999.999999, calls: undefined },
    },
  ],
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
  [["status", "--limit", "5"], "--limit and --limit-calls are for connect."],
  [["connect", "codex", "--limit-calls", "5"], "--limit-calls needs --limit."],
  [["connect", "codex", "--limit", "0.00"], "--limit takes an amount in US dollars, such as 5 or 0.50: 0.00"],
  [["connect", "codex", "--limit", "1e3"], "--limit takes an amount"],
  [["connect", "codex", "--limit", "1000000000"], "--limit takes an amount"],
  [["connect", "codex", "--limit", "5", "--limit-calls", "0"], "--limit-calls takes a number of calls, such as 200: 0"],
  [["connect", "codex", "--limit", "5", "--limit-calls", "1000000000"], "--limit-calls takes a number of calls"],
  [["login", "--password", "x"], "Unknown option '--password'"],
  [["doctor", "--env", "production.env"], "doctor runs in a checkout of the platform: npm run gatehouse -- doctor"],
])("the gatehouse command refuses the arguments %j: %s", (argv, message) => {
  expect(() => readCommand(argv)).toThrow(message);
});
